"""A fleet of gateways before one store, in virtual time: what can go wrong, and what they do with a view.

The memberships are the real ones, over the real model of the store. What is simulated is everything around
them: the way to the store, the processes, the replicas and their sessions. One seed gives all randomness.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TypeVar

from gateway.errors import FleetUnavailable
from gateway.fleet.counts import counts_report
from gateway.fleet.member import MemberState, Report
from gateway.fleet.membership import FleetMembership
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.occupancy import Belief, elsewhere
from gateway.fleet.sighting import Sighting
from gateway.fleet.spec import FleetSpec
from gateway.fleet.step import fleet_membership_lifecycle_step
from gateway.fleet.store import Answer, Beat
from gateway.fleet.view import FleetView
from gateway.replicas.model import NOWHERE, Elsewhere, has_place

SPEC = FleetSpec("gateways", timedelta(seconds=10))
EVERY = timedelta(seconds=3)
DEADLINE_SECONDS = (SPEC.ttl - EVERY).total_seconds() / 3
EPOCH_SECONDS = 2_000_000_000

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Weather:
    """What the way to the store does to each call."""

    loss: float = 0.0
    """Probability that a call never arrives; as many again arrive, and their answers are lost."""
    delay_seconds: float = 0.002
    """Mean of each way's delay."""


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


class Server(MemoryServer):
    """The store: it can be down, emptied, and on a clock that jumps."""

    def __init__(self) -> None:
        super().__init__(lambda: round((EPOCH_SECONDS + now() + self.ahead_seconds) * 1_000_000))
        self.ahead_seconds = 0.0
        self.up = asyncio.Event()
        self.up.set()
        self.beats = self.lost = 0

    def reply_bytes(self) -> int:
        """What the reply to a beat takes now: every id and every entry."""
        return sum(len(key) + len(entry) for key, entry in self.tables(SPEC.name).entries.items())


class Road:
    """One gateway's store: the server at the end of a road with weather."""

    def __init__(self, server: Server, weather: Weather, rng: Random) -> None:
        self._server, self._weather, self._rng = server, weather, rng
        self._store = MemoryFleetStore(SPEC, server)
        self.running = asyncio.Event()
        self.running.set()
        self.dead = False

    @property
    def spec(self) -> FleetSpec:
        return SPEC

    async def beat(self, beat: Beat) -> Answer:
        self._server.beats += 1
        return await self._travel(lambda: self._store.beat(beat))

    async def view(self) -> FleetView:
        return await self._travel(self._store.view)

    async def leave(self, member_id: str, *, incarnation: str | None = None) -> bool:
        return await self._travel(lambda: self._store.leave(member_id, incarnation=incarnation))

    async def _travel(self, call: Callable[[], Awaitable[Result]]) -> Result:
        await self._delay()
        await self._server.up.wait()
        draw = self._rng.random()
        if draw < self._weather.loss or self.dead:
            self._server.lost += 1
            await self._nothing_comes()
        result = await call()
        if draw < 2 * self._weather.loss:
            self._server.lost += 1
            await self._nothing_comes()
        await self._delay()
        return result

    async def _delay(self) -> None:
        if not self.dead:
            await asyncio.sleep(self._rng.expovariate(1 / self._weather.delay_seconds))
            await self.running.wait()

    async def _nothing_comes(self) -> None:
        if not self.dead:
            await asyncio.sleep(3600)
        raise FleetUnavailable("the way to the store is gone")


class GatewayClock:
    """A process's clocks: both are off, and it sleeps on while the process is stopped."""

    def __init__(self, running: asyncio.Event, off_seconds: float) -> None:
        self._running, self._off_seconds = running, off_seconds

    def time(self) -> float:
        return now() + self._off_seconds

    def monotonic(self) -> float:
        return now() + self._off_seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._running.wait()


@dataclass(eq=False, slots=True)
class Session:
    """One client's session. `replica` has it, or was asked last."""

    replica: int
    moves: int = 0


def url(replica: int) -> str:
    """Where the replica of that number would be."""
    return f"http://r{replica}:1"


@dataclass(eq=False)
class Gateway:
    """One process, and what it does with the fleet's view."""

    name: str
    road: Road
    replicas: int
    capacity: int
    off_seconds: float
    spread: str = "dealt"
    """How gateways keep from all taking the same free place; see `choose`."""
    sessions: dict[int, list[Session]] = field(default_factory=dict)
    """By replica."""
    opened: dict[int, list[float]] = field(default_factory=dict)
    """When it opened sessions, by replica."""
    line: deque[float] = field(default_factory=deque)
    """Since when each of its clients waits."""
    elsewhere: list[Elsewhere] = field(init=False)
    """What the others have and want of each replica, by the newest view."""
    refusing_until: dict[int, float] = field(default_factory=dict)
    """Replicas that have refused a session of this gateway moments ago."""
    belief: Belief | None = None
    membership: FleetMembership = field(init=False)
    begun: bool = False
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.limits: dict[str, int | None] = {url(number): self.capacity for number in range(self.replicas)}
        self.forget_others()
        self.membership = fleet_membership_lifecycle_step(
            SPEC,
            store=self.road,
            every=EVERY,
            report=self._report,
            state=lambda: MemberState.SERVING,
            member_id=self.name,
            clock=GatewayClock(self.road.running, self.off_seconds),
        )

    @property
    def load(self) -> int:
        return sum(map(len, self.sessions.values()))

    @property
    def awake(self) -> bool:
        """Whether it can do anything now."""
        return self.begun and self.road.running.is_set()

    async def live(self, heard: Callable[[Gateway, Sighting], None]) -> None:
        """Be a member until cancelled. A start that fails is made again, as whoever runs processes would."""

        def listen(sighting: Sighting) -> None:
            self._count(sighting)
            heard(self, sighting)

        while not self.road.dead:
            try:
                async with self.membership as membership:
                    self._count(membership.sighting)
                    self.begun = True
                    membership.subscribe(listen)
                    await asyncio.Event().wait()
            except FleetUnavailable:
                await asyncio.sleep(1)

    def choose(self, rng: Random) -> int | None:
        """One of the replicas with the fewest sessions that have room, as far as this gateway knows; None
        where all are full.

        With `dealt`, the gateways' own rule, some room may be left to clients who wait elsewhere. With `none`
        everybody who sees the last free place sends its next session there.
        """
        at, totals = now(), dict[int, int]()
        for replica, others in enumerate(self.elsewhere):
            if others.places >= self.capacity:
                continue
            held = len(self.sessions.get(replica, ()))
            refuses = at < self.refusing_until.get(replica, 0)
            if has_place(self.capacity, held, others) and not refuses:
                totals[replica] = held + others.sessions
        if not totals:
            return None
        least = min(totals.values())
        return rng.choice([replica for replica, total in totals.items() if total == least])

    def forget_others(self) -> None:
        """It believes that nobody else has a session."""
        self.elsewhere = [NOWHERE] * self.replicas

    def open(self, session: Session) -> None:
        self.sessions.setdefault(session.replica, []).append(session)
        self.opened.setdefault(session.replica, []).append(now())

    def end(self, session: Session) -> bool:
        """Whether it was still here."""
        held = self.sessions.get(session.replica, [])
        if session not in held:
            return False
        held.remove(session)
        if not held:
            del self.sessions[session.replica]
        return True

    def _report(self) -> Report:
        held = {url(replica): len(sessions) for replica, sessions in self.sessions.items()}
        report, left_out = counts_report(held, len(self.line), SPEC.report_max_bytes, {"at": now()})
        assert not left_out
        return report

    def _count(self, sighting: Sighting) -> None:
        before, view = self.belief, sighting.view
        self.belief = before.next(view, self.name, SPEC.ttl) if before is not None else Belief(view)
        found = elsewhere(self.belief.view, self.name, self.limits, SPEC.ttl)
        self.elsewhere = [found.get(key, NOWHERE) for key in self.limits]
        if self.spread == "none":
            self.elsewhere = [Elsewhere(others.sessions) for others in self.elsewhere]
