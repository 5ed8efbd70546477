"""Faults on top of each other, and changes while a session is inside of one."""

from __future__ import annotations

import asyncio

import pytest
from websockets.exceptions import WebSocketException

from emulator.farm import Farm
from emulator.faults import (
    Abort,
    Bandwidth,
    CloseSession,
    ColdStart,
    CorruptMedia,
    Fault,
    Flaky,
    FragmentStorm,
    IgnoreClose,
    Kill,
    Latency,
    Oversized,
    Pause,
    Stall,
    StopReading,
)
from emulator.replica.replica import Replica, State
from tests.emulator.faults.breaking import PROMPT, another_life, arm, kinds, lift, stays_away
from tests.emulator.sessions import INIT, session
from tests.support.waiting import eventually

WAITS: list[Fault] = [
    Latency(seconds=3600),
    Stall(point="init"),
    Stall(point="now"),
    ColdStart(seconds=3600, every_seconds=3600),
    Bandwidth(bytes_per_second=1),
    StopReading(point="open"),
    Pause(point="init"),
    Stall(point="upgrade"),
]


@pytest.mark.parametrize("fault", WAITS, ids=lambda fault: f"{fault.name}-{fault.at}")
@pytest.mark.parametrize("how", ["reset", "kill", "stop"])
async def test_every_wait_ends_at_once(isolated: Farm, replica: Replica, fault: Fault, how: str) -> None:
    await arm(replica, fault)
    connecting = asyncio.ensure_future(_say_init(replica))
    await eventually(lambda: "fault_struck" in kinds(isolated), "the session is inside")
    match how:
        case "reset":
            await isolated.reset()
            assert await connecting == "ltx2_stream_start"
        case "kill":
            await isolated.kill("a")
            assert await connecting is None
        case _:
            # What is not read, or cannot be said, is not waited for beyond the goodbye.
            async with asyncio.timeout(15):
                await replica.stop()
            said = await connecting
            # A process that stood still goes on for a moment before it hears that it is to stop.
            assert said is None or (isinstance(fault, Pause) and said == "ltx2_stream_start")
            assert replica.state is State.STOPPED


async def _say_init(replica: Replica) -> str | None:
    """The last message of the opening; None when there was none."""
    try:
        async with session(replica.ws_url) as client:
            await client.send(INIT)
            return (await client.receive_until("ltx2_stream_start")).types[-1]
    except (OSError, WebSocketException):
        return None


async def test_a_storm_of_corrupt_media_on_a_narrow_line_is_all_three(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        whole = await client.segment("p")
    await arm(
        replica,
        FragmentStorm(fragment_bytes=100, ping_every=50),
        CorruptMedia(),
        Bandwidth(bytes_per_second=500_000),
        Latency(seconds=0.001),
    )
    async with session(replica.ws_url) as client:
        await client.open()
        broken = await client.segment("p")
        assert (len(broken), broken == whole) == (len(whole), False)
        await lift(replica, "corrupt_media")
        await lift(replica, "fragment_storm", "bandwidth", "latency")
    async with session(replica.ws_url) as client:
        await client.open()
        assert await client.segment("p") == whole


async def test_two_faults_at_one_point_strike_in_the_order_of_arming(replica: Replica) -> None:
    await arm(replica, Stall(seconds=0.05), CloseSession(code=4001))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        assert (await client.to_the_end()).code == 4001
    assert [entry["struck"] for entry in replica.status()["faults"].values()] == [1, 1]
    await lift(replica, "stall", "close")
    await arm(replica, CloseSession(code=4002), Stall())
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        assert (await client.to_the_end()).code == 4002
    assert replica.status()["faults"]["stall"]["struck"] == 0, "there was nobody left to strike"


async def test_what_is_armed_at_a_point_where_a_session_waits_strikes_it_there(replica: Replica) -> None:
    await arm(replica, Stall())
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        await eventually(lambda: replica.status()["faults"]["stall"]["struck"] == 1, "it waits")
        await arm(replica, CloseSession(code=4003))
        assert await stays_away(client.receive_until("ltx2_segment_complete"))
        await lift(replica, "stall")
        assert (await client.to_the_end()).code == 4003


async def test_a_kill_during_a_stall_of_another_session(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Stall(session=1), Kill(session=2, restart_after_seconds=0.0, times=1))
    async with session(replica.ws_url) as one, session(replica.ws_url) as two:
        for client in (one, two):
            await client.open()
            await client.send(PROMPT)
        assert (await two.to_the_end()).code is None
        assert (await one.to_the_end()).code is None
    await another_life(isolated)
    async with session(replica.ws_url) as three:
        await three.open()
        assert await three.segment("p")


async def test_two_sessions_reach_one_kill_together(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Kill(point="segment_start", restart_after_seconds=0.0, times=2))
    async with session(replica.ws_url) as one, session(replica.ws_url) as two:
        await one.open()
        await two.open()
        await asyncio.gather(one.send(PROMPT), two.send(PROMPT))
        assert [(await each.to_the_end()).code for each in (one, two)] == [None, None]
    await another_life(isolated)


async def test_a_deaf_session_that_ignores_closes_is_freed_when_both_are_lifted(
    isolated: Farm, replica: Replica
) -> None:
    await arm(replica, StopReading(point="open"), IgnoreClose())
    async with session(replica.ws_url) as client:
        closing = asyncio.ensure_future(client.socket.close())
        assert await stays_away(asyncio.shield(closing))
        assert "close_received" not in kinds(isolated)
        await lift(replica, "stop_reading")
        await eventually(lambda: "close_received" in kinds(isolated), "it hears again")
        assert await stays_away(asyncio.shield(closing))
        await lift(replica, "ignore_close")
        await closing
    await eventually(lambda: replica.sessions == 0, "the place is free")


async def test_an_abort_cuts_an_oversized_message_of_the_same_point_off(replica: Replica) -> None:
    await arm(replica, Oversized(size_bytes=1_000_000), Abort())
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        end = await client.to_the_end()
    assert (end.code, len(end.media[-1])) == (None, 1_000_000)


async def test_lifting_flaky_ends_what_it_does_to_sessions(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Flaky(sessions=1.0, health=0))
    await isolated.reset()
    async with session(replica.ws_url) as client:
        await client.open()
        assert await client.segment("p")
