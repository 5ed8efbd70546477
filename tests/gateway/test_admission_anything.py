"""Whatever happens to a waiting room, its line is in order and nothing is left behind."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.lease import Lease
from tests.support.manual_clock import settle
from tests.support.waiting_room import A, B, C, Session, WaitingRoom, waiting_room

URLS = (A, B, C)
one_url = st.sampled_from(URLS)
happenings = st.one_of(
    st.tuples(st.just("join"), st.sampled_from([(), (), (), (A,), (B, C)])),
    st.tuples(st.just("place"), st.none()),
    st.tuples(st.sampled_from(["leave", "release"]), st.integers(0, 20)),
    st.tuples(st.sampled_from(["healthy", "unhealthy", "drain", "undrain", "refuse", "more"]), one_url),
    st.tuples(st.just("time"), st.sampled_from([0.5, 1.0, 3.0])),
    st.tuples(st.just("settle"), st.none()),
)


class Story:
    """What happens to a waiting room, and what must hold whenever everybody has run."""

    def __init__(self, room: WaitingRoom) -> None:
        self.room = room
        self.sessions: list[tuple[Session, tuple[str, ...]]] = []
        self.limits = dict.fromkeys(URLS, 1)
        self.direct: list[Lease] = []
        self.released: set[Lease] = set()

    async def tell(self, what: str, about: object) -> None:
        match what, about:
            case "join", tuple(tried):
                self.sessions.append((self.room.asks(tried), tried))
            case "place", _:
                if isinstance(placed := self.room.admission.place(), Lease):
                    self.direct.append(placed)
            case (("leave" | "release"), int(number)):
                self._goes(what, number)
            case "time", float(seconds):
                await self.room.clock.advance(seconds)
            case _, str(url):
                self._replica(what, url)
            case _:
                await settle()
                self.check()

    def _goes(self, what: str, number: int) -> None:
        waiting = [session for session, _ in self.sessions if session.waits]
        leases = self.leases()
        if what == "leave" and waiting:
            waiting[number % len(waiting)].task.cancel()
        elif what == "release" and leases:
            self.released.add(lease := leases[number % len(leases)])
            lease.release()

    def _replica(self, what: str, url: str) -> None:
        match what:
            case "healthy":
                self.room.turn_healthy(url)
            case "unhealthy":
                self.room.turn_unhealthy(url)
            case "refuse":
                self.room.registry.mark_full(url, 1)
            case "more":
                self.limits[url] += 1
                endpoints = [ReplicaEndpoint(each, max_sessions=self.limits[each]) for each in URLS]
                self.room.registry.reconcile(endpoints)
            case _:
                self.room.registry.drain(url, what == "drain")

    def leases(self) -> list[Lease]:
        held = [session.outcome for session, _ in self.sessions]
        return [
            lease
            for lease in (*self.direct, *held)
            if isinstance(lease, Lease) and lease not in self.released
        ]

    def check(self) -> None:
        room = self.room
        assert room.sessions == len(self.leases())
        for replica in room.registry.all():
            assert replica.sessions <= self.limits[replica.url]
        waiting = [session for session, _ in self.sessions if session.waits]
        told = [session.told[-1] for session in waiting]
        assert told == [(position, len(waiting)) for position in range(len(waiting))]
        untried = [session for session, tried in self.sessions if session.waits and not tried]
        if untried:  # whoever would take any place has none to take
            seen = room.registry.candidates()
            assert any(each.usable for each in seen)
            assert not any(each.usable and each.has_room for each in seen)


@settings(max_examples=60, deadline=None)
@given(st.lists(happenings, max_size=40))
async def test_whatever_happens_the_line_is_in_order_and_nothing_is_left(
    story: list[tuple[str, object]],
) -> None:
    async with waiting_room(URLS, timeout_seconds=5, queue_size=6) as room:
        told = Story(room)
        for what, about in story:
            await told.tell(what, about)
        await settle()
        told.check()
        await room.clock.advance(5)
        assert room.admission.waiting == 0
        for lease in told.leases():
            lease.release()
        assert (room.sessions, room.clock.sleepers) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["join", "free", "leave", "settle"]), max_size=60))
async def test_who_came_first_is_served_first(story: list[str]) -> None:
    async with waiting_room(URLS) as room:
        leases = room.fill()
        sessions: list[Session] = []
        served: list[Session] = []
        for what in story:
            match what:
                case "join":
                    sessions.append(room.asks())
                case "free" if leases:
                    leases.pop().release()
                case "leave" if any(session.waits for session in sessions):
                    next(session for session in reversed(sessions) if session.waits).task.cancel()
                case _:
                    await settle()
                    for session in sessions:
                        if session.url is not None and session not in served:
                            served.append(session)
                            leases.append(session.lease)
        await settle()
        order = [sessions.index(session) for session in served]
        assert order == sorted(order)
