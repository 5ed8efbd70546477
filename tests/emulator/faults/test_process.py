"""Faults of the process, in both isolations: what a point of one session's life does to all of a replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError

from emulator.farm import Farm, Isolation
from emulator.faults import Fault, Kill, Pause, Poison, Restart
from emulator.faults.fault import SessionPoint
from emulator.protocol.script import Generation
from emulator.replica.replica import Replica, State
from tests.emulator.faults.breaking import (
    PROMPT,
    SHORT_SECONDS,
    UPGRADE,
    another_life,
    arm,
    get,
    kinds,
    lift,
    stays_away,
)
from tests.emulator.sessions import INIT, SNAPSHOT, Client, Finished, session
from tests.support.waiting import eventually

HEARD = {
    "open": 0,
    "init": 0,
    "segment_start": 4,
    "segment": 9,
    "segment_end": 11,
    "snapshot": 11,
    "now": 0,
}
"""How many text messages a client has seen at each point."""


@pytest.fixture(params=["none", "process"])
async def talkative(request: pytest.FixtureRequest) -> AsyncIterator[Farm]:
    """A replica that sends much at once."""
    isolation: Isolation = request.param
    much = Generation(segment_seconds=0, chunks=20, chunk_bytes=200_000)
    async with Farm(1, isolate=isolation, generation=much) as running:
        yield running


async def say_all(client: Client) -> None:
    """Whatever the replica takes of it."""
    with contextlib.suppress(ConnectionClosedError):
        await client.send(INIT, PROMPT, SNAPSHOT)


async def until_it_ends(replica: Replica) -> Finished:
    async with session(replica.ws_url) as client:
        await say_all(client)
        return await client.to_the_end()


async def works(replica: Replica) -> bool:
    async with session(replica.ws_url) as client:
        await client.open()
        return bool(await client.segment("p"))


@pytest.mark.parametrize("point", list(HEARD))
async def test_a_kill_comes_at_its_point_and_a_restart_after_it(
    isolated: Farm, replica: Replica, point: SessionPoint
) -> None:
    await arm(replica, Kill(point=point, restart_after_seconds=0.05, times=1))
    end = await until_it_ends(replica)
    assert (end.code, len(end.messages)) == (None, HEARD[point])
    await another_life(isolated)
    assert await works(replica)


async def test_a_kill_before_the_handshake_resets_without_an_answer(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Kill(point="upgrade"))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    await eventually(lambda: replica.state is State.KILLED and replica.pid is None, "it is dead")
    assert "upgrade_answered" not in kinds(isolated)


async def test_what_was_sent_before_a_kill_arrives_and_then_comes_a_reset(talkative: Farm) -> None:
    """A client that reads late: its segment up to the last chunk is more than a socket's buffers hold."""
    replica = talkative.replicas["a"]
    for number in range(2, 5):
        await arm(replica, Kill(restart_after_seconds=0.0, times=1))
        async with session(replica.ws_url) as client:
            await client.open()
            await client.send(PROMPT)
            end = await client.to_the_end()
            assert end.code is None
            assert [len(part) for part in end.media[1:]] == [200_000] * 19
            assert isinstance(client.socket.protocol.parser_exc, Exception)
        await another_life(talkative, number)


async def test_a_kill_ends_the_sessions_of_others(replica: Replica) -> None:
    await arm(replica, Kill(session=2, segment=1))
    async with session(replica.ws_url) as other, session(replica.ws_url) as client:
        await other.open()
        await other.segment("one")
        assert await other.segment("two"), "the fault is for the second session"
        await client.open()
        await client.segment("one")
        await client.send(PROMPT)
        assert (await client.to_the_end()).code is None
        assert (await other.to_the_end()).code is None
    await eventually(lambda: (replica.state, replica.sessions) == (State.KILLED, 0), "it is dead")


async def test_a_replica_that_comes_back_is_warming_for_its_time(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Kill(restart_after_seconds=0.0, warming_seconds=3600, times=1))
    await until_it_ends(replica)
    await another_life(isolated)
    assert (await get(replica.url + "/health")).json()["status"] == "warming"


async def test_a_pause_stops_everything_at_its_point_and_ends_by_itself(replica: Replica) -> None:
    await arm(replica, Pause(point="segment_start", seconds=0.3, times=1))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        await client.receive_until("ltx2_segment_start")
        await eventually(lambda: replica.state is State.PAUSED, "it stands still")
        assert (await client.receive_until("ltx2_segment_complete")).media
    assert replica.state is State.RUNNING


async def test_a_pause_is_over_once_it_is_lifted_or_changed(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Pause(point="segment_start"))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        await eventually(lambda: replica.state is State.PAUSED, "it stands still")
        with pytest.raises(httpx.ReadTimeout):
            await get(replica.url + "/health", timeout=SHORT_SECONDS)
        await arm(replica, Pause(point="segment_start", seconds=0.1))
        assert (await client.receive_until("ltx2_segment_complete")).media
        assert replica.status()["faults"]["pause"]["struck"] == 1, "the new one struck at the same point"
        await arm(replica, Pause(point="snapshot"))
        await client.send(SNAPSHOT)
        await eventually(lambda: replica.state is State.PAUSED, "it stands still")
        replica.clear_fault("pause")
        await client.receive_until("continuation_state_snapshot")


async def test_a_pause_ends_with_the_time_of_the_fault(replica: Replica) -> None:
    await arm(replica, Pause(point="init", for_seconds=0.5))
    assert await works(replica)


async def test_a_pause_by_hand_is_not_ended_by_lifting_a_fault(replica: Replica) -> None:
    await arm(replica, Pause(point="init"))
    await replica.pause()
    replica.clear_fault("pause")
    assert await stays_away(get(replica.url + "/health"))
    assert replica.state is State.PAUSED
    await replica.resume()


async def test_a_restart_closes_sessions_in_order_and_comes_back(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Restart(point="segment", away_seconds=0.3, times=1))
    async with session(replica.ws_url) as other:
        await other.open()
        end = await until_it_ends(replica)
        assert (end.code, end.reason) == (1001, "going_away")
        assert (await other.to_the_end()).code == 1001
    assert "port_closed" in kinds(isolated)
    await another_life(isolated)
    assert await works(replica)


async def test_a_poisoned_prompt_kills_like_a_kill(replica: Replica) -> None:
    await arm(replica, Poison(text="p"))
    end = await until_it_ends(replica)
    assert (end.code, end.types[-1]) == (None, "ltx2_segment_start")
    await eventually(lambda: replica.state is State.KILLED, "it is dead")


@pytest.mark.parametrize(
    ("fault", "state"), [(Pause(point="init"), State.PAUSED), (Kill(point="init"), State.KILLED)]
)
async def test_a_reset_brings_a_paused_or_killed_replica_back(
    isolated: Farm, replica: Replica, fault: Fault, state: State
) -> None:
    await arm(replica, fault)
    async with session(replica.ws_url) as client:
        await say_all(client)
        await eventually(lambda: replica.state is state, f"it is {state}")
        await isolated.reset()
    assert await works(replica)
    assert replica.faults == []


async def test_a_kill_by_hand_ends_a_pause_of_a_fault(isolated: Farm, replica: Replica) -> None:
    await arm(replica, Pause(point="init", seconds=0.2, times=1))
    async with session(replica.ws_url) as client:
        await say_all(client)
        await eventually(lambda: replica.state is State.PAUSED, "it stands still")
        await replica.kill(restart_after_seconds=0.1)
        assert (await client.to_the_end()).code is None
    await another_life(isolated)
    await lift(replica, "pause")
    assert await works(replica)
