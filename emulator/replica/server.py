"""A replica's server while its process lives: its port, its connections, their common end; in this event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from emulator.replica import connection
from emulator.replica.port import Port
from emulator.replica.premises import Premises
from emulator.replica.scaling import Scaling
from emulator.replica.wire import Wire

GOODBYE_SECONDS = 2.0
"""How long sessions get for their close frames when the server stops."""

logger = logging.getLogger("emulator")


class ReplicaServer:
    """The connections of one replica. All its tasks belong to `tasks`, which must outlive it."""

    def __init__(self, premises: Premises, tasks: asyncio.TaskGroup) -> None:
        self._premises = premises
        self._tasks = tasks
        self._port = Port(premises, self._welcome, self._close_idle)
        self._open: dict[int, tuple[Wire, asyncio.Task[None]]] = {}
        self._ear = asyncio.Event()
        self._tender: asyncio.Task[None] | None = None
        self._dead = False
        premises.unsent_bytes = self._unsent_bytes
        if (traits := premises.spec.scale_to_zero) is not None:
            premises.scaling = Scaling(traits)

    @property
    def connections(self) -> int:
        """TCP connections open now."""
        return len(self._open)

    def expect_death(self) -> None:
        """When the process dies now, its sessions are reset."""
        for wire, _ in self._open.values():
            if wire.in_session:
                wire.expect_death()

    def _unsent_bytes(self) -> int:
        return sum(wire.unsent_bytes for wire, _ in self._open.values() if wire.in_session)

    async def start(self) -> None:
        """The port is open, unless a fault has it otherwise, and follows the faults from now on."""
        self._premises.ears.add(self._ear)
        await self._follow_faults()
        self._tender = self._tasks.create_task(self._tend())

    def faults_changed(self) -> None:
        """What the change closes is closed now; what it opens follows at once in the background."""
        self._port.narrow()
        self._premises.changed()

    async def settle(self) -> None:
        """The port is as the faults want it."""
        await self._follow_faults()

    def pause(self) -> None:
        """Nothing is read or written, as if the process were stopped; connects are taken, as a kernel
        does."""
        self._premises.pause()

    def resume(self) -> None:
        """It goes on."""
        self._premises.resume()
        self._premises.changed()

    async def kill(self) -> None:
        """The port is closed and every connection reset before the first wait; returns once their tasks
        ended."""
        self._die()
        tasks = [task for _, task in self._open.values()]
        for wire, task in list(self._open.values()):
            wire.reset()
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)

    async def stop(self) -> None:
        """The port is closed, and the sessions are too: in order where their clients answer in time."""
        self._die()
        self._premises.closing = True
        self._premises.release_all()
        self.resume()
        for wire, task in list(self._open.values()):
            if not wire.in_session:
                task.cancel()
        tasks = [task for _, task in self._open.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)
        for wire, task in list(self._open.values()):
            wire.reset()
            task.cancel()

    def _die(self) -> None:
        self._dead = True
        self._premises.ears.discard(self._ear)
        self._port.die()
        if self._tender is not None:
            self._tender.cancel()

    async def _tend(self) -> None:
        """Open and close the port as faults come and go by the clock, wake and fall asleep."""
        while True:
            self._ear.clear()
            self._premises.turn_by_time()
            await self._follow_faults()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_change()):
                    await self._ear.wait()

    def _until_next_change(self) -> float | None:
        now = self._premises.now()
        moments = [self._premises.board.next_change(now), self._premises.refuse_until, self._port.retry_at]
        if self._premises.scaling is not None:
            moments.append(self._premises.scaling.turns_at)
        coming = [moment for moment in moments if moment is not None and moment > now]
        return min(coming) - now if coming else None

    async def _follow_faults(self) -> None:
        await self._port.follow()
        # Whoever waits for a fault to begin or end by the clock looks again too.
        for ear in self._premises.ears - {self._ear}:
            ear.set()

    def _close_idle(self) -> None:
        """Whoever has no session has to connect anew, and meets the door as it is."""
        for wire, _ in list(self._open.values()):
            if not wire.in_session:
                wire.close()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, self._premises.running)
        if self._dead:
            wire.reset()
            return
        self._premises.counters.connections_total += 1
        number = self._premises.counters.connections_total
        task = self._tasks.create_task(self._serve(wire, number))
        self._open[number] = (wire, task)
        task.add_done_callback(lambda _: self._open.pop(number, None))

    async def _serve(self, wire: Wire, number: int) -> None:
        try:
            await connection.serve(self._premises, wire, number)
        except Exception:
            # A defect of ours ends this one connection, not the replica.
            logger.exception("replica %s: connection %d failed", self._premises.spec.name, number)
            wire.reset()
