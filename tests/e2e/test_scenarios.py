"""Every scenario that comes along holds for the gateway, by the one command that a user's CI has too."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from emulator.scenario.reading import SHIPPED, files_in, read_scenario
from tests.support.artifacts import artifact
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_ports
from tests.support.processes import BIN, ROOT, RunningProcess

pytestmark = pytest.mark.e2e

GATEWAY = "granian gateway.app:app"
BURN = "while True: pass"


def run(folder: Path, *arguments: str) -> RunningProcess:
    """The command, started at the root of this project."""
    log = folder / f"run-{len(list(folder.glob('run-*.log')))}.log"
    return RunningProcess([BIN / "python", "-m", "emulator", "run", *arguments], log=log, cwd=ROOT)


@pytest.mark.timeout(900)
async def test_every_scenario_holds(tmp_path: Path) -> None:
    junit = artifact("scenarios.xml")
    process = run(tmp_path, str(SHIPPED), "--start-gateway", GATEWAY, "--junit", str(junit))
    try:
        status = await process.wait(800)
    finally:
        process.kill_group()
    assert status == 0, process.output()[-20_000:]
    cases = {case.get("name"): case for case in ElementTree.parse(junit).iter("testcase")}
    names = {read_scenario(path).name for path in files_in([SHIPPED])}
    assert set(cases) == names
    assert len(names) >= 25
    # None was left out, as a gateway that lacked something would have it.
    assert [name for name, case in cases.items() if case.find("skipped") is not None] == []


@pytest.mark.timeout(120)
async def test_the_whole_one_in_the_docs_holds(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```yaml\n(# yaml-.*?)```", (ROOT / "docs" / "scenarios.md").read_text(), re.DOTALL
    )
    scenario = tmp_path / "whole.yaml"
    scenario.write_text(example)
    async with run(tmp_path, str(scenario), "--start-gateway", GATEWAY) as process:
        assert await process.wait(90) == 0, process.output()


@pytest.mark.timeout(300)
async def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    """Several times, on an idle machine and on one that has better things to do."""
    scenarios = [str(SHIPPED / f"{name}.yaml") for name in ("kill", "abort")]
    traces = []
    for number in range(4):
        trace = tmp_path / f"trace-{number}.jsonl"
        with _busy(processes=3 if number % 2 else 0):
            process = run(
                tmp_path, *scenarios, "--start-gateway", GATEWAY, "--seed", "7", "--trace", str(trace)
            )
            try:
                assert await process.wait(60) == 0, process.output()
            finally:
                process.kill_group()
        traces.append(trace.read_text())
    assert traces[0].count("\n") > 30
    assert all(trace == traces[0] for trace in traces)


@pytest.mark.timeout(120)
async def test_another_seed_gives_another_trace(tmp_path: Path) -> None:
    """What is random is drawn from it: which of its sessions a flaky replica breaks, and how."""
    scenario = tmp_path / "flaky.yaml"
    scenario.write_text(
        "replicas: {count: 1, capacity: 8, faults: {flaky: {health: 0}}, segment_seconds: 0}\n"
        "sessions: [{name: s, count: 8}]\n"
        "gateway: {environment: {GATEWAY_SESSION__RESUME: false, GATEWAY_SESSION__CONNECT_ATTEMPTS: 1}}\n"
    )
    traces = []
    for seed in ("1", "1", "2"):
        trace = tmp_path / "trace.jsonl"
        process = run(
            tmp_path, str(scenario), "--start-gateway", GATEWAY, "--seed", seed, "--trace", str(trace)
        )
        try:
            assert await process.wait(60) == 0, process.output()
        finally:
            process.kill_group()
        struck = [line for line in trace.read_text().splitlines() if "fault_struck" in line]
        traces.append(struck)
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]


@pytest.mark.timeout(180)
async def test_a_gateway_that_runs_is_played_against_one_scenario_after_the_other(tmp_path: Path) -> None:
    """Replicas die and come back between them, and the gateway stays."""
    port = free_ports(3)
    replicas = [
        {"url": f"http://127.0.0.1:{port + n}", "name": "abc"[n], "max_sessions": 4} for n in range(3)
    ]
    names = ("kill", "abort", "upgrade-503", "kill", "drain", "queue")
    scenarios = [str(SHIPPED / f"{name}.yaml") for name in names]
    async with GatewayProcess(tmp_path, replicas, wait_for="/healthz") as gateway:
        process = run(tmp_path, *scenarios, "--gateway", gateway.http, "--port", str(port))
        try:
            status, said = await process.wait(150), process.output()
        finally:
            process.kill_group()
        assert status == 0, said
        assert said.count("PASS") == 4
        assert "only a gateway that was started here gets signals" in said
        assert "it has max_sessions: 4 for replica a, where the scenario needs 1" in said
        assert gateway.returncode is None


@contextmanager
def _busy(*, processes: int) -> Iterator[None]:
    """Other processes want all the CPU that there is."""
    others = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
