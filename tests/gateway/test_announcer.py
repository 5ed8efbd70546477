"""`python -m gateway announce` as a real process, beside a real server of the fleet."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.fleet.announce import streamers_fleet
from gateway.fleet.member import FleetMember
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, RunningProcess, clean_environment
from tests.support.redis_server import RedisServer
from tests.support.waiting import eventually

URL = "http://127.0.0.1:9"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer("redis", tmp_path)
    yield server
    server.kill()


def announcer(folder: Path, server: RedisServer, *options: str) -> RunningProcess:
    command: list[str | Path] = [BIN / "python", "-m", "gateway", "announce", "--url", URL, *options]
    return RunningProcess(command, log=folder / "announcer.log", env={"GATEWAY_FLEET__URL": server.url})


async def members(server: RedisServer) -> dict[str, FleetMember]:
    async with streamers_fleet(server.url) as fleet:
        return {member.state.value: member for member in (await fleet.view()).members}


async def until(server: RedisServer, state: str) -> FleetMember:
    async def there() -> bool:
        return state in await members(server)

    await eventually(there, f"the replica is {state}")
    return (await members(server))[state]


ID = ("--member-id", "a-1")


async def test_it_serves_drains_by_sigusr1_and_leaves_by_sigterm(tmp_path: Path, server: RedisServer) -> None:
    options = ("--name", "a", "--capacity", "2", "--weight", "3", "--primary", "--cold-start", *ID)
    async with announcer(tmp_path, server, *options) as process:
        member = await until(server, "serving")
        assert (member.id, dict(member.report)) == (
            "a-1",
            {"url": URL, "name": "a", "capacity": 2, "weight": 3.0, "primary": 1, "cold_start": 1},
        )
        process.send_signal(signal.SIGUSR1)
        await until(server, "draining")
        process.send_signal(signal.SIGTERM)
        await process.until(lambda: process.returncode is not None, "it ended")
        assert process.returncode == 0
        assert await members(server) == {}
        assert "fleet_left" in process.output()


async def test_killed_it_is_there_until_it_expires(tmp_path: Path, server: RedisServer) -> None:
    async with announcer(tmp_path, server, "--ttl", "0.6") as process:
        await until(server, "serving")
        process.kill_group()
        assert await members(server)

        async def gone() -> bool:
            return await members(server) == {}

        await eventually(gone, "its entry has expired")


async def test_lingering_it_is_draining_for_a_while(tmp_path: Path, server: RedisServer) -> None:
    async with announcer(tmp_path, server, "--on-stop", "linger", "--ttl", "20") as process:
        await until(server, "serving")
        process.send_signal(signal.SIGINT)
        await process.until(lambda: process.returncode is not None, "it ended")
        assert list(await members(server)) == ["draining"]


async def test_it_outlives_a_server_that_goes_and_comes_back(tmp_path: Path, server: RedisServer) -> None:
    async with announcer(tmp_path, server, "--ttl", "1") as process:
        await until(server, "serving")
        server.kill()
        await process.until(lambda: "fleet_beat_failed" in process.output(), "a beat has failed")
        again = RedisServer("redis", tmp_path, port=server.port)
        try:
            await until(again, "serving")
            await process.until(lambda: "fleet_beats_again" in process.output(), "it beats again")
            assert process.output().count("fleet_beat_failed") == 1
        finally:
            again.kill()


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--url", URL], 1, "name the server of the fleet with --redis, or in GATEWAY_FLEET__URL"),
        (["--url", "a:9101", "--redis", "redis://x"], 1, "must begin with http:// or https://"),
        (["--url", URL, "--redis", "redis://me:hunter2@127.0.0.1:{free}"], 1, "gave no usable answer"),
        (["--url", URL, "--redis", "http://me:hunter2@x"], 1, "url cannot be used"),
        (["--url", URL, "--redis", "redis://x", "--capacity", "-1"], 1, "capacity should be"),
        (["--url", URL, "--redis", "redis://x", "--fleet", "a:b"], 1, "no colon"),
        (["--redis", "redis://x"], 2, "--url"),
        (["--url", URL, "--ttl", "nan"], 2, "should be a number of seconds above 0, not 'nan'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(options: list[str], status: int, said: str) -> None:
    words = [option.format(free=free_port()) for option in options]
    done = subprocess.run(
        [BIN / "python", "-m", "gateway", "announce", *words],
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
