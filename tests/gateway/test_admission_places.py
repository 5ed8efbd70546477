"""When a place in line becomes a place on a replica: by what happens to replicas, and by time."""

from __future__ import annotations

from gateway.admission import QueueTimeout
from gateway.replicas.endpoint import ReplicaEndpoint
from tests.support.manual_clock import settle
from tests.support.waiting_room import A, B, C, waiting_room


async def test_a_replica_that_recovers_takes_exactly_as_many_as_it_may() -> None:
    async with waiting_room([A, B], limit=2) as room:
        room.turn_unhealthy(B)
        room.fill()
        waiting = await room.joined(3)
        room.turn_healthy(B)
        await settle()
        assert [session.url for session in waiting] == [B, B, None]


async def test_a_replica_that_joins_serves_those_in_front() -> None:
    async with waiting_room([A]) as room:
        room.fill()
        waiting = await room.joined(2)
        room.registry.reconcile([ReplicaEndpoint(A, max_sessions=1), ReplicaEndpoint(C, max_sessions=1)])
        await settle()
        assert [session.waits for session in waiting] == [True, True]
        room.turn_healthy(C)
        await settle()
        assert [session.url for session in waiting] == [C, None]


async def test_a_replica_that_is_undrained_serves_those_in_front() -> None:
    async with waiting_room([A, B]) as room:
        room.registry.drain(B)
        room.fill()
        waiting = await room.joined(2)
        room.registry.drain(B, False)
        await settle()
        assert [session.url for session in waiting] == [B, None]


async def test_a_limit_that_rises_serves_those_in_front() -> None:
    async with waiting_room() as room:
        room.fill()
        waiting = await room.joined(3)
        room.registry.reconcile([ReplicaEndpoint(A, max_sessions=3)])
        await settle()
        assert [session.url for session in waiting] == [A, A, None]


async def test_a_removed_replica_that_returns_serves_those_in_front() -> None:
    async with waiting_room([A, B]) as room:
        leases = room.fill()
        room.registry.reconcile([ReplicaEndpoint(A, max_sessions=1)])
        waiting = await room.joined(2)
        await room.release(leases[1])  # nobody goes to a replica that is on its way out
        assert [session.waits for session in waiting] == [True, True]
        room.registry.reconcile([ReplicaEndpoint(A, max_sessions=1), ReplicaEndpoint(B, max_sessions=1)])
        room.turn_healthy(B)
        await settle()
        assert [session.url for session in waiting] == [B, None]


async def test_what_makes_no_place_wakes_nobody() -> None:
    async with waiting_room([A, B, C]) as room:
        room.fill()
        waiting = await room.joined(2)
        for session in waiting:
            session.told.clear()
        room.turn_unhealthy(B)
        room.registry.drain(C)
        room.turn_healthy(B)
        room.registry.drain(C, False)
        await settle()
        assert [(session.waits, session.told) for session in waiting] == [(True, [])] * 2


async def test_each_waits_for_its_own_time_and_no_longer() -> None:
    async with waiting_room() as room:
        room.fill()
        first = await room.join()
        await room.clock.advance(10)
        second = await room.join()
        await room.clock.advance(19.9)
        assert first.waits
        await room.clock.advance(0.1)
        assert first.outcome == QueueTimeout()
        assert second.told[-1] == (0, 1)
        await room.clock.advance(9.9)
        assert second.waits
        await room.clock.advance(0.1)
        assert second.outcome == QueueTimeout()
        assert room.admission.waiting == 0


async def test_those_who_came_together_time_out_together() -> None:
    async with waiting_room() as room:
        room.fill()
        waiting = [room.asks() for _ in range(20)]
        await room.clock.advance(30)
        assert {type(session.outcome) for session in waiting} == {QueueTimeout}


async def test_a_place_that_comes_with_the_timeout_is_not_lost() -> None:
    """Whichever of the two is first wins, and the place goes to the next where it is the timeout."""
    for place_first in (True, False):
        async with waiting_room() as room:
            [lease] = room.fill()
            first = await room.join()
            await room.clock.advance(1)
            second = await room.join()
            room.clock.jump(29)
            if place_first:
                lease.release()
                await room.clock.advance(0)
                assert (first.url, second.waits) == (A, True)
            else:
                await room.clock.advance(0)
                await room.release(lease)
                assert (first.outcome, second.url) == (QueueTimeout(), A)
            assert room.sessions == 1


async def test_who_is_cancelled_at_the_timeout_leaves_nothing() -> None:
    async with waiting_room() as room:
        [lease] = room.fill()
        first, second = await room.joined(2)
        room.clock.jump(30)
        first.task.cancel()
        await room.clock.advance(0)
        assert second.outcome == QueueTimeout()
        assert (room.admission.waiting, room.sessions) == (0, 1)
        lease.release()


async def test_a_moment_of_being_full_passes_by_itself() -> None:
    async with waiting_room(limit=None) as room:
        room.registry.mark_full(A, 2)
        session = await room.join()
        await room.clock.advance(1.9)
        assert session.waits
        await room.clock.advance(0.1)
        assert session.url == A


async def test_a_moment_that_begins_or_grows_while_somebody_waits_is_noticed() -> None:
    async with waiting_room([A, B], limit=1) as room:
        leases = room.fill()
        session = await room.join()
        room.registry.mark_full(A, 2)
        await room.release(leases[0])
        assert session.waits
        await room.clock.advance(1)
        room.registry.mark_full(A, 3)
        await room.clock.advance(2.9)
        assert session.waits
        await room.clock.advance(0.1)
        assert session.url == A


async def test_the_end_of_an_ejection_is_noticed() -> None:
    async with waiting_room([A, B], timeout_seconds=60) as room:
        room.fill()[0].release()
        for _ in range(4):
            room.registry.blame(A)
        room.registry.mark_full(A, 1)
        session = await room.join()
        room.registry.blame(A)
        await room.clock.advance(29.9)
        assert session.waits
        await room.clock.advance(0.1)
        assert session.url == A
