"""Faults of what a replica says, and of what it dies of, seen from the other end of a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidHandshake

from emulator import faults
from emulator.farm import Farm, Isolation
from emulator.faults.protocol import snapshot_under
from emulator.protocol.messages import (
    ContinuationState,
    ContinuationStateSnapshot,
    ErrorMessage,
    SessionTimeout,
)
from emulator.replica.replica import Replica
from tests.emulator.sessions import SNAPSHOT, Finished, session
from tests.support.waiting import eventually

PROMPT = {"type": "segment_prompt_source", "prompt": "p"}
STATE = ContinuationState(kind="k", payload={"a": 1})


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2) as running:
        yield running


@pytest.fixture
async def a(farm: Farm) -> Replica:
    return farm.replicas["a"]


@pytest.fixture(params=["none", "process"])
async def isolated(request: pytest.FixtureRequest) -> AsyncIterator[Farm]:
    isolation: Isolation = request.param
    async with Farm(2, isolate=isolation) as running:
        yield running


def errors(seen: Finished) -> list[tuple[str, bool]]:
    return [(m["code"], m["retryable"]) for m in seen.messages if m["type"] == "error"]


def test_a_snapshot_goes_as_it_is_without_faults() -> None:
    answer = ContinuationStateSnapshot(state=STATE)
    assert snapshot_under([], answer) is answer
    assert snapshot_under([faults.Stall(point="snapshot")], answer) is answer


def test_other_messages_are_left_alone() -> None:
    message = SessionTimeout(timeout_seconds=1)
    assert snapshot_under([faults.NoSnapshot()], message) is message


@pytest.mark.parametrize("order", [1, -1])
def test_no_snapshot_wins_over_a_big_one(order: int) -> None:
    both = [faults.NoSnapshot(), faults.BigState()][::order]
    assert isinstance(snapshot_under(both, ContinuationStateSnapshot(state=STATE)), ErrorMessage)


@pytest.mark.parametrize("point", ["open", "init"])
@pytest.mark.parametrize(("code", "retryable"), [("session_rejected", False), ("gpu_unavailable", True)])
async def test_reject_refuses_so_many_sessions_in_band(
    a: Replica, point: Any, code: Any, retryable: bool
) -> None:
    a.set_fault(faults.Reject(point=point, code=code, times=1))
    async with session(a.ws_url) as client:
        with contextlib.suppress(ConnectionClosedError):
            await client.send({"type": "session_init_v2"})
        end = await client.to_the_end()
    assert (end.types, errors(end), end.code, end.reason) == (["error"], [(code, retryable)], 1013, code)
    async with session(a.ws_url) as client:
        await client.open()


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"point": "init"}, []),
        ({"point": "segment_start"}, ["ltx2_segment_start"]),
        ({"point": "segment"}, ["step_complete", "media_init"]),
        ({"point": "segment_end"}, ["media_segment_complete", "ltx2_segment_complete"]),
        ({"point": "snapshot"}, ["media_segment_complete", "ltx2_segment_complete"]),
    ],
)
async def test_a_gpu_error_leaves_the_connection_open(
    a: Replica, fields: dict[str, Any], last: list[str]
) -> None:
    a.set_fault(faults.GpuError(**fields))
    async with session(a.ws_url) as client:
        await client.send({"type": "session_init_v2"}, PROMPT, SNAPSHOT)
        seen = await client.receive_until("error")
        assert seen.types[len(seen.types) - 1 - len(last) : -1] == last
        assert errors(seen) == [("worker_failed", True)]
        await client.send(PROMPT, SNAPSHOT)
        await (await client.socket.ping())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.socket.recv()
    await eventually(lambda: a.sessions == 0, "the place is free again")


async def test_a_gpu_error_now_reaches_an_idle_session(a: Replica) -> None:
    async with session(a.ws_url) as client:
        await client.open()
        a.set_fault(faults.GpuError(point="now", retryable=False))
        assert errors(await client.receive_until("error")) == [("worker_failed", False)]


async def test_no_pong_answers_no_ping_and_everything_else(a: Replica) -> None:
    async with session(a.ws_url) as client:
        await client.open()
        await (await client.socket.ping())
        a.set_fault(faults.NoPong())
        pong = asyncio.ensure_future(await client.socket.ping())
        assert await client.segment("p")
        assert not pong.done()
        pong.cancel()
        a.clear_fault("no_pong")
        await (await client.socket.ping())


async def test_a_paused_replica_answers_no_ping_until_it_goes_on(isolated: Farm) -> None:
    async with session(isolated.replicas["a"].ws_url) as client:
        await client.open()
        await isolated.pause("a")
        pong = await client.socket.ping()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(pong)
        await isolated.resume("a")
        await pong


async def test_no_snapshot_answers_with_an_error_and_goes_on(a: Replica) -> None:
    a.set_fault(faults.NoSnapshot())
    async with session(a.ws_url) as client:
        await client.open()
        await client.segment("p")
        await client.send(SNAPSHOT)
        assert errors(await client.receive_until("error")) == [("internal_error", False)]
        await client.segment("p")
        a.clear_fault("no_snapshot")
        assert (await client.snapshot())["payload"]["segment_index"] == 1


async def test_a_big_state_is_as_good_as_a_small_one(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        await client.segment("1")
        farm.set_fault("a", faults.BigState(size_bytes=300_000))
        state = await client.snapshot()
        assert len(json.dumps(state)) >= 300_000
        expected = await client.segment("2")
    async with session(farm.replicas["b"].ws_url) as client:
        await client.open(continuation_state=state)
        assert await client.segment("2") == expected


@pytest.mark.parametrize("point", ["upgrade", "open", "init", "segment_start", "segment", "snapshot"])
async def test_a_crash_kills_the_replica_and_its_other_sessions(isolated: Farm, point: Any) -> None:
    a = isolated.replicas["a"]
    async with session(a.ws_url) as bystander:
        await bystander.open()
        a.set_fault(faults.Kill(point=point))
        await a.settle()
        with contextlib.suppress(OSError, InvalidHandshake, ConnectionClosedError):
            async with session(a.ws_url) as client:
                await client.send({"type": "session_init_v2"}, PROMPT, SNAPSHOT)
                assert (await client.to_the_end()).code is None
        assert (await bystander.to_the_end()).code is None
    await eventually(lambda: a.status()["state"] == "killed", "it is known to be dead")
    assert a.sessions == 0
    a.clear_fault("kill")
    await isolated.restart("a")
    async with session(a.ws_url) as client:
        await client.open()


async def test_a_poisoned_prompt_kills_whoever_takes_it_up(isolated: Farm) -> None:
    for replica in isolated.replicas.values():
        replica.set_fault(faults.Poison(text="bad"))
        await replica.settle()
        async with session(replica.ws_url) as client:
            await client.open()
            await client.segment("good")
            await client.send({**PROMPT, "prompt": "a bad one"})
            end = await client.to_the_end()
        assert (end.types, end.code) == (["ltx2_segment_start"], None)

    def states() -> set[str]:
        return {str(replica.state) for replica in isolated.replicas.values()}

    await eventually(lambda: states() == {"killed"}, "both are dead")
