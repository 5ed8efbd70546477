"""The documents say what the code does: tables, codes, links and commands are held against it."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from websockets.exceptions import ConnectionClosed

from emulator.cli.serve import DEFAULT_PORT
from emulator.faults import CATALOGUE, fault_from
from emulator.replica.spec import ReplicaSpec
from gateway import errors
from gateway.settings import load
from scripts.reference import DOCS, PIECES, placed
from tests.emulator.sessions import session
from tests.support.curl import HERE, curl
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.processes import BIN, ROOT, RunningProcess, clean_environment
from tests.support.waiting import eventually

README = (ROOT / "README.md").read_text()
SESSIONS = (DOCS / "sessions.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def ended_sessions(
    kind: type[errors.SessionEnded] = errors.SessionEnded,
) -> Iterator[type[errors.SessionEnded]]:
    """Every way in which the gateway ends a session: the classes that name a close reason of their own."""
    if "close_reason" in vars(kind):
        yield kind
    for child in kind.__subclasses__():
        yield from ended_sessions(child)


@pytest.mark.parametrize("name", PIECES)
def test_what_is_made_from_the_code_is_up_to_date(name: str) -> None:
    file, make = PIECES[name]
    text = (DOCS / file).read_text()
    assert text == placed(text, name, make()), "python -m scripts.reference makes it anew"


@pytest.mark.parametrize("package", ["gateway", "emulator", "infra"])
def test_every_module_has_its_line_on_the_architecture_page(package: str) -> None:
    page = (DOCS / "architecture.md").read_text()
    for path in (ROOT / package).rglob("*.py"):
        if not path.stem.startswith("__"):
            name = path.relative_to(ROOT / package).with_suffix("").as_posix()
            assert f"| `{name}` |" in page, f"{name} says nothing of itself in its first paragraph"


def test_every_file_that_the_architecture_page_speaks_of_is_there() -> None:
    page = (DOCS / "architecture.md").read_text()
    for name in re.findall(r"[`\"]((?:session|replicas|routes|settings|discovery)/\w+)", page):
        assert (ROOT / "gateway" / f"{name}.py").exists(), name


def test_every_log_line_of_a_session_is_explained() -> None:
    page = (DOCS / "sessions.md").read_text()
    for call in _log_lines("session", "service", "opening"):
        event, *fields = call
        assert f"| `{event}` |" in page, event
        if event == "session_ended":
            assert not [field for field in fields if f"`{field}`" not in page]


def test_every_reason_against_a_resume_is_explained() -> None:
    page = (DOCS / "sessions.md").read_text()
    source = "".join(path.read_text() for path in (ROOT / "gateway" / "session").glob("*.py"))
    for reason in ["passthrough", *re.findall(r'\bgive_up\("(\w+)"\)', source)]:
        assert f"| `{reason}` |" in page, reason


def _log_lines(*modules: str) -> Iterator[list[str]]:
    """The event and the fields of each log line in these files of gateway/session/."""
    for module in modules:
        for node in ast.walk(ast.parse((ROOT / "gateway" / "session" / f"{module}.py").read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "log_line":
                fields = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
                for event in ast.walk(node.args[0]):
                    if isinstance(event, ast.Constant) and isinstance(event.value, str):
                        yield [event.value, *fields]


@pytest.mark.parametrize("cause", list(ended_sessions()), ids=lambda cause: cause.__name__)
def test_every_close_code_is_explained(cause: type[errors.SessionEnded]) -> None:
    table = SESSIONS.partition("## What a client sees")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if f"`{cause.close_reason}`" in row]
    assert rows, f"{cause.close_reason} is not in the table"
    if cause not in (errors.ClientRefused, errors.GatewayDraining):  # told by status, before any close
        assert any(f"close {cause.close_code} `{cause.close_reason}`" in row for row in rows), rows
    if cause.code is not None and cause is not errors.InternalError:
        assert f"`{cause.code}`" in table or f'"{cause.code}"' in table


def test_the_table_tells_which_losses_are_worth_another_try() -> None:
    lost = [row for row in SESSIONS.splitlines() if f"`{errors.ReplicaLost.close_reason}` |" in row]
    for cause in (errors.ReplicaLost, errors.PoisonSuspected):
        assert any((", not retryable" not in row) is cause.retryable for row in lost), cause


def test_every_link_leads_to_a_file() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_short_table_in_the_readme_says_the_same() -> None:
    rows = README.partition("## What a client sees")[2].partition("\n## ")[0].splitlines()
    assert [row for row in rows if row.startswith("|") and row not in SESSIONS.splitlines()] == []


def test_the_settings_in_the_readme_load(tmp_path: Path) -> None:
    (example,) = blocks(README, "yaml")
    (tmp_path / "gateway.yaml").write_text(example)
    assert len(load({}, tmp_path).router.replicas) == 2


def test_the_file_that_the_repository_ships_loads() -> None:
    settings = load({}, ROOT)
    assert [replica.name for replica in settings.router.replicas] == ["a", "b", "c"]
    assert settings.router.host == "127.0.0.1"


def test_that_file_fits_the_emulator_as_it_starts_by_itself() -> None:
    settings = load({}, ROOT)
    assert {replica.max_sessions for replica in settings.router.replicas} == {ReplicaSpec("a").capacity}
    ports = [DEFAULT_PORT + number for number in range(3)]
    assert [replica.url for replica in settings.router.replicas] == [f"http://127.0.0.1:{p}" for p in ports]


def test_every_program_in_the_readme_is_there() -> None:
    for command in _commands():
        program, *arguments = shlex.split(command, comments=True)
        match program:
            case "python":
                assert arguments[0] == "-m"
                assert (ROOT / arguments[1] / "__main__.py").exists(), command
            case "granian":
                assert (BIN / "granian").exists()
                assert arguments == ["gateway.app:app"], "the verbatim command has no flags"
            case "curl":
                _check_curl(arguments)
            case _:
                assert (ROOT / program).is_file(), command
    for script in re.findall(r"`(scripts/\w+)`", README):
        assert (ROOT / script).is_file(), script


def _commands() -> list[str]:
    lines = [line for block in blocks(README, "bash") for line in block.splitlines()]
    return [line for line in lines if shlex.split(line, comments=True)]


def _check_curl(arguments: list[str]) -> None:
    """A fault in a curl command exists and takes the fields that it is given."""
    for argument in arguments:
        if found := re.search(r"/faults/(\w+)$", argument):
            body = arguments[arguments.index("-d") + 1] if "-d" in arguments else "{}"
            fault_from(found[1], yaml.safe_load(body))


@pytest.mark.e2e
async def test_the_client_in_the_readme_gets_its_segment(tmp_path: Path) -> None:
    example, _ = blocks(README, "python")
    url = "ws://127.0.0.1:8000/v1/stream"
    assert example.count(url) == 1
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.1") as emulator:
        async with GatewayProcess(tmp_path, emulator.settings()) as gateway:
            (tmp_path / "client.py").write_text(example.replace(url, gateway.ws))
            said = (await _client_said(tmp_path)).splitlines()
            await gateway.until_no_sessions()
            for name in emulator.urls:
                await emulator.kill(name)
            lost = await _client_said(tmp_path)
        nobody = await _client_said(tmp_path)
    assert re.search(r"^the session has ended: received 1013 .* no_healthy_replica", lost, re.MULTILINE), lost
    assert nobody.startswith("no session to be had: "), nobody
    types = [json.loads(line)["type"] for line in said if line.startswith("{")]
    assert types[-1] == "ltx2_segment_complete"
    assert any(line.endswith(" bytes of media") for line in said)


async def _client_said(folder: Path) -> str:
    """What the client of the README prints; it ends without a traceback, whatever happens to it."""
    command = [str(BIN / "python"), "client.py"]
    env = {"NO_PROXY": "127.0.0.1"}
    async with RunningProcess(command, log=folder / "client.log", env=env, cwd=folder) as client:
        assert await client.wait() == 0, client.output()
        assert "Traceback" not in client.output(), client.output()
        return client.output()


@pytest.mark.e2e
async def test_breaking_a_replica_works_from_top_to_bottom(tmp_path: Path) -> None:
    section = README.partition("## Break a replica on purpose")[2].partition("\n## ")[0]
    shown: list[str] = []
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05", "--flaky", "b") as emulator:
        async with GatewayProcess(tmp_path, emulator.settings()) as gateway:
            for command in blocks(section, "bash")[0].splitlines():
                words = shlex.split(command, comments=True)
                match words:
                    case []:
                        continue
                    case ["curl", *_]:
                        await curl(command, emulator.control)
                    case ["python", "-m", "gateway", "status", "--url", "http://127.0.0.1:8000"]:
                        await eventually(lambda: _is_unhealthy(gateway.http, "a"), "the gateway has seen it")
                        continue
                    case _:
                        raise AssertionError(f"nobody knows how to follow {command}")
                path = words[-1] if words[-2] != "-d" else words[-3]
                shown.append(await _shown_by(emulator, path.removeprefix(HERE)))
    assert shown == [
        "a is killed",
        "a is running",
        "c is paused",
        "c is running",
        "abort strikes",
        "gpu_error strikes",
        "all as new",
        "flaky stands",
    ]


def _is_unhealthy(url: str, name: str) -> bool:
    command = [str(BIN / "python"), "-m", "gateway", "status", "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return any(row.split()[0] == name and "unhealthy" in row for row in done.stdout.splitlines()[2:])


async def _shown_by(emulator: EmulatorProcess, path: str) -> str:
    """What people see after the command with this path, with the faults that stand by then."""
    async with emulator.api() as api:
        match path.split("/")[1:]:
            case ["replicas", name, "faults", "flaky"]:
                return f"{next(iter((await api.replica(name)).faults))} stands"
            case ["replicas", name, "faults", fault]:
                before = await api.last_event()
                for _ in range(60):
                    async with session((await api.replica(name)).ws_url) as client:
                        await client.open()
                        await client.send({"type": "segment_prompt_source", "prompt": "a pier"})
                        with suppress(ConnectionClosed):
                            seen = await client.receive_until_any("ltx2_segment_complete", "error")
                            assert seen.messages[-1].get("code") in (None, "worker_failed")
                    struck = (await api.events(before, replica=name, kinds=["fault_struck"])).events
                    if any(event.detail["fault"] == fault for event in struck):
                        return f"{fault} strikes"
                return f"{fault} strikes nobody"
            case ["replicas", name, _]:
                return f"{name} is {(await api.replica(name)).state}"
            case _:
                seen_now = await api.replicas()
                assert all(one.state == "running" and not one.faults for one in seen_now)
                return "all as new"


def test_nobody_is_sent_to_an_index_for_this_package() -> None:
    sources = [path for folder in ("gateway", "emulator", "infra") for path in (ROOT / folder).rglob("*.py")]
    for path in [*PAGES, *sources]:
        assert not re.search(r"pip install (?:-\S+ )*['\"]?streamhold", path.read_text()), path


def test_every_fault_in_an_example_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"/faults/(\w+)", page.read_text()):
            assert name in CATALOGUE, f"{page.name}: {name}"


@pytest.mark.parametrize("command", [["gateway", "check"], ["gateway", "--help"], ["emulator", "--help"]])
def test_the_programs_run_from_the_root(command: list[str]) -> None:
    done = subprocess.run(
        [BIN / "python", "-m", *command],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_ci_runs_the_readmes_second_command() -> None:
    scripts = blocks(README, "bash")[0].splitlines()
    second = scripts[1].split()[0]
    assert second == "scripts/test"
    assert second in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_a_page_fit_a_screen(page: Path) -> None:
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        assert len(line) <= 130 or line.startswith("|"), f"{page.name}:{number}"
