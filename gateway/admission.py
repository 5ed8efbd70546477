"""Which session may open, and on which replica: a choice and its lease in one step of the event loop.

Where healthy replicas are full, sessions wait in one bounded line, first come, first served. Whatever may
free a place is told by the registry, in the step in which it happens, and in that step the place is leased to
whoever `gateway.queueing` says. So a newcomer finds a free place only where nobody who waits could use it,
and a waiter is woken only for an outcome of its own, or because its position is another one. Time alone
changes two things, the deadlines and the moments for which a replica is left out; `Admission.run` sleeps
until the next of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from gateway.clock import Clock, SystemClock
from gateway.queueing import Assignment, Hopeless, Waiter, assign
from gateway.quotas import ClientFull, GatewayFull, Quotas
from gateway.replicas.events import RegistryEvent, StatusChanged
from gateway.replicas.lease import Lease
from gateway.replicas.model import ReplicaStatus
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, Chosen, NoneHealthy, Policy, choose


@dataclass(frozen=True, slots=True)
class QueueFull:
    """As many wait as may: not even waiting is possible."""


@dataclass(frozen=True, slots=True)
class QueueTimeout:
    """No place came in time."""


@dataclass(slots=True, eq=False)
class Turn:
    """Where a session stands in the order of arrival, for one search for a replica. Made by `Admission`."""

    number: int
    known: bool = False
    """It has been in line or had a replica before, and so may join a line that is full."""
    deadline: float | None = None
    """Until when it may wait, by the monotonic clock; set when it joins the line for the first time."""


OnPosition = Callable[[int, int], None]
"""Told the position (0 is next) and how many wait, oneself included. Must not raise."""

Outcome = Lease | QueueTimeout | NoneHealthy


@dataclass(slots=True, eq=False)
class _Place:
    """A place in the line. It is left with the outcome, which is set once."""

    waiter: Waiter
    deadline: float
    stands: tuple[int, int] = (-1, -1)
    outcome: Outcome | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Admission:
    """Places sessions by the policy. A place is held by its lease, from here to the session's end.

    `max_sessions` bounds the sessions of this gateway and `max_sessions_per_client` those of one client, both
    counted by `client`; None is no limit. `queue_size` sessions may wait, each for `queue_timeout_seconds`.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        policy: Policy,
        *,
        max_sessions: int | None = None,
        max_sessions_per_client: int | None = None,
        queue_size: int = 0,
        queue_timeout_seconds: float = 30.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`clock` must be the one by which the registry leaves replicas out for a moment."""
        self._registry = registry
        self._policy = policy
        self._quotas = Quotas(max_sessions=max_sessions, max_sessions_per_client=max_sessions_per_client)
        self._queue_size = queue_size
        self._queue_timeout_seconds = queue_timeout_seconds
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._rng = rng if rng is not None else random.Random()
        self._ticket = 0
        self._turns = 0
        self._line: dict[int, _Place] = {}  # in the order of the turns
        self._running = False
        self._stirred = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Sessions that wait for a place."""
        return len(self._line)

    @property
    def max_sessions(self) -> int | None:
        """Sessions that there may be; None is no limit."""
        return self._quotas.max_sessions

    def admit_at_most(self, max_sessions: int | None) -> None:
        """From now on there may be so many. Sessions that are there already stay."""
        self._quotas.max_sessions = max_sessions

    def client(self, key: str | None) -> AbstractContextManager[None] | ClientFull | GatewayFull:
        """`Quotas.client`; a session that waits counts."""
        return self._quotas.client(key)

    def place(self, tried: Collection[str] = (), *, key: str | None = None) -> Lease | AllFull | NoneHealthy:
        """A lease on a replica that is not among the URLs of `tried`, or why there is none.

        A place that somebody who waits could use is theirs, even when only time has freed it. The first try
        of a session takes a ticket; its further tries go on from where that one stood.
        """
        self._serve()
        choice = choose(
            self._policy,
            self._registry.candidates(exclude=tried),
            ticket=self._ticket,
            draw=self._rng.random(),
            key=key,
        )
        if not isinstance(choice, Chosen):
            return choice
        return self._lease(choice.candidate.url, first_try=not tried)

    def turn(self, before: Turn | None = None) -> Turn:
        """A turn for a search that begins now, with the whole timeout before it: behind those there are, or
        where the session stood with the turn that it had `before`: one that lost its replica comes first.
        """
        if before is not None:
            return Turn(before.number, known=True)
        self._turns += 1
        return Turn(self._turns)

    def starts(self, turn: Turn) -> None:
        """The time that `turn` may wait runs from now on, if it did not before."""
        if turn.deadline is None:
            turn.deadline = self._clock.monotonic() + self._queue_timeout_seconds

    def is_over(self, turn: Turn) -> bool:
        """Whether the time that `turn` may wait has passed, wherever its session has been meanwhile."""
        return turn.deadline is not None and self._clock.monotonic() >= turn.deadline

    async def wait(
        self,
        tried: Collection[str] = (),
        *,
        key: str | None = None,
        on_position: OnPosition,
        turn: Turn | None = None,
    ) -> Lease | QueueFull | QueueTimeout | NoneHealthy:
        """A lease, taken in the step in which its place was free, or why there is none.

        Returns without waiting where `place` would give a lease; where it says that no replica is healthy
        this does too, at once, also for those that wait already. `on_position` is called from this task: on
        joining, and when either number is another one than it was told last.

        `tried` has the URLs of replicas that this session could not reach. Leave out one that took the
        connection and said that it had no room: it is full for a moment, by `ReplicaRegistry.mark_full`, and
        a place on it is what this session waits for. One that could not be reached counts again once it has
        recovered.

        The order is that of the turns; without one a session takes its turn now. One that got a place from
        the line and was turned away there waits again with the turn it had: it stands before those that came
        after it (whose positions rise by one), its timeout goes on, and it may join a line that is full. So
        the line has `queue_size` places, and one for each session that has been in it or had a replica.

        Cancel-safe: who leaves is out of the line at once, and a lease that it was given in the same step is
        released, which gives the place to the next. Of a timeout and a place in the same step the first one
        wins. Needs `run`; without it nobody can wait, as if the line were full.
        """
        placed = self.place(tried, key=key)
        if not isinstance(placed, AllFull):
            return placed
        turn = turn if turn is not None else self.turn()
        if not self._running or not (turn.known or len(self._line) < self._queue_size):
            return QueueFull()
        place = self._join(turn, tried, key)
        told, kept = place.stands, False
        try:
            while place.outcome is None:
                if place.stands != told:
                    told = place.stands
                    on_position(*told)
                await place.changed.wait()
                place.changed.clear()
            kept = True
            return place.outcome
        finally:
            if not kept:
                self._leave(place)

    async def run(self) -> None:
        """Keep the line's time until cancelled: its deadlines, and the places that are free by time alone.

        Listens to the registry meanwhile. Whoever still waits at its end is told `QueueTimeout`.
        """
        self._stirred = asyncio.Event()  # the last run may have been in another event loop
        unsubscribe = self._registry.subscribe(self._heard)
        self._running = True
        try:
            while True:
                self._stirred.clear()
                self._expire()
                self._registry.settle()  # what that frees is heard
                self._number()
                await self._next_moment()
        finally:
            self._running = False
            unsubscribe()
            for place in self._line.values():
                self._end(place, QueueTimeout())
            self._line.clear()

    def _join(self, turn: Turn, tried: Collection[str], key: str | None) -> _Place:
        known = (self._registry.get(url) for url in tried)
        waiter = Waiter(
            turn=turn.number,
            tried=frozenset(replica.url for replica in known if replica is not None),
            key=key,
            draw=self._rng.random(),
        )
        turn.known = True
        self.starts(turn)
        assert turn.deadline is not None
        behind = next(reversed(self._line), 0) < turn.number
        place = self._line[turn.number] = _Place(waiter, turn.deadline)
        if not behind:
            self._line = dict(sorted(self._line.items()))
        self._stirred.set()
        return place

    def _leave(self, place: _Place) -> None:
        if self._line.pop(place.waiter.turn, None) is not None:
            self._stirred.set()
        if isinstance(place.outcome, Lease):
            place.outcome.release()

    def _heard(self, event: RegistryEvent) -> None:
        """Any event may make a place, take the last hope, or change when time frees the next place."""
        if not self._line:
            return
        match event:
            case StatusChanged(url=url, after=ReplicaStatus.HEALTHY):
                for place in self._line.values():
                    if url in place.waiter.tried:
                        place.waiter = replace(place.waiter, tried=place.waiter.tried - {url})
            case _:
                pass
        self._serve()
        self._stirred.set()

    def _serve(self) -> None:
        """Lease what is free to those that wait, and tell those that wait in vain."""
        if not self._line:
            return
        waiting = (place.waiter for place in self._line.values())
        decided = assign(waiting, self._registry.candidates(), self._policy, ticket=self._ticket)
        for decision in decided:
            place = self._line.pop(decision.waiter.turn)
            match decision:
                case Assignment(waiter=waiter, url=url):
                    self._end(place, self._lease(url, first_try=not waiter.tried))
                case Hopeless():
                    self._end(place, NoneHealthy())
        if decided:
            self._stirred.set()

    def _expire(self) -> None:
        now = self._clock.monotonic()
        over = [place for place in self._line.values() if place.deadline <= now]
        for place in over:
            del self._line[place.waiter.turn]
            self._end(place, QueueTimeout())

    async def _next_moment(self) -> None:
        """Return when time has changed something, or what there is to wait for may have changed."""
        if not self._line:
            await self._stirred.wait()
            return
        first = min(place.deadline for place in self._line.values())
        seconds = first - self._clock.monotonic()
        freed = self._registry.next_place_seconds()
        async with asyncio.TaskGroup() as tasks:
            alarm = tasks.create_task(self._ring(seconds if freed is None else min(seconds, freed)))
            await self._stirred.wait()
            alarm.cancel()

    async def _ring(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._stirred.set()

    def _number(self) -> None:
        """Wake those that stand elsewhere than before: once in a turn of the loop, whatever changed in it."""
        depth = len(self._line)
        for position, place in enumerate(self._line.values()):
            if place.stands != (position, depth):
                place.stands = (position, depth)
                place.changed.set()

    def _lease(self, url: str, *, first_try: bool) -> Lease:
        self._ticket += first_try
        return self._registry.lease(url)

    @staticmethod
    def _end(place: _Place, outcome: Outcome) -> None:
        place.outcome = outcome
        place.changed.set()
