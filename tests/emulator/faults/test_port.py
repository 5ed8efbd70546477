from __future__ import annotations

import asyncio

import httpx
import pytest

from emulator.farm import Farm
from emulator.faults import Blackhole, Flap, Refuse, SlowAccept
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import SHORT_SECONDS, arm, connects, get, kinds, lift
from tests.emulator.sessions import session
from tests.support.waiting import PATIENCE_SECONDS, eventually


async def test_a_full_backlog_lets_connects_hang_and_the_same_ones_succeed_once_it_is_lifted(
    isolated: Farm,
    replica: Replica,
) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        await arm(replica, Blackhole())
        assert not await connects(replica, SHORT_SECONDS)
        hanging = asyncio.ensure_future(connects(replica, PATIENCE_SECONDS))
        assert await client.segment("open sessions go on")
        await lift(replica, "blackhole")
        assert await hanging, "the kernel tries again by itself"
    assert (await get(replica.url + "/health")).status_code == 200
    events = kinds(isolated)
    assert events.count("port_filled") == 1
    opened = [kind for kind in events if kind == "connection_opened"]
    assert len(opened) == 3, "what filled the backlog was no connection of anybody"


async def test_a_black_hole_ends_idle_connections_so_that_probers_meet_it(replica: Replica) -> None:
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await reader.readuntil(b"}")
    await arm(replica, Blackhole())
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(httpx.ConnectTimeout):
        await get(replica.url + "/health", timeout=SHORT_SECONDS)


async def test_a_black_hole_that_accepts_never_answers_until_it_is_lifted(replica: Replica) -> None:
    await arm(replica, Blackhole(how="accept"))
    assert await connects(replica, PATIENCE_SECONDS)
    answer = asyncio.ensure_future(get(replica.url + "/health"))
    with pytest.raises(httpx.ReadTimeout):
        await get(replica.url + "/health", timeout=SHORT_SECONDS)
    await lift(replica, "blackhole")
    assert (await answer).status_code == 200


async def test_a_black_hole_may_take_some_connections_and_not_others(replica: Replica) -> None:
    await arm(replica, Blackhole(how="accept", times=1))
    with pytest.raises(httpx.ReadTimeout):
        await get(replica.url + "/health", timeout=SHORT_SECONDS)
    assert (await get(replica.url + "/health")).status_code == 200


async def test_whoever_leaves_a_black_hole_is_not_kept(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Blackhole(how="accept"))
    assert await connects(replica, PATIENCE_SECONDS)
    await eventually(lambda: kinds(isolated)[-1] == "connection_closed", "it is gone")


async def test_a_full_port_and_a_closed_one_take_turns(replica: Replica) -> None:
    await arm(replica, Blackhole())
    assert not await connects(replica, SHORT_SECONDS)
    await arm(replica, Refuse())
    with pytest.raises(ConnectionRefusedError):
        await connects(replica, PATIENCE_SECONDS)
    await lift(replica, "refuse")
    assert not await connects(replica, SHORT_SECONDS)
    await lift(replica, "blackhole")
    assert await connects(replica, PATIENCE_SECONDS)


async def test_a_full_backlog_ends_by_itself_after_its_time(replica: Replica) -> None:
    await arm(replica, Blackhole(for_seconds=0.3))
    assert await connects(replica, PATIENCE_SECONDS)


async def test_a_slow_accept_comes_late_and_at_once_when_it_is_lifted(replica: Replica) -> None:
    await arm(replica, SlowAccept(seconds=0.05))
    assert (await get(replica.url + "/health")).status_code == 200
    await arm(replica, SlowAccept(seconds=3600))
    answer = asyncio.ensure_future(get(replica.url + "/health"))
    with pytest.raises(httpx.ReadTimeout):
        await get(replica.url + "/health", timeout=SHORT_SECONDS)
    await lift(replica, "slow_accept")
    assert (await answer).status_code == 200


async def test_a_slow_accept_that_is_shortened_is_shorter_for_those_that_wait(replica: Replica) -> None:
    await arm(replica, SlowAccept(seconds=3600))
    answer = asyncio.ensure_future(get(replica.url + "/health"))
    await eventually(lambda: replica.status()["connections_total"] == 1, "it waits")
    await arm(replica, SlowAccept(seconds=0.05))
    assert (await answer).status_code == 200


async def test_a_port_may_flap(replica: Replica) -> None:
    await arm(replica, Flap(how="port", down_seconds=0.2, up_seconds=0.2))

    async def refused() -> bool:
        try:
            return not await connects(replica, PATIENCE_SECONDS)
        except OSError:
            return True

    async def taken() -> bool:
        return not await refused()

    for _ in range(2):
        await eventually(refused, "it is down")
        await eventually(taken, "it is up")
    await lift(replica, "flap")
    assert await taken()
