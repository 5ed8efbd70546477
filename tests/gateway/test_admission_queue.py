"""Sessions that wait in line: what each is told, who is served first, and when waiting is in vain."""

from __future__ import annotations

import pytest

from gateway.admission import Admission, QueueFull, QueueTimeout
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, NoneHealthy, Policy
from tests.support.manual_clock import settle
from tests.support.waiting_room import A, B, C, waiting_room


async def test_a_free_place_is_taken_without_waiting() -> None:
    async with waiting_room() as room:
        session = await room.join()
        assert (session.url, session.told) == (A, [])


async def test_positions_fall_and_are_told_only_when_they_change() -> None:
    async with waiting_room([A, B]) as room:
        first, second = room.fill()
        waiting = await room.joined(3)
        assert [session.told for session in waiting] == [
            [(0, 1), (0, 2), (0, 3)],
            [(1, 2), (1, 3)],
            [(2, 3)],
        ]
        for session in waiting:
            session.told.clear()
        await room.release(first)
        assert waiting[0].url == A
        assert [session.told for session in waiting] == [[], [(0, 2)], [(1, 2)]]
        await room.release(second)
        assert waiting[1].url == B
        assert waiting[2].told == [(1, 2), (0, 1)]
        # Nothing that concerns the line happens: nothing is told.
        room.turn_healthy(A, B)
        room.registry.mark_full(A, 5)
        await room.clock.advance(10)
        assert waiting[2].told == [(1, 2), (0, 1)]


async def test_changes_of_one_step_are_told_once() -> None:
    async with waiting_room([A], limit=3) as room:
        leases = room.fill()
        waiting = [room.asks() for _ in range(5)]
        await settle()
        await room.release(*leases)
        assert waiting[3].told == [(3, 5), (0, 2)]


async def test_one_that_leaves_frees_its_place_in_line_at_once() -> None:
    async with waiting_room(queue_size=2) as room:
        [lease] = room.fill()
        first, second = await room.joined(2)
        await room.leave(first)
        assert second.told[-1] == (0, 1)
        third = await room.join()
        assert third.told == [(1, 2)]
        await room.release(lease)
        assert (second.url, third.waits) == (A, True)


async def test_a_full_line_takes_nobody_and_does_not_notice() -> None:
    async with waiting_room(queue_size=2) as room:
        room.fill()
        waiting = await room.joined(2)
        refused = await room.join()
        assert (refused.outcome, refused.told) == (QueueFull(), [])
        assert [session.told[-1] for session in waiting] == [(0, 2), (1, 2)]


async def test_a_line_of_no_length_is_always_full() -> None:
    async with waiting_room(queue_size=0) as room:
        assert (await room.join()).url == A
        assert (await room.join()).outcome == QueueFull()


async def test_without_a_timekeeper_nobody_can_wait() -> None:
    registry = ReplicaRegistry([ReplicaEndpoint(A, max_sessions=0)])
    registry.note_success(registry.all()[0], recovery_threshold=1, latency_ms=1)
    admission = Admission(registry, Policy.PRIORITY, queue_size=9)
    assert await admission.wait(on_position=lambda *_: None) == QueueFull()


async def test_without_a_healthy_replica_every_wait_ends_at_once() -> None:
    async with waiting_room([A, B]) as room:
        room.fill()
        waiting = await room.joined(5)
        room.turn_unhealthy(A)
        await settle()
        assert all(session.waits for session in waiting)
        room.turn_unhealthy(B)
        await settle()
        assert [session.outcome for session in waiting] == [NoneHealthy()] * 5
        assert (await room.join()).outcome == NoneHealthy()


@pytest.mark.parametrize("how", ["drained", "removed"])
async def test_a_last_replica_that_takes_no_more_sessions_ends_every_wait(how: str) -> None:
    async with waiting_room([A]) as room:
        [lease] = room.fill()
        waiting = await room.joined(2)
        if how == "drained":
            room.registry.drain(A)
        else:
            room.registry.reconcile([ReplicaEndpoint(B)])
        await settle()
        assert [session.outcome for session in waiting] == [NoneHealthy()] * 2
        lease.release()


async def test_one_that_could_not_reach_the_only_healthy_replica_is_told_so() -> None:
    async with waiting_room([A, B]) as room:
        room.fill()
        session, other = await room.join([A]), await room.join()
        room.turn_unhealthy(B)
        await settle()
        assert session.outcome == NoneHealthy()
        assert other.waits


async def test_one_lets_pass_the_place_on_a_replica_that_it_could_not_reach() -> None:
    async with waiting_room([A, B]) as room:
        on_a, on_b = room.fill()
        first, second, third = await room.join([A]), await room.join(), await room.join()
        await room.release(on_a)
        assert (first.waits, second.url) == (True, A)
        await room.release(on_b)
        assert (first.url, third.waits) == (B, True)


async def test_a_replica_that_could_not_be_reached_counts_again_once_it_has_recovered() -> None:
    async with waiting_room([A, B]) as room:
        room.fill()[0].release()
        session = await room.join([A.upper().replace("HTTP", "http") + "/"])
        assert session.waits
        room.turn_unhealthy(A)
        room.turn_healthy(A)
        await settle()
        assert session.url == A


async def test_newcomers_do_not_overtake() -> None:
    async with waiting_room() as room:
        [lease] = room.fill()
        waiting = await room.join()
        lease.release()
        # In the very step in which the place was freed, before the one that waited has run.
        assert room.admission.place() == AllFull()
        newcomer = await room.join()
        assert (waiting.url, newcomer.waits) == (A, True)


async def test_newcomers_do_not_overtake_where_time_alone_has_freed_the_place() -> None:
    async with waiting_room(limit=1) as room:
        room.registry.mark_full(A, 2)
        waiting = await room.join()
        room.clock.jump(2)
        assert room.admission.place() == AllFull()
        await settle()
        assert waiting.url == A


async def test_a_newcomer_takes_a_place_that_nobody_who_waits_could_use() -> None:
    async with waiting_room([A, B]) as room:
        on_a, _ = room.fill()
        waiting = await room.join([A])
        await room.release(on_a)
        assert (await room.join()).url == A
        assert waiting.waits


async def test_one_turned_away_keeps_its_turn_and_its_time() -> None:
    async with waiting_room(limit=None, queue_size=2) as room:
        room.registry.mark_full(A, 2)
        turn = room.admission.turn()
        first = room.asks(turn=turn)
        await room.clock.advance(2)
        assert first.url == A
        room.registry.mark_full(A, 100)
        first.lease.release()
        others = await room.joined(2)
        assert (await room.join()).outcome == QueueFull()
        again = room.asks(turn=turn)
        await settle()
        assert again.told == [(0, 3)]
        assert [session.told[-1] for session in others] == [(1, 3), (2, 3)]
        await room.clock.advance(28)
        assert again.outcome == QueueTimeout()
        assert [session.told[-1] for session in others] == [(0, 2), (1, 2)]


async def test_a_turn_of_its_own_takes_nobody_into_a_full_line() -> None:
    async with waiting_room(queue_size=1) as room:
        room.fill()
        turn = room.admission.turn()
        await room.join()
        refused = room.asks(turn=turn)
        await settle()
        assert refused.outcome == QueueFull()


async def test_one_that_lost_its_replica_comes_first_with_a_timeout_of_its_own() -> None:
    async with waiting_room(queue_size=1) as room:
        turn = room.admission.turn()
        room.fill()
        await room.clock.advance(100)
        waiting = await room.join()
        moved = room.asks([B], turn=room.admission.turn(turn))
        await settle()
        assert (moved.told, waiting.told[-1]) == ([(0, 2)], (1, 2))
        await room.clock.advance(29)
        assert moved.waits
        await room.clock.advance(1)
        assert moved.outcome == QueueTimeout()


async def test_the_timeout_begins_with_the_wait_and_not_with_the_turn() -> None:
    async with waiting_room() as room:
        room.fill()
        turn = room.admission.turn()
        await room.clock.advance(100)
        session = room.asks(turn=turn)
        await room.clock.advance(29)
        assert session.waits


async def test_a_key_decides_between_places_that_are_free() -> None:
    async with waiting_room([A, B, C], limit=9) as room:
        urls = {(await room.join(key="k")).url for _ in range(5)}
        assert len(urls) == 1
        for lease in room.fill():
            assert lease.url in (A, B, C)
        session = await room.join(key="k")
        assert session.waits
