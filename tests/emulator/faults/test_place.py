from __future__ import annotations

import contextlib

from websockets.exceptions import ConnectionClosedError

from emulator.faults import Capacity, ColdStart, Warming
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import PROMPT, arm, get, lift, stays_away
from tests.emulator.sessions import INIT, session
from tests.support.waiting import eventually


async def first_type(replica: Replica) -> str:
    async with session(replica.ws_url) as client:
        with contextlib.suppress(ConnectionClosedError):
            await client.send(INIT)
        first = await client.receive()
        assert isinstance(first, dict)
        return str(first["type"])


async def test_capacity_falls_below_the_open_sessions_which_stay(replica: Replica) -> None:
    async with session(replica.ws_url) as one:
        async with session(replica.ws_url) as two:
            await one.open()
            await two.open()
            await arm(replica, Capacity(sessions=1))
            assert await first_type(replica) == "error"
            assert await one.segment("p") == await two.segment("p")
            assert (await get(replica.url + "/readyz")).json()["available_gpus"] == 0
        await eventually(lambda: replica.sessions == 1, "one has left")
        assert await first_type(replica) == "error", "still as many as there may be"
        await arm(replica, Capacity(sessions=2))
        assert await first_type(replica) == "queue_status"
        assert replica.status()["capacity"] == 2
    await lift(replica, "capacity")
    assert replica.status()["capacity"] == 4


async def test_capacity_may_rise_above_what_it_was(replica: Replica) -> None:
    await arm(replica, Capacity(sessions=6))
    clients = [session(replica.ws_url) for _ in range(6)]
    opened = [await client.__aenter__() for client in clients]
    for client in opened:
        await client.open()
    assert await first_type(replica) == "error"
    for context in clients:
        await context.__aexit__(None, None, None)


async def test_a_capacity_of_none_may_be_told_to_one_session_only(replica: Replica) -> None:
    await arm(replica, Capacity(sessions=0, times=1))
    assert [await first_type(replica) for _ in range(2)] == ["error", "queue_status"]


async def test_a_cold_start_counts_down_until_the_gpu_is_there(replica: Replica) -> None:
    await arm(replica, ColdStart(seconds=0.3, every_seconds=0.1))
    async with session(replica.ws_url) as client:
        seen = await client.open()
        assert await client.segment("p")
    places = [message["position"] for message in seen.messages if message["type"] == "queue_status"]
    assert places[0] == 0
    assert places[1:] == sorted(places[1:], reverse=True)
    assert {3, 1} <= set(places)


async def test_a_cold_start_ends_when_it_is_lifted_and_when_it_is_changed(replica: Replica) -> None:
    await arm(replica, ColdStart(seconds=3600, every_seconds=3600, times=2))
    async with session(replica.ws_url) as one:
        await one.send(INIT, PROMPT)
        assert await stays_away(one.receive_until("gpu_assigned"))
        await arm(replica, ColdStart(seconds=0.05))
        await one.receive_until("gpu_assigned")
        assert (await one.receive_until("ltx2_segment_complete")).media
    await arm(replica, ColdStart(seconds=3600))
    async with session(replica.ws_url) as two:
        await two.send(INIT)
        assert await stays_away(two.receive_until("gpu_assigned"))
        await lift(replica, "cold_start")
        await two.receive_until("gpu_assigned")


async def test_a_cold_start_on_a_replica_that_warms_up_waits_for_both(replica: Replica) -> None:
    await arm(replica, Warming(), ColdStart(seconds=0.05))
    async with session(replica.ws_url) as client:
        await client.send(INIT)
        assert await stays_away(client.receive_until("gpu_assigned"), seconds=0.3)
        await lift(replica, "warming")
        await client.receive_until("gpu_assigned")
