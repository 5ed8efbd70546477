from __future__ import annotations

import asyncio

from emulator.farm import Farm
from emulator.faults import IgnoreClose, Latency
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import PROMPT, arm, kinds, lift, stays_away
from tests.emulator.sessions import session
from tests.support.waiting import eventually


async def test_an_ignored_close_is_answered_once_the_fault_is_lifted(
    isolated: Farm, replica: Replica
) -> None:
    await arm(replica, IgnoreClose())
    async with session(replica.ws_url) as client:
        await client.open()
        closing = asyncio.ensure_future(client.socket.close(4000, "enough"))
        await eventually(lambda: "close_received" in kinds(isolated), "the close has come")
        assert await stays_away(asyncio.shield(closing), seconds=0.3)
        assert replica.sessions == 1
        await lift(replica, "ignore_close")
        await closing
        assert client.socket.close_code == 4000
    await eventually(lambda: replica.sessions == 0, "the session is over")


async def test_a_client_that_ends_the_connection_itself_frees_the_place(
    isolated: Farm, replica: Replica
) -> None:
    await arm(replica, IgnoreClose())
    async with session(replica.ws_url, close_timeout=0.2) as client:
        await client.open()
        await client.send(PROMPT)
    await eventually(lambda: replica.sessions == 0, "the session is over")


async def test_one_close_is_ignored_and_the_next_is_not(replica: Replica) -> None:
    await arm(replica, IgnoreClose(times=1))
    answered = []
    for _ in range(2):
        async with session(replica.ws_url, close_timeout=0.2) as client:
            await client.open()
            await client.socket.close()
            answered.append(client.socket.protocol.close_rcvd is not None)
    assert answered == [False, True]


async def test_a_close_in_the_middle_of_a_wait_is_ignored_too(isolated: Farm, replica: Replica) -> None:
    await arm(replica, IgnoreClose(), Latency(seconds=3600))
    async with session(replica.ws_url) as client:
        await client.send({"type": "session_init_v2"})
        closing = asyncio.ensure_future(client.socket.close())
        await eventually(lambda: "close_received" in kinds(isolated), "the close has come")
        assert await stays_away(asyncio.shield(closing))
        await lift(replica, "latency")
        assert await stays_away(asyncio.shield(closing))
        await lift(replica, "ignore_close")
        await closing
