"""Watches: where a replica stands still, and that nothing is sent before it is told to go on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

import pytest

from emulator.events import Event
from emulator.farm import Farm
from emulator.faults import Abort
from emulator.faults.fault import Point
from emulator.replica.watches import Watch, Watches
from tests.emulator.sessions import INIT, Client, session

PROMPT = {"type": "segment_prompt_source", "prompt": "a pier at dawn"}


@pytest.mark.parametrize(
    ("watch", "passes", "fires_at"),
    [
        (Watch(1, Point.INIT), [(Point.OPEN, 1), (Point.INIT, 1), (Point.INIT, 2)], 1),
        (Watch(1, Point.INIT, n=2), [(Point.INIT, 1), (Point.INIT, 2)], 1),
        (Watch(1, Point.INIT, session=2), [(Point.INIT, 1), (Point.INIT, 2)], 1),
        (Watch(1, Point.SEGMENT, session=2, n=2), [(Point.SEGMENT, n) for n in (1, 1, 2, 1, 2)], 4),
        (Watch(1, Point.SEGMENT, session=2), [(Point.SEGMENT, 1)], None),
    ],
)
def test_a_watch_fires_once_at_its_point(
    watch: Watch, passes: list[tuple[Point, int]], fires_at: int | None
) -> None:
    watches = Watches()
    watches.set(watch)
    fired = [at for at, (point, session) in enumerate(passes) if watches.pass_by(point, session)]
    assert fired == ([] if fires_at is None else [fires_at])


def test_a_watch_that_has_fired_is_not_set_again() -> None:
    watches = Watches()
    watches.set(Watch(1, Point.INIT))
    assert watches.pass_by(Point.INIT, 1) == [1]
    watches.set(Watch(1, Point.INIT))
    assert watches.pass_by(Point.INIT, 1) == []


@pytest.mark.parametrize("isolate", ["none", "process"])
async def test_nothing_is_sent_while_it_stands_still(isolate: Literal["none", "process"]) -> None:
    async with Farm(1, isolate=isolate) as farm:
        reached = _reached(farm)
        farm.replicas["a"].watch(Watch(7, Point.SEGMENT_START, n=2))
        async with session(farm.replicas["a"].ws_url) as client:
            await client.send(INIT, PROMPT, PROMPT)
            await client.receive_until("ltx2_segment_complete")
            event = await _within(reached)
            assert event.detail == {"point": "segment_start", "watch": 7}
            assert event.session == 1
            assert await _types_until_silence(client) == ["ltx2_segment_start"]
            farm.replicas["a"].release(7)
            assert (await client.receive_until("ltx2_segment_complete")).types[0] == "step_complete"


@pytest.mark.parametrize("isolate", ["none", "process"])
async def test_what_was_sent_before_a_kill_arrives(isolate: Literal["none", "process"]) -> None:
    async with Farm(1, isolate=isolate) as farm:
        reached = _reached(farm)
        farm.replicas["a"].watch(Watch(7, Point.SEGMENT_END))
        async with session(farm.replicas["a"].ws_url) as client:
            await client.send(INIT, PROMPT, PROMPT)
            await _within(reached)
            await farm.kill("a")
            seen = await client.to_the_end()
            assert seen.types[-1] == "ltx2_segment_complete"
            assert seen.code is None


@pytest.mark.parametrize("isolate", ["none", "process"])
async def test_a_fault_that_is_set_meanwhile_strikes_at_the_same_point(
    isolate: Literal["none", "process"],
) -> None:
    async with Farm(1, isolate=isolate) as farm:
        reached = _reached(farm)
        farm.replicas["a"].watch(Watch(7, Point.SEGMENT_START))
        async with session(farm.replicas["a"].ws_url) as client:
            await client.send(INIT, PROMPT)
            await _within(reached)
            farm.set_fault("a", Abort(point="segment_start"))
            farm.replicas["a"].release(7)
            seen = await client.to_the_end()
            assert seen.types[-1] == "ltx2_segment_start"


def _reached(farm: Farm) -> asyncio.Future[Event]:
    """The first event that tells of a watch."""
    found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def hear(event: Event) -> None:
        if event.kind == "point_reached" and not found.done():
            found.set_result(event)

    farm.log.subscribe(hear)
    return found


async def _within(reached: asyncio.Future[Event]) -> Event:
    async with asyncio.timeout(20):
        return await reached


async def _types_until_silence(client: Client) -> list[str]:
    """What has come by the time that the replica has told that it stands still; no more comes after."""
    types = []
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0.3):
                message = await client.receive()
            types.append(message["type"] if isinstance(message, dict) else "binary")
    return types
