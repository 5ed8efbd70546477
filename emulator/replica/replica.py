"""A replica as people see it: it keeps its name, port, faults and counters through kills and restarts."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from emulator.events import EventLog
from emulator.faults import Flaky, Pause, ProcessFault, Warming, fields_of
from emulator.faults.fault import Fault
from emulator.replica.board import Board
from emulator.replica.life import Life, MakeBody, State
from emulator.replica.premises import Counters, Premises
from emulator.replica.spec import ReplicaSpec, base_url
from emulator.replica.watches import Watch

__all__ = ["Replica", "State"]


class Replica:
    """Start it inside a farm; every method but the plain readings wants the farm's event loop."""

    def __init__(
        self,
        spec: ReplicaSpec,
        log: EventLog,
        make_body: MakeBody,
        reservation: socket.socket | None = None,
    ) -> None:
        self.spec = spec
        self._log = log
        self._reservation = reservation
        self._premises = Premises(spec, Board(), Counters(), self._record)
        self._is_port_open = False
        self._life = Life(self._renew, make_body, self.set_fault, self._state_changed)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def port(self) -> int:
        return self.spec.port

    @property
    def url(self) -> str:
        """What goes into the settings of a gateway on this machine."""
        return base_url(self.spec.host, self.spec.port)

    @property
    def ws_url(self) -> str:
        """Where a session is opened."""
        return self.url.replace("http", "ws", 1) + "/v1/stream"

    @property
    def state(self) -> State:
        """What its process does."""
        return self._life.state

    @property
    def sessions(self) -> int:
        """Open now."""
        return self._premises.counters.sessions

    @property
    def pid(self) -> int | None:
        """Of the process it runs in; None while killed."""
        return self._life.body.pid if self._life.body is not None else None

    def status(self) -> dict[str, Any]:
        """Everything that is known of it, as JSON values."""
        now = self._premises.now()
        board = self._premises.board
        counters = asdict(self._premises.counters)
        scaling = self._scaling(counters, now)
        return {
            "name": self.name,
            "url": self.url,
            "state": str(self.state),
            "warming": board.live(Warming, now),
            "refusing": self._life.body is not None and not self._is_port_open,
            "pid": self.pid,
            "capacity": self._premises.capacity,
            **counters,
            "scale_to_zero": scaling,
            "faults": {
                name: {**fields_of(entry.fault), "struck": entry.struck, "live": entry.is_live(now)}
                for name, entry in board.armed.items()
            },
        }

    def _scaling(self, counters: dict[str, Any], now: float) -> dict[str, Any] | None:
        """What `counters` say of its sleep, which is taken out of them."""
        said = {key: counters.pop(key) for key in ("power", "wakes", "billed_seconds", "awake_since")}
        since = said.pop("awake_since")
        if (traits := self.spec.scale_to_zero) is None:
            return None
        said["billed_seconds"] += now - since if since is not None else 0.0
        return {**asdict(traits), **said}

    # Faults

    @property
    def faults(self) -> list[Fault]:
        """Those that stand, in the order of arming."""
        return [entry.fault for entry in self._premises.board.armed.values()]

    def set_fault(self, fault: Fault) -> None:
        """`fault` stands, in place of one of the same name; `settle` waits for the effect."""
        self._premises.board.arm(fault, self._premises.now())
        self._record("fault_armed", detail={"fault": fault.name, **fields_of(fault)})
        self._faults_changed(fault.name)

    def clear_fault(self, name: str) -> bool:
        """No fault of that name stands; tells whether one did."""
        lifted = self._premises.board.lift(name)
        if name == Flaky.name:
            self._premises.refuse_until = 0.0
        if lifted:
            self._record("fault_lifted", detail={"fault": name})
            self._faults_changed(name)
        return lifted

    def clear_faults(self) -> None:
        """No fault stands."""
        for name in list(self._premises.board.armed):
            self.clear_fault(name)

    async def settle(self) -> None:
        """Faults set so far have had their effect. A paused process is not waited for."""
        if self._life.body is not None and self.state is State.RUNNING:
            await self._life.body.settle()

    def _faults_changed(self, name: str) -> None:
        if name == Pause.name:
            self._life.pause_fault_changed()
        if self._life.body is not None:
            self._life.body.faults_changed()

    # Standing still

    def watch(self, watch: Watch) -> None:
        """It will stand still at the watch's point, and tell by an event `point_reached`; `release` it
        then."""
        self._premises.watches.set(watch)
        if self._life.body is not None:
            self._life.body.watches_changed()

    def release(self, key: int) -> None:
        """It does not stand still for the watch of that key, neither now nor later."""
        self._premises.watches.drop(key)
        if self._life.body is not None:
            self._life.body.watches_changed()
            self._life.body.release(key)

    # Life

    async def run(self) -> None:
        """Do what was scheduled when its time comes; until cancelled."""
        await self._life.run()

    async def start(self, *, warming_seconds: float = 0.0) -> None:
        """It runs, and warms up for so long. No-op when it runs already."""
        await self._life.start(warming_seconds=warming_seconds)

    async def kill(self, *, restart_after_seconds: float | None = None, warming_seconds: float = 0.0) -> None:
        """Every connection is reset and the port closed at once; it comes back if a time is given."""
        await self._life.kill(restart_after_seconds=restart_after_seconds, warming_seconds=warming_seconds)

    async def restart(self, *, after_seconds: float = 0.0, warming_seconds: float = 0.0) -> None:
        """Killed if it runs; back after so long, then warming for so long. Returns at once if it has to
        wait."""
        await self.kill(
            restart_after_seconds=after_seconds if after_seconds > 0 else None,
            warming_seconds=warming_seconds,
        )
        if after_seconds <= 0:
            await self.start(warming_seconds=warming_seconds)

    async def replace(self, *, away_seconds: float = 0.0, warming_seconds: float = 0.0) -> None:
        """It has ended in order, as for a new version: sessions were told 1001. It comes back after so
        long."""
        await self._life.replace(away_seconds=away_seconds, warming_seconds=warming_seconds)

    async def pause(self, *, for_seconds: float | None = None) -> bool:
        """It stands still, for so long or until resumed. False when it is not alive."""
        return await self._life.pause(for_seconds=for_seconds)

    async def resume(self) -> bool:
        """It goes on. False when it is not alive."""
        return await self._life.resume()

    async def reset(self) -> None:
        """As new: no faults, running."""
        self.clear_faults()
        if self.state is State.PAUSED:
            await self.resume()
        await self.start()
        await self.settle()

    async def stop(self) -> None:
        """Sessions were told 1001, the port is closed and no longer kept."""
        await self._life.stop()
        self.release_port()

    def release_port(self) -> None:
        """The port is anybody's."""
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None

    def _renew(self) -> Premises:
        """What another life of it begins with: its faults, its counters, its watches."""
        before = self._premises
        self._is_port_open = False
        self._end_of_life()
        self._premises = Premises(
            self.spec,
            before.board,
            before.counters,
            self._record,
            owner=self._carry_out,
            watches=before.watches,
        )
        return self._premises

    async def _carry_out(self, fault: ProcessFault) -> None:
        await self._life.carry_out(fault)

    def _end_of_life(self) -> None:
        """Whoever is dead costs nothing."""
        if self.spec.scale_to_zero is not None:
            self._premises.counters.fall_asleep(self._premises.now())

    def _state_changed(self, before: State, after: State) -> None:
        if after in (State.KILLED, State.STOPPED):
            self._end_of_life()
        self._record("state_changed", detail={"before": str(before), "after": str(after)})

    def _record(
        self,
        kind: str,
        *,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        if kind in ("port_opened", "port_filled", "port_closed"):
            self._is_port_open = kind != "port_closed"
        self._log.record(
            self.spec.name, kind, at=time.time(), connection=connection, session=session, detail=detail
        )
