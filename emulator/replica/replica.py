"""A replica as people see it: it keeps its name, port, faults and counters through kills and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from emulator.events import EventLog
from emulator.faults import Flaky, Warming, fields_of
from emulator.faults.fault import Fault
from emulator.replica.board import Board
from emulator.replica.body import Body, ChildFailed
from emulator.replica.premises import Counters, Premises
from emulator.replica.spec import ReplicaSpec
from emulator.replica.watches import Watch

logger = logging.getLogger("emulator")


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


class Replica:
    """Start it inside a farm; every method but the plain readings wants the farm's event loop."""

    def __init__(
        self,
        spec: ReplicaSpec,
        log: EventLog,
        make_body: Callable[[Premises, Callable[[Body], None]], Body],
        reservation: socket.socket | None = None,
    ) -> None:
        self.spec = spec
        self.state = State.STOPPED
        self._log = log
        self._reservation = reservation
        self._premises = Premises(spec, Board(), Counters(), self._record)
        self._make_body = make_body
        self._body: Body | None = None
        self._is_port_open = False
        self._schedule = _Schedule()
        self._due = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def port(self) -> int:
        return self.spec.port

    @property
    def url(self) -> str:
        """What goes into a gateway's settings."""
        host = f"[{self.spec.host}]" if ":" in self.spec.host else self.spec.host
        return f"http://{host}:{self.spec.port}"

    @property
    def ws_url(self) -> str:
        """Where a session is opened."""
        return self.url.replace("http", "ws", 1) + "/v1/stream"

    @property
    def sessions(self) -> int:
        """Open now."""
        return self._premises.counters.sessions

    @property
    def pid(self) -> int | None:
        """Of the process it runs in; None while killed."""
        return self._body.pid if self._body is not None else None

    def status(self) -> dict[str, Any]:
        """Everything that is known of it, as JSON values."""
        counters = self._premises.counters
        now = self._premises.now()
        board = self._premises.board
        return {
            "name": self.name,
            "url": self.url,
            "state": str(self.state),
            "warming": board.live(Warming, now),
            "refusing": self._body is not None and not self._is_port_open,
            "pid": self.pid,
            "capacity": self.spec.capacity,
            **asdict(counters),
            "faults": {
                name: {**fields_of(entry.fault), "struck": entry.struck, "live": entry.is_live(now)}
                for name, entry in board.armed.items()
            },
        }

    # Faults

    @property
    def faults(self) -> list[Fault]:
        """Those that stand, in the order of arming."""
        return [entry.fault for entry in self._premises.board.armed.values()]

    def set_fault(self, fault: Fault) -> None:
        """`fault` stands, in place of one of the same name; `settle` waits for the effect."""
        self._premises.board.arm(fault, self._premises.now())
        self._record("fault_armed", detail={"fault": fault.name, **fields_of(fault)})
        self._faults_changed()

    def clear_fault(self, name: str) -> bool:
        """No fault of that name stands; tells whether one did."""
        lifted = self._premises.board.lift(name)
        if name == Flaky.name:
            self._premises.refuse_until = 0.0
        if lifted:
            self._record("fault_lifted", detail={"fault": name})
            self._faults_changed()
        return lifted

    def clear_faults(self) -> None:
        """No fault stands."""
        for name in list(self._premises.board.armed):
            self.clear_fault(name)

    async def settle(self) -> None:
        """Faults set so far have had their effect. A paused process is not waited for."""
        if self._body is not None and self.state is State.RUNNING:
            await self._body.settle()

    def _faults_changed(self) -> None:
        if self._body is not None:
            self._body.faults_changed()

    # Standing still

    def watch(self, watch: Watch) -> None:
        """It will stand still at the watch's point, and tell by an event `point_reached`; `release` it
        then."""
        self._premises.watches.set(watch)
        if self._body is not None:
            self._body.watches_changed()

    def release(self, key: int) -> None:
        """It does not stand still for the watch of that key, neither now nor later."""
        self._premises.watches.drop(key)
        if self._body is not None:
            self._body.watches_changed()
            self._body.release(key)

    # Life

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
            logger.exception("replica %s did not come back", self.name)

    async def start(self, *, warming_seconds: float = 0.0) -> None:
        """It runs, and warms up for so long. No-op when it runs already."""
        async with self._one_at_a_time:
            self._schedule.start_at = None
            if self._body is not None:
                return
            if warming_seconds > 0:
                self.set_fault(Warming(for_seconds=warming_seconds))
            before = self._premises
            self._premises = Premises(
                self.spec, before.board, before.counters, self._record, watches=before.watches
            )
            self._body = self._make_body(self._premises, self._died)
            self._is_port_open = False
            try:
                await self._body.start()
            except BaseException:
                self._body = None
                raise
            if warming_seconds > 0:
                # A process takes its time to start; the warm-up counts from when it is there.
                self._premises.board.arm(Warming(for_seconds=warming_seconds), self._premises.now())
                self._faults_changed()
            self._become(State.RUNNING)

    async def kill(self, *, restart_after_seconds: float | None = None, warming_seconds: float = 0.0) -> None:
        """Every connection is reset and the port closed at once; it comes back if a time is given."""
        async with self._one_at_a_time:
            self._schedule = _Schedule()
            if restart_after_seconds is not None:
                self._schedule.start_at = self._premises.now() + restart_after_seconds
                self._schedule.warming_seconds = warming_seconds
            self._due.set()
            if self._body is not None:
                body, self._body = self._body, None
                await body.kill()
            self._become(State.KILLED)

    async def restart(self, *, after_seconds: float = 0.0, warming_seconds: float = 0.0) -> None:
        """Killed if it runs; back after so long, then warming for so long. Returns at once if it has to
        wait."""
        await self.kill(
            restart_after_seconds=after_seconds if after_seconds > 0 else None,
            warming_seconds=warming_seconds,
        )
        if after_seconds <= 0:
            await self.start(warming_seconds=warming_seconds)

    async def pause(self, *, for_seconds: float | None = None) -> bool:
        """It stands still, for so long or until resumed. False when it is not alive."""
        async with self._one_at_a_time:
            if self._body is None:
                return False
            self._schedule.resume_at = None if for_seconds is None else self._premises.now() + for_seconds
            self._due.set()
            self._body.pause()
            self._become(State.PAUSED)
            return True

    async def resume(self) -> bool:
        """It goes on. False when it is not alive."""
        async with self._one_at_a_time:
            self._schedule.resume_at = None
            if self._body is None:
                return False
            self._body.resume()
            self._become(State.RUNNING)
            return True

    async def reset(self) -> None:
        """As new: no faults, running."""
        self.clear_faults()
        if self.state is State.PAUSED:
            await self.resume()
        await self.start()
        await self.settle()

    async def stop(self) -> None:
        """Sessions were told 1001, the port is closed and no longer kept."""
        async with self._one_at_a_time:
            self._schedule = _Schedule()
            if self._body is not None:
                body, self._body = self._body, None
                await body.stop()
            self._become(State.STOPPED)
        self.release_port()

    def release_port(self) -> None:
        """The port is anybody's."""
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None

    def _died(self, body: Body) -> None:
        """Its process ended without being told to: somebody else's signal, or a crash."""
        if self._body is body:
            self._body = None
            self._become(State.KILLED)

    def _become(self, state: State) -> None:
        if state is not self.state:
            before, self.state = self.state, state
            self._record("state_changed", detail={"before": str(before), "after": str(state)})

    def _record(
        self,
        kind: str,
        *,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        if kind in ("port_opened", "port_closed"):
            self._is_port_open = kind == "port_opened"
        self._log.record(
            self.spec.name, kind, at=time.time(), connection=connection, session=session, detail=detail
        )
