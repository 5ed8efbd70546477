"""Keeps one process's entry in a fleet for as long as it runs: the only writer of that entry.

1. It beats once as `starting`. If that fails, so does the start: a fleet that is not wired, or a report that
   cannot be sent, stops the boot instead of being told of at every beat.
2. Then it beats `every` after each answer, in the state that its process is in by then; earlier where what it
   says has changed, but never in haste, nor while beats fail.
3. A beat may take (ttl - every) / 3. One that fails or takes longer is told of, and the next one tries again.
   It may have been applied all the same. The last view is kept, and ages.
4. At the end the entry is removed (`leave`), or written once more as `draining` to live for `linger_for`
   (`linger`). A beat that is under way then is waited for, so that it does not come after.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from gateway.clock import Clock, SystemClock
from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.member import NOTHING, MemberState, Report, checked_id
from gateway.fleet.sighting import Sighting
from gateway.fleet.spec import Cadence, FleetSpec
from gateway.fleet.standing import Standing, StandingEvent, first_standing, next_standing
from gateway.fleet.store import Answer, Beat, FleetStore
from gateway.fleet.telling import Telling

Listener = Callable[[Sighting], None]

EARLIEST_SECONDS = 0.25
"""Between an answer and the next beat, whatever has changed."""


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """What a membership shows of itself."""

    fleet: str
    """What the fleet is called."""
    member_id: str
    """Who it is in the fleet."""
    age_seconds: float
    """How old its view is."""
    hash: str
    """Equal for two members that hold the same view, whatever they report."""
    sighting: Sighting
    """The view itself, and what was seen before it."""
    failing: str | None
    """Why the last beat failed; None where it did not."""
    failed_beats: int
    """Beats in a row without an answer."""
    id_shared: bool
    """A second live process beats under the same id."""


@dataclass(slots=True)
class _Failures:
    """Beats in a row that got no answer."""

    count: int = 0
    reason: str | None = None
    since_seconds: float = field(default=0.0)


class FleetMembership:
    """One process's membership, alive inside `async with`; made by `step.fleet_membership_lifecycle_step`."""

    def __init__(
        self,
        store: FleetStore,
        cadence: Cadence,
        *,
        report: Callable[[], Report],
        state: Callable[[], MemberState],
        member_id: str,
        depends_on: Sequence[AbstractAsyncContextManager[Any]] = (),
        clock: Clock | None = None,
    ) -> None:
        self.spec: FleetSpec = store.spec
        self.id = checked_id(member_id)
        self._deadline_seconds = cadence.beat_deadline(self.spec).total_seconds()
        self._store, self._cadence = store, cadence
        self._report, self._state = report, state
        self._incarnation = secrets.token_hex(8)
        self._depends_on = tuple(depends_on)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._telling = Telling(self.spec.name, self.id)
        self._listeners: list[Listener] = []
        self._standing: Standing | None = None
        self._failures = _Failures()
        self._beats = 0
        self._resting = self._stopping = self._abandoned = False
        self._early = asyncio.Event()

    @property
    def sighting(self) -> Sighting:
        """The newest view and what was seen before it. RuntimeError before the first beat's answer."""
        return self._known().sighting

    def _known(self) -> Standing:
        if self._standing is None:
            raise RuntimeError("this membership has not begun: enter it with `async with`")
        return self._standing

    @property
    def fresh(self) -> bool:
        """Whether the view is as new as it should be: no beat has failed since, and none is overdue."""
        return self._failures.count == 0 and self._age_seconds() <= self._fresh_seconds

    @property
    def _fresh_seconds(self) -> float:
        return self._cadence.every.total_seconds() + self._deadline_seconds

    def status(self) -> FleetStatus:
        """What there is to show, now."""
        sighting = self.sighting
        return FleetStatus(
            self.spec.name,
            self.id,
            self._age_seconds(),
            sighting.view.hash,
            sighting,
            self._failures.reason,
            self._failures.count,
            self._known().shared_at is not None,
        )

    def share(self, total: int) -> int:
        """This member's part of `total` by the newest view, however old that is."""
        return self.sighting.view.share(total, self.id)

    def excess(
        self, tolerance: float, settle: timedelta, movable: str | None = None, smallest: int = 1
    ) -> int:
        """How much load this member should hand over. 0 while beats fail, or the fleet is not settled."""
        if not self.fresh:
            return 0
        return self.sighting.excess(
            self.id,
            tolerance,
            settle,
            movable,
            smallest,
            now_seconds=self._clock.monotonic(),
            fresh_seconds=self._fresh_seconds,
        )

    def beat_soon(self) -> None:
        """The next beat comes before its time, as this member has something new to say: EARLIEST_SECONDS
        after the last answer, or at once where that was longer ago. While beats fail it comes as always.
        """
        self._early.set()

    def abandon(self) -> None:
        """Nothing more is sent, as if the process had been killed: at the end the entry is left to expire."""
        self._abandoned = self._stopping = True
        self._loop.cancel()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the sighting of every beat answered from now on; the result ends that.

        A listener must not raise, and finds the membership already changed.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def __aenter__(self) -> Self:
        """Afterwards the fleet has this member. Raises what kept the first beat from its answer."""
        async with AsyncExitStack() as opened:
            for needed in self._depends_on:
                await opened.enter_async_context(needed)
            await self._first_beat()
            self._tasks = asyncio.TaskGroup()
            await self._tasks.__aenter__()
            self._loop = self._tasks.create_task(self._beat_on())
            self._opened = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Afterwards the member has gone as configured, or could not say so; what it needed is closed."""
        async with self._opened:
            self._stopping = True
            if self._resting:
                self._loop.cancel()
            await self._tasks.__aexit__(None, None, None)
            if not self._abandoned:
                await self._go()

    async def _first_beat(self) -> None:
        answer = await self._beat(MemberState.STARTING, self._report())
        seen_at = self._clock.monotonic()
        self._standing, events = first_standing(answer, self.id, self._incarnation, seen_at)
        self._telling.joined(self._standing.sighting.view)
        self._tell(events)

    async def _beat_on(self) -> None:
        while not self._stopping:
            self._resting = True
            await self._rest()
            self._resting = False
            await self._try_to_beat()

    async def _rest(self) -> None:
        """Return when the next beat is due."""
        every = self._cadence.every.total_seconds()
        if self._failures.count or every <= EARLIEST_SECONDS:
            await self._clock.sleep(every)
        else:
            await self._clock.sleep(EARLIEST_SECONDS)
            async with asyncio.TaskGroup() as tasks:
                left = tasks.create_task(self._clock.sleep(every - EARLIEST_SECONDS))
                early = tasks.create_task(self._early.wait())
                await asyncio.wait((left, early), return_when=asyncio.FIRST_COMPLETED)
                left.cancel()
                early.cancel()
        self._early.clear()

    async def _try_to_beat(self) -> None:
        """Afterwards the view is new, or the failure has been told."""
        try:
            self._answered(await self._beat(self._state(), self._report()))
        except (FleetUnavailable, FleetRefused) as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - reports and listeners are foreign: none may end the member
            self._failed(f"{type(error).__name__}: {error}", error)

    async def _beat(self, state: MemberState, report: Report, ttl: timedelta | None = None) -> Answer:
        """One answered beat. Raises FleetUnavailable when none came in time."""
        beat = Beat(self.id, state, report, self._incarnation, self._beats, ttl)
        self._beats += 1
        begun_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await self._store.beat(beat)
        except TimeoutError as error:
            raise FleetUnavailable(f"no answer within {self._deadline_seconds:.3g} s") from error
        took_seconds = self._clock.monotonic() - begun_at
        if took_seconds > self._deadline_seconds:
            # This process did not run meanwhile: the timer had no chance, and the view is as old as that.
            raise FleetUnavailable(f"the answer came after {took_seconds:.3g} s")
        return answer

    def _answered(self, answer: Answer) -> None:
        if self._failures.count:
            seconds = self._clock.monotonic() - self._failures.since_seconds
            self._telling.beats_again(self._failures.count, seconds)
            self._failures = _Failures()
        self._standing, events = next_standing(
            self._known(),
            answer,
            self.id,
            self._incarnation,
            self.spec.ttl,
            self._clock.monotonic(),
        )
        self._tell(events)
        for listener in tuple(self._listeners):
            listener(self._standing.sighting)

    def _failed(self, reason: str, defect: Exception | None = None) -> None:
        if not self._failures.count:
            self._failures.since_seconds = self._clock.monotonic()
        self._failures.count += 1
        self._failures.reason = reason
        self._telling.beat_failed(reason, self._age_seconds(), self._failures.count, defect)

    def _tell(self, events: Sequence[StandingEvent]) -> None:
        for event in events:
            self._telling.event(event, self.sighting.view)

    def _age_seconds(self) -> float:
        return self.sighting.age_seconds(self._clock.monotonic())

    async def _go(self) -> None:
        """Afterwards the entry is gone or lingers. A store that does not answer leaves it to expire."""
        try:
            if self._cadence.on_stop == "linger":
                await self._beat(MemberState.DRAINING, self._last_report(), self._linger_for())
            else:
                async with asyncio.timeout(self._deadline_seconds):
                    await self._store.leave(self.id, incarnation=self._incarnation)
        except (FleetUnavailable, FleetRefused, TimeoutError) as error:
            self._telling.could_not_go(str(error) or f"no answer within {self._deadline_seconds:.3g} s")
        else:
            self._telling.gone(self._cadence.on_stop)

    def _linger_for(self) -> timedelta:
        return self._cadence.linger_for or self.spec.ttl

    def _last_report(self) -> Report:
        """What is reported now, or nothing where that fails: going must not."""
        try:
            return self._report()
        except Exception as error:  # noqa: BLE001 - foreign code, at the very end
            self._telling.beat_failed(f"{type(error).__name__}: {error}", self._age_seconds(), 1, error)
            return NOTHING
