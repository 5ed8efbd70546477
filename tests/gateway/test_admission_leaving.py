"""Sessions that leave the line, at whatever moment, leave nothing behind; and what the line costs."""

from __future__ import annotations

import asyncio
import gc

import pytest

from gateway.admission import QueueFull, QueueTimeout
from gateway.selection import choose
from tests.support.manual_clock import settle
from tests.support.waiting_room import A, B, C, waiting_room


@pytest.mark.parametrize("cancelled_first", [True, False])
@pytest.mark.parametrize("between", range(4))
async def test_one_cancelled_around_the_moment_of_its_place_leaves_it_to_the_next(
    between: int, cancelled_first: bool
) -> None:
    """Cancellation and place, in both orders, with none to three turns of the event loop between them."""
    async with waiting_room() as room:
        [lease] = room.fill()
        first, second = await room.joined(2)
        for cancels in (cancelled_first, not cancelled_first):
            if cancels:
                first.task.cancel()
            else:
                lease.release()
            for _ in range(between):
                await asyncio.sleep(0)
        await settle()
        if first.task.cancelled():
            assert second.url == A
        else:  # it had its outcome already: the lease is its caller's
            assert first.url == A
            assert second.waits
            await room.release(first.lease)
        assert second.url == A
        assert (room.admission.waiting, room.sessions) == (0, 1)


@pytest.mark.parametrize("turns", range(8))
async def test_cancellation_at_each_await_point_leaves_nobody_in_line(turns: int) -> None:
    async with waiting_room() as room:
        [lease] = room.fill()
        session = room.asks()
        for _ in range(turns):
            await asyncio.sleep(0)
        await room.leave(session)
        assert session.task.cancelled()
        assert (room.admission.waiting, room.sessions) == (0, 1)
        await room.release(lease)
        assert room.sessions == 0


async def test_all_that_were_given_a_place_leave_at_once() -> None:
    async with waiting_room(limit=3) as room:
        leases = room.fill()
        waiting = await room.joined(7)
        for lease in leases:
            lease.release()
        for session in waiting[:5]:
            session.task.cancel()
        await settle()
        assert [session.url for session in waiting] == [None] * 5 + [A, A]
        assert room.sessions == 2


async def test_one_whose_callback_fails_is_out_of_the_line() -> None:
    async with waiting_room() as room:
        room.fill()

        def fails(position: int, depth: int) -> None:
            raise ValueError("defect")

        with pytest.raises(ValueError, match="defect"):
            await room.admission.wait(on_position=fails)
        assert room.admission.waiting == 0


@pytest.mark.parametrize("turns", range(6))
async def test_the_end_of_the_timekeeper_ends_every_wait(turns: int) -> None:
    async with waiting_room() as room:
        [lease] = room.fill()
        waiting = [room.asks() for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        room.keeper.cancel()
        await settle()
        assert room.keeper.cancelled()
        assert {type(session.outcome) for session in waiting} <= {QueueTimeout, QueueFull}
        lease.release()
        assert (room.admission.waiting, room.sessions, room.clock.sleepers) == (0, 0, 0)


async def test_no_task_and_no_session_is_left_behind() -> None:
    async with waiting_room() as room:
        [lease] = room.fill()
        waiting = await room.joined(3)
        await room.leave(waiting[1])
        await room.release(lease)
        await room.clock.advance(30)
        waiting[0].lease.release()
        assert (room.admission.waiting, room.sessions) == (0, 0)
        await settle()
        assert room.clock.sleepers == 0
    del waiting
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_place_freed_costs_a_look_at_the_replicas_and_a_word_to_each_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def counted(*args: object, **named: object) -> object:
        nonlocal looks
        looks += 1
        return choose(*args, **named)  # type: ignore[arg-type]

    async with waiting_room([A, B, C]) as room:
        leases = room.fill()
        waiting = [room.asks() for _ in range(1000)]
        await settle()
        assert room.admission.waiting == 1000
        for session in waiting:
            session.told.clear()
        monkeypatch.setattr("gateway.queueing.choose", counted)
        await room.release(leases[0])
        assert looks == 2  # the one in front gets it, the next learns that there is no more
        assert [len(session.told) for session in waiting] == [0] + [1] * 999
        room.turn_unhealthy(A, B)
        looks = 0
        room.turn_unhealthy(C)
        await settle()
        assert looks == 1  # what holds for the first holds for all
        assert not any(session.waits for session in waiting)
