"""The lives of a replica: started, killed, paused, replaced, each time by a body; one change at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from emulator.faults import Kill, Pause, Poison, ProcessFault, Restart, Warming
from emulator.faults.fault import Fault
from emulator.replica.body import Body, ChildFailed
from emulator.replica.premises import Premises

logger = logging.getLogger("emulator")

MakeBody = Callable[[Premises, Callable[[Body], None]], Body]


class State(StrEnum):
    """What the replica's process does."""

    RUNNING = "running"
    PAUSED = "paused"
    """Stopped in its tracks: takes connects, reads and writes nothing."""
    KILLED = "killed"
    STOPPED = "stopped"
    """Before the start, and after an orderly end."""


@dataclass(slots=True)
class _Schedule:
    """What is due, in monotonic seconds."""

    start_at: float | None = None
    warming_seconds: float = 0.0
    resume_at: float | None = None


class Life:
    """Owns the body, and the state that it is in."""

    def __init__(
        self,
        renew: Callable[[], Premises],
        make_body: MakeBody,
        arm: Callable[[Fault], None],
        changed: Callable[[State, State], None],
    ) -> None:
        """`renew` makes the premises of another life, `arm` lets a fault stand, `changed` hears the state
        before and after."""
        self.state = State.STOPPED
        self.body: Body | None = None
        """None while there is no process."""
        self._renew = renew
        self._make_body = make_body
        self._arm = arm
        self._changed = changed
        self._premises = renew()
        self._schedule = _Schedule()
        self._due = asyncio.Event()
        self._is_paused_by_fault = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Do what was scheduled when its time comes; until cancelled."""
        while True:
            self._due.clear()
            now = self._premises.now()
            plan = self._schedule
            if plan.start_at is not None and plan.start_at <= now:
                await self._start_again(plan.warming_seconds)
            elif plan.resume_at is not None and plan.resume_at <= now:
                await self.resume()
            else:
                moments = [moment for moment in (plan.start_at, plan.resume_at) if moment is not None]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(moments) - now if moments else None):
                        await self._due.wait()

    async def _start_again(self, warming_seconds: float) -> None:
        try:
            await self.start(warming_seconds=warming_seconds)
        except (OSError, TimeoutError, ChildFailed):
            logger.exception("replica %s did not come back", self._premises.spec.name)

    async def start(self, *, warming_seconds: float = 0.0) -> None:
        """It runs, and warms up for so long. No-op when it runs already."""
        async with self._one_at_a_time:
            self._schedule.start_at = None
            if self.body is not None:
                return
            self._premises = self._renew()
            if warming_seconds > 0:
                self._arm(Warming(for_seconds=warming_seconds))
            self.body = self._make_body(self._premises, self._died)
            try:
                await self.body.start()
            except BaseException:
                self.body = None
                raise
            if warming_seconds > 0:
                # A process takes its time to start; the warm-up counts from when it is there.
                self._premises.board.arm(Warming(for_seconds=warming_seconds), self._premises.now())
                self.body.faults_changed()
            self._become(State.RUNNING)

    async def kill(self, *, restart_after_seconds: float | None, warming_seconds: float) -> None:
        """Every connection is reset and the port closed at once; it comes back if a time is given."""
        async with self._one_at_a_time:
            self._come_back(restart_after_seconds, warming_seconds)
            if self.body is not None:
                body, self.body = self.body, None
                await body.kill()
            self._become(State.KILLED)

    async def replace(self, *, away_seconds: float, warming_seconds: float) -> None:
        """It has ended in order, as for a new version, and comes back after so long."""
        async with self._one_at_a_time:
            await self._end()
            self._come_back(away_seconds, warming_seconds)

    async def stop(self) -> None:
        """Sessions were told 1001, and the port is closed."""
        async with self._one_at_a_time:
            await self._end()

    async def _end(self) -> None:
        self._schedule = _Schedule()
        if self.body is not None:
            body, self.body = self.body, None
            await body.stop()
        self._become(State.STOPPED)

    def _come_back(self, after_seconds: float | None, warming_seconds: float) -> None:
        """It is started after so long; None for not by itself."""
        self._schedule = _Schedule(warming_seconds=warming_seconds)
        if after_seconds is not None:
            self._schedule.start_at = self._premises.now() + after_seconds
        self._due.set()

    async def pause(self, *, for_seconds: float | None) -> bool:
        """It stands still, for so long or until resumed. False when it is not alive."""
        async with self._one_at_a_time:
            if self.body is None:
                return False
            self._schedule.resume_at = None if for_seconds is None else self._premises.now() + for_seconds
            self._due.set()
            self._is_paused_by_fault = False
            self.body.pause()
            self._become(State.PAUSED)
            return True

    async def resume(self) -> bool:
        """It goes on. False when it is not alive."""
        async with self._one_at_a_time:
            self._schedule.resume_at = None
            self._is_paused_by_fault = False
            if self.body is None:
                return False
            self.body.resume()
            self._become(State.RUNNING)
            return True

    # Faults of the process

    async def carry_out(self, fault: ProcessFault) -> None:
        """What a fault of the process wants has been done, unless there is no process."""
        if self.body is None:
            return
        match fault:
            case Kill(restart_after_seconds=back, warming_seconds=warming):
                await self.kill(restart_after_seconds=back, warming_seconds=warming)
            case Poison():
                await self.kill(restart_after_seconds=None, warming_seconds=0.0)
            case Restart(away_seconds=away, warming_seconds=warming):
                await self.replace(away_seconds=away, warming_seconds=warming)
            case Pause(seconds=seconds):
                await self._pause_by_fault(seconds)

    async def _pause_by_fault(self, seconds: float | None) -> None:
        """It stands still for so long, and no longer than the fault stands."""
        now = self._premises.now()
        entry = self._premises.board.armed.get(Pause.name)
        if entry is None or not entry.is_in_time(now):
            return
        left = [] if seconds is None else [seconds]
        if entry.ends_at is not None:
            left.append(entry.ends_at - now)
        if await self.pause(for_seconds=min(left, default=None)):
            self._is_paused_by_fault = True

    def pause_fault_changed(self) -> None:
        """The fault `pause` was lifted or armed anew: if it has paused the replica, that ends soon."""
        if self._is_paused_by_fault:
            self._schedule.resume_at = self._premises.now()
            self._due.set()

    def _died(self, body: Body) -> None:
        """Its process ended without being told to: by somebody else's signal."""
        if self.body is body:
            self.body = None
            self._become(State.KILLED)

    def _become(self, state: State) -> None:
        if state is not self.state:
            before, self.state = self.state, state
            self._changed(before, state)
