"""The runner against gateways that are not ours: it works unchanged, and tells what they can and cannot."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from emulator.scenario.reading import SHIPPED, files_in, read_scenario
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, RunningProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(150)]

PEERS = ("haproxy", "nginx")


async def played(folder: Path, peer: str, *names: str) -> tuple[int, str]:
    """The exit status and the output of a run of these scenarios."""
    scenarios = [str(SHIPPED / f"{name}.yaml") for name in names]
    process = RunningProcess(
        [BIN / "python", "-m", "emulator", "run", *scenarios, "--start-gateway", f"scripts/peers/{peer}"],
        log=folder / f"{peer}.log",
        cwd=ROOT,
    )
    try:
        return await process.wait(120), process.output()
    finally:
        process.kill_group()


def verdicts(output: str) -> dict[str, str]:
    """PASS, FAIL or ---- of each scenario."""
    return {name: word for word, name in re.findall(r"^(PASS|FAIL|----)  (\S+)", output, re.MULTILINE)}


@pytest.mark.parametrize("peer", PEERS)
async def test_what_every_proxy_can_passes(tmp_path: Path, peer: str) -> None:
    names = ("upgrade-401", "upgrade-503", "refused-connect", "close-codes", "drain")
    status, output = await played(tmp_path, peer, *names)
    assert status == 0, output
    assert verdicts(output) == dict.fromkeys(names, "PASS")


@pytest.mark.parametrize("peer", PEERS)
async def test_what_only_a_gateway_of_this_protocol_can_fails_with_what_was_missed(
    tmp_path: Path, peer: str
) -> None:
    status, output = await played(tmp_path, peer, "kill", "abort")
    assert status == 1, output
    assert verdicts(output) == {"kill": "FAIL", "abort": "FAIL"}
    assert "no close frame (1006) by the gateway, expected close 1000" in output


async def test_haproxy_tells_a_warming_replica_from_a_ready_one_and_lets_clients_wait(tmp_path: Path) -> None:
    status, output = await played(tmp_path, "haproxy", "warming", "queue")
    assert status == 0, output


@pytest.mark.parametrize("peer", PEERS)
async def test_what_cannot_be_asked_is_no_failure(tmp_path: Path, peer: str) -> None:
    status, output = await played(tmp_path, peer, "unhealthy-in-status")
    assert status == 0, output
    assert verdicts(output) == {"unhealthy-in-status": "----"}


@pytest.mark.parametrize("peer", PEERS)
async def test_a_peer_leaves_nothing_behind(tmp_path: Path, peer: str) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = RunningProcess(
        [ROOT / "scripts" / "peers" / peer],
        log=tmp_path / "peer.log",
        env={
            "GRANIAN_PORT": str(free_port()),
            "REPLICA_URLS": "http://127.0.0.1:1",
            "TMPDIR": str(folder),
        },
    )
    try:
        await eventually(lambda: len(process.tree()) >= 2 and any(folder.iterdir()), "the proxy runs")
        everyone = process.tree()
        await process.stop()
        await eventually(lambda: not any(_lives(each) for each in everyone), "all of it is gone")
        assert list(folder.iterdir()) == []
    finally:
        process.kill_group()


def test_the_table_in_the_docs_has_every_scenario() -> None:
    names = {read_scenario(path).name for path in files_in([SHIPPED])}
    told = set(
        re.findall(r"^\| \[([a-z0-9-]+)\]", (ROOT / "docs" / "comparison.md").read_text(), re.MULTILINE)
    )
    assert told == names, "python -m scripts.comparison makes it anew"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
