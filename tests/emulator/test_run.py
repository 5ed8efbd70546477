"""`python -m emulator run`, as people and CI servers call it: verdicts, files, exit statuses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from emulator.cli import main
from emulator.scenario.reading import SHIPPED
from tests.support.emulator_process import EmulatorProcess
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, RunningProcess, clean_environment
from tests.support.waiting import eventually

GRANIAN = "granian gateway.app:app"
WRAPPED = "sh -c 'setsid sleep 600 & granian gateway.app:app & wait'"
"""A script that leaves its children behind; one of them has a session of its own, and the output open."""
FAKE = f"{sys.executable} -m tests.support.fake_gateway"
PASSES = """\
replicas: {count: 2}
sessions: [{name: s, prompts: 2}]
expect: {sessions: {s: {segments: all, media: undisturbed, close: 1000}}}
"""
FAILS = """\
replicas: {count: 2}
sessions: [{name: s}]
timeline: [{when: {replica: '*', event: segment_start}, kill: '*'}]
expect: {sessions: {s: {close: 1000}}}
"""
LONG = """\
replicas: {count: 2, segment_seconds: 1, isolate: process}
sessions: [{name: s, prompts: 1000}]
deadline: 600s
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def run(folder: Path, *arguments: str) -> RunningProcess:
    """The command, started in `folder` (where no gateway.yaml is)."""
    number = len(list(folder.glob("run-*.log")))
    return RunningProcess(
        [BIN / "python", "-m", "emulator", "run", *arguments],
        log=folder / f"run-{number}.log",
        env={"PYTHONPATH": str(ROOT)},
        cwd=folder,
    )


async def result(folder: Path, *arguments: str, timeout: float = 50) -> tuple[int, str]:
    """Its exit status and its output."""
    process = run(folder, *arguments)
    try:
        return await process.wait(timeout), process.output()
    finally:
        process.kill_group()


# Verdicts


async def test_all_as_expected_is_exit_status_0_with_files(tmp_path: Path) -> None:
    scenario = write(tmp_path, "fine", PASSES)
    junit, trace = tmp_path / "out.xml", tmp_path / "trace.jsonl"
    status, said = await result(
        tmp_path,
        scenario,
        "--start-gateway",
        GRANIAN,
        "--junit",
        str(junit),
        "--trace",
        str(trace),
        "--seed",
        "5",
    )
    assert status == 0, said
    lines = said.splitlines()
    assert lines[0].startswith("PASS  fine")
    assert any("segment 1 complete" in line for line in lines)
    assert lines[-1].startswith("1 scenario: 1 passed")
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    first = json.loads(trace.read_text().splitlines()[0])
    assert first == {"scenario": "fine", "seed": 5, "passed": True}


async def test_a_reader_that_goes_away_changes_no_verdict(tmp_path: Path) -> None:
    scenarios = [write(tmp_path, "fine", PASSES), write(tmp_path, "lost", FAILS)]
    reading, writing = os.pipe()
    os.close(reading)
    process = await asyncio.create_subprocess_exec(
        *(str(BIN / "python"), "-m", "emulator", "run", *scenarios, "--start-gateway", GRANIAN),
        cwd=tmp_path,
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    try:
        async with asyncio.timeout(50):
            _, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert (process.returncode, complaints.decode()) == (1, "")


async def test_something_else_than_expected_is_exit_status_1(tmp_path: Path) -> None:
    scenarios = [write(tmp_path, "fine", PASSES), write(tmp_path, "lost", FAILS)]
    junit = tmp_path / "out.xml"
    status, said = await result(tmp_path, *scenarios, "--start-gateway", GRANIAN, "--junit", str(junit))
    assert status == 1, said
    assert "session s: close 1011 'replica_lost' by the gateway, expected close 1000" in said
    assert "kill *" in said
    assert "the gateway's last lines:" in said
    assert "2 scenarios: 1 passed, 1 failed" in said
    failure = ElementTree.parse(junit).getroot().find(".//failure")
    assert failure is not None
    assert "expected close 1000" in (failure.get("message") or "")


async def test_one_that_expects_nothing_is_warned_of(tmp_path: Path) -> None:
    scenario = write(tmp_path, "fine", "replicas: {count: 1}\n")
    junit = tmp_path / "out.xml"
    status, said = await result(tmp_path, scenario, "--start-gateway", GRANIAN, "--junit", str(junit))
    assert status == 0, said
    assert "note: it expects nothing: whatever its sessions and replicas see, it passes" in said
    assert "it expects nothing" in junit.read_text()


async def test_what_a_gateway_cannot_is_left_out(tmp_path: Path) -> None:
    scenario = write(tmp_path, "resume", PASSES + "gateway: {needs: [resume]}\n")
    status, said = await result(tmp_path, scenario, "--start-gateway", GRANIAN, "--without", "resume")
    assert status == 0, said
    assert "cannot: the gateway does not move a running session to another replica" in said


# Gateways that misbehave


@pytest.mark.parametrize(
    ("how", "text", "said"),
    [
        ("ends", PASSES, "cannot live like that"),
        ("dies", PASSES + "deadline: 20s\n", "gateway: ended with status 3"),
        ("orphans", PASSES + "deadline: 20s\n", "gateway: ended with status 3"),
    ],
)
async def test_a_gateway_that_ends_fails_the_scenario(tmp_path: Path, how: str, text: str, said: str) -> None:
    scenario = write(tmp_path, "fine", text)
    status, output = await result(tmp_path, scenario, "--start-gateway", f"{FAKE} {how}")
    assert status == 1, output
    assert said in output
    assert f"fake gateway: {how}" in output


async def test_a_gateway_without_that_status_is_not_asked_for_it(tmp_path: Path) -> None:
    scenario = write(tmp_path, "status", "expect: {status: {replicas: {a: healthy}}}\n")
    status, said = await result(tmp_path, scenario, "--start-gateway", f"{FAKE} well")
    assert status == 0, said
    assert "cannot: the gateway does not tell on GET /status" in said


# One gateway that runs already


async def test_scenarios_are_played_one_by_one_against_a_gateway_that_runs(tmp_path: Path) -> None:
    """The replica that is there already stands in for a gateway: what it does is told, and held against."""
    async with EmulatorProcess(tmp_path, replicas=1) as standing:
        port = free_port()
        scenarios = [write(tmp_path, name, PASSES) for name in ("one", "two")]
        gateway = next(iter(standing.urls.values()))
        status, said = await result(tmp_path, *scenarios, "--gateway", gateway, "--port", str(port))
        assert status == 0, said
        assert [line.split()[1] for line in said.splitlines() if line.startswith("PASS")] == ["one", "two"]
        assert await standing.sessions_total() == {"a": 2}


async def test_a_signal_is_for_a_gateway_that_was_started_here(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, replicas=1) as standing:
        scenario = write(tmp_path, "drain", "timeline: [{at: 0s, gateway: SIGTERM}]\n")
        gateway = next(iter(standing.urls.values()))
        status, said = await result(tmp_path, scenario, "--gateway", gateway, "--port", str(free_port()))
        assert status == 0, said
        assert "only a gateway that was started here gets signals" in said


async def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, replicas=1) as standing:
        gateway = next(iter(standing.urls.values()))
        taken = gateway.rpartition(":")[2]
        scenario = write(tmp_path, "fine", PASSES)
        status, said = await result(tmp_path, scenario, "--gateway", gateway, "--port", taken)
        assert status == 2, said
        assert f"port {taken} of replica a cannot be opened" in said
        assert f"something else listens at {taken}, such as an emulator that still runs; stop it" in said
        assert "Traceback" not in said


async def test_a_gateway_out_of_reach_is_told(tmp_path: Path) -> None:
    scenario = write(tmp_path, "fine", PASSES)
    url = f"http://127.0.0.1:{free_port()}"
    status, said = await result(tmp_path, scenario, "--gateway", url)
    assert status == 2, said
    assert said.strip() == f"run: --gateway {url}: no gateway answers there"


# What cannot be followed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fine.yaml"], "one of the arguments --gateway --start-gateway is required"),
        (["fine.yaml", "--gateway", "x", "--start-gateway", "y"], "not allowed with argument"),
        (["--start-gateway", "true"], "the following arguments are required: FILE"),
        (["none.yaml", "--start-gateway", "true"], "none.yaml: there is no such file"),
        (["broken.yaml", "--start-gateway", "true"], "broken.yaml:2:1: timline: "),
        (["empty", "--start-gateway", "true"], "empty: no scenario file there"),
        (["fine.yaml", "--start-gateway", "no-such-thing"], "there is no command 'no-such-thing' on PATH"),
        (["fine.yaml", "--start-gateway", ""], "--start-gateway needs a command"),
        (["fine.yaml", "--gateway", "localhost:8000"], "should be a URL such as http://127.0.0.1:8000"),
        (["fine.yaml", "--gateway", "http://h:x"], "should be a URL such as"),
        (["fine.yaml", "--gateway", "http://h:1/ws"], "should be scheme, host and port alone"),
        (["fine.yaml", "--gateway", "http://h:1", "--port", "0"], "--port 0"),
        (["fine.yaml", "--gateway", "http://h:1", "--jobs", "2"], "--jobs goes with --start-gateway"),
        (["fine.yaml", "--start-gateway", "true", "--port", "1"], "--port goes with --gateway"),
        (["fine.yaml", "--start-gateway", "true", "--junit", "empty"], "--junit empty is a directory"),
        (["fine.yaml", "--start-gateway", "true", "--trace", "no/t"], "--trace no/t cannot be written"),
        (["fine.yaml", "--start-gateway", "true", "--without", "wings"], "there is no need 'wings'"),
        (["fine.yaml", "--start-gateway", "true", "--jobs", "0"], "must be a whole number of 1 or more"),
        (["fine.yaml", "--start-gateway", "true", "--seed", "x"], "must be a whole number"),
    ],
)
def test_a_command_that_cannot_be_followed_is_exit_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    write(tmp_path, "fine", PASSES)
    write(tmp_path, "broken", "replicas: {count: 2}\ntimline: []\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _status(arguments) == 2
    assert said in capsys.readouterr().err


def test_all_problems_of_all_files_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [write(tmp_path, name, "timline: []\nsessions: 3\n") for name in ("one", "two")]
    assert _status([*files, "--start-gateway", "true"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4


def _status(arguments: list[str]) -> int:
    """What the command exits with, in this process: nothing is started by what is refused."""
    try:
        return main(["run", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


# The end before the end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_whatever_ends_a_run_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    process = run(tmp_path, write(tmp_path, "long", LONG), "--start-gateway", WRAPPED)
    try:
        # The command, two replicas, the keeper, the script, and below it the gateway's two and one more.
        await eventually(lambda: len(process.tree()) >= 8, "all is started")
        everyone = process.tree()
        process.send_signal(number, group=number == signal.SIGINT)
        status = await process.wait(12)
        if number == signal.SIGKILL:
            assert status == -signal.SIGKILL
        else:
            assert (status, process.output().strip()) == (130, "run: stopped")
        await eventually(
            lambda: not any(_lives(each) for each in everyone), "all of them are gone", timeout=40
        )
    finally:
        process.kill_group()


async def test_two_runs_side_by_side_do_not_meet(tmp_path: Path) -> None:
    scenario = str(SHIPPED / "kill.yaml")
    both = [run(tmp_path, scenario, "--start-gateway", GRANIAN) for _ in range(2)]
    try:
        for process in both:
            assert await process.wait(50) == 0, process.output()
    finally:
        for process in both:
            process.kill_group()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
