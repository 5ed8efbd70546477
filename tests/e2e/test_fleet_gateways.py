"""Gateways that share replicas through a real store: a place is one for all, and none is lost for long."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import (
    LAUNCHES,
    GatewayProcess,
    Launch,
    gateway_command,
    gateway_environment,
)
from tests.support.held_clients import Held, clients_of
from tests.support.ports import free_port
from tests.support.processes import RunningProcess
from tests.support.redis_server import KINDS, Kind, RedisServer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TTL_SECONDS = 3.0
CAPACITY = 2
SLOWLY: dict[str, Any] = {"fleet__ttl_seconds": 60, "fleet__every_seconds": 25}
"""Beats that do not say something new come too seldom to be the reason for anything in a test."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[Kind, RedisServer]]:
    servers: dict[Kind, RedisServer] = {}
    yield servers
    for server in servers.values():
        server.kill()


def in_fleet(url: str, **more: object) -> dict[str, object]:
    return {
        "fleet__backend": "redis",
        "fleet__url": url,
        "fleet__ttl_seconds": TTL_SECONDS,
        "fleet__every_seconds": 0.3,
        "drain__timeout_seconds": 0,
        **more,
    }


def gateway_for(
    folder: Path, emulator: EmulatorProcess, server: RedisServer, *, workers: int = 1, **more: Any
) -> GatewayProcess:
    limits = emulator.settings(**{name: {"max_sessions": CAPACITY} for name in emulator.urls})
    return GatewayProcess(folder, limits, settings=in_fleet(server.url, **more), workers=workers)


async def members(gateway: GatewayProcess) -> dict[str, str]:
    """Id and state of each, as this gateway sees them."""
    fleet = (await gateway.get("/status")).json()["fleet"]
    return {one["id"]: one["state"] for one in fleet["members"]}


async def until_members(gateway: GatewayProcess, **states: str) -> None:
    """Return once the gateway sees these: `_` in a name stands for a colon."""
    wanted = {name.replace("_", ":"): state for name, state in states.items()}

    async def there() -> bool:
        return await members(gateway) == wanted

    try:
        await eventually(there, f"the members are {wanted}", timeout=30)
    except AssertionError as error:
        raise gateway.failure(f"{error}; they are {await members(gateway)}") from None


async def elsewhere(gateway: GatewayProcess) -> list[int]:
    """Sessions of other gateways on each replica, in order."""
    found: list[dict[str, Any]] = (await gateway.get("/status")).json()["replicas"]
    return [one["elsewhere_sessions"] for one in found]


async def until_elsewhere(gateway: GatewayProcess, *counts: int) -> None:
    async def there() -> bool:
        return await elsewhere(gateway) == list(counts)

    try:
        await eventually(there, f"elsewhere are {counts}", timeout=30)
    except AssertionError as error:
        raise gateway.failure(f"{error}; there are {await elsewhere(gateway)}") from None


async def one_drains_and_one_has_left(gateway: GatewayProcess) -> bool:
    found = await members(gateway)
    return len(found) == 2 and sorted(found.values()) == ["draining", "serving"]


async def printed_status(folder: Path, gateway: GatewayProcess) -> str:
    command: list[str | Path] = [sys.executable, "-m", "gateway", "status", "--url", gateway.http]
    async with RunningProcess(command, log=folder / "status.log") as process:
        assert await process.wait() == 0, process.output()
        return process.output()


@pytest.mark.parametrize("kind", KINDS)
async def test_two_gateways_fill_the_replicas_exactly_and_the_places_of_a_killed_one_are_taken(
    tmp_path: Path, servers: dict[Kind, RedisServer], kind: Kind
) -> None:
    server = servers[kind] = RedisServer(kind, tmp_path)
    async with AsyncExitStack() as running:
        enter = running.enter_async_context
        words = ("--capacity", str(CAPACITY), "--segment-seconds", "0.05")
        emulator = await enter(EmulatorProcess(tmp_path, *words, replicas=4))
        x = await enter(gateway_for(tmp_path, emulator, server, fleet__member_id="x"))
        y = await enter(gateway_for(tmp_path, emulator, server, fleet__member_id="y"))
        await until_members(x, x="serving", y="serving")
        of_x, of_y = await enter(clients_of(x)), await enter(clients_of(y))

        served: list[Held] = []
        for number in range(3):
            served.append(of_x.come(f"x{number}"))
            await served[-1].until_served()
        await until_elsewhere(y, 2, 1, 0, 0)
        for number in range(5):
            served.append(of_y.come(f"y{number}"))
            await served[-1].until_served()
        await until_elsewhere(x, 0, 1, 2, 2)
        ninth = of_x.come("ninth")
        await ninth.until_waiting(0)
        assert await emulator.sessions_total() == dict.fromkeys("abcd", CAPACITY), (
            "nobody was sent to a full one"
        )

        served[0].let_go()
        await served[0].over()
        await ninth.until_served()
        tenth = of_x.come("tenth")
        await tenth.until_waiting(0)
        text = await printed_status(tmp_path, x)
        assert re.search(
            r"^fleet gateways: 2 members, seen [\d.]+ s ago, hash [0-9a-f]{16}; share 500$", text, re.M
        )
        assert re.search(r"^x \(this one\) +serving +3 +1 +", text, re.M), text
        assert re.search(r"^y +serving +5 +0 +", text, re.M), text

        y.kill_group()
        await until_members(x, x="serving")
        await tenth.until_served()
        assert await elsewhere(x) == [0, 0, 0, 0]
        more = [of_x.come(f"more {number}") for number in range(5)]
        for held in more[:4]:
            await held.until_served()
        await more[4].until_waiting(0)
        for held in (served[1], served[2], ninth, tenth, *more[:4]):
            held.let_go()
            await held.over()
            held.assert_served()
        await more[4].until_served()


async def test_of_two_that_take_the_last_place_within_a_beat_the_replica_refuses_one_which_waits(
    tmp_path: Path, servers: dict[Kind, RedisServer]
) -> None:
    server = servers["redis"] = RedisServer("redis", tmp_path)
    async with AsyncExitStack() as running:
        enter = running.enter_async_context
        words = ("--capacity", str(CAPACITY), "--segment-seconds", "0.05")
        emulator = await enter(EmulatorProcess(tmp_path, *words, replicas=1))
        x, y = [await enter(gateway_for(tmp_path, emulator, server, **SLOWLY)) for _ in "xy"]
        of_x, of_y = await enter(clients_of(x)), await enter(clients_of(y))
        served = [of_x.come("one"), of_x.come("two")]
        for held in served:
            await held.until_served()
        assert await elsewhere(y) == [0], "it has not heard of them"
        third = of_y.come("three")
        await third.until_waiting(0)
        assert (await emulator.sessions_total())["a"] > CAPACITY, "the replica has refused it"
        served[0].let_go()
        await third.until_served()
        for held in (served[1], third):
            held.let_go()
            await held.over()
            held.assert_served()


async def test_every_worker_is_a_member_and_says_at_once_that_it_drains(
    tmp_path: Path, servers: dict[Kind, RedisServer]
) -> None:
    server = servers["valkey"] = RedisServer("valkey", tmp_path)
    async with AsyncExitStack() as running:
        enter = running.enter_async_context
        emulator = await enter(EmulatorProcess(tmp_path, "--segment-seconds", "0.05", replicas=1))
        two = {**SLOWLY, "fleet__member_id": "two", "drain__timeout_seconds": 60}
        gateway = await enter(gateway_for(tmp_path, emulator, server, workers=2, **two))
        one = await enter(
            gateway_for(tmp_path, emulator, server, fleet__member_id="one", fleet__ttl_seconds=60)
        )
        await until_members(one, one="serving", two="serving", two_2="serving")
        assert "several_workers" not in gateway.output()
        async with clients_of(gateway) as clients:
            staying = clients.come("staying")
            await staying.until_served()
            gateway.send_signal(signal.SIGTERM)
            # One of the workers has nothing to wait for, and leaves.
            await eventually(
                lambda: one_drains_and_one_has_left(one), "they drain, and one has left", timeout=30
            )
            staying.let_go()
            await staying.over()
            staying.assert_served()
        assert await gateway.wait() == 0
        await until_members(one, one="serving")


@pytest.mark.parametrize("launch", LAUNCHES)
async def test_a_fleet_that_cannot_be_joined_is_refused_in_a_line(tmp_path: Path, launch: Launch) -> None:
    nobody = f"redis://someone:hush@127.0.0.1:{free_port()}/0"
    env = gateway_environment(free_port(), ["http://127.0.0.1:9"], in_fleet(nobody))
    async with RunningProcess(gateway_command(launch), log=tmp_path / "refused.log", env=env) as process:
        assert await process.wait() == 1
        output = process.output()
    refused = [line for line in output.splitlines() if line.startswith("gateway: ")]
    assert len(refused) == 1, output
    assert "the fleet at fleet.url cannot be joined" in refused[0]
    assert "Traceback" not in output
    assert "hush" not in output
