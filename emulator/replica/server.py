"""A replica's port while its process lives: the listener and the connections, in this event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys

from emulator.faults import Refuse
from emulator.replica import connection
from emulator.replica.premises import Premises
from emulator.replica.wire import Wire

BACKLOG = 512
READ_LIMIT_BYTES = 65536
GOODBYE_SECONDS = 2.0
"""How long sessions get for their close frames when the server stops."""

RETRY_SECONDS = 0.5
"""Between tries to open a port that somebody else holds."""

logger = logging.getLogger("emulator")


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, not listening. Raises OSError when somebody else listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its number: asyncio turns Nagle's algorithm off only for sockets that say that they are TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def reserve(host: str, port: int) -> tuple[int, socket.socket | None]:
    """The port, and a socket that keeps it for us while nobody listens on it (connects to it are refused).

    Without it a port that a fault has closed could be given to any outgoing connection of this machine, and
    could not be opened again. Only Linux lets a second socket listen beside such a reservation; elsewhere
    there is none.
    """
    bound = bind(host, port)
    number: int = bound.getsockname()[1]
    if sys.platform == "linux":
        return number, bound
    bound.close()
    return number, None


class ReplicaServer:
    """The port of one replica. All its tasks belong to `tasks`, which must outlive it."""

    def __init__(self, premises: Premises, tasks: asyncio.TaskGroup) -> None:
        self._premises = premises
        self._tasks = tasks
        self._listener: asyncio.Server | None = None
        self._open: dict[int, tuple[Wire, asyncio.Task[None]]] = {}
        self._ear = asyncio.Event()
        self._tender: asyncio.Task[None] | None = None
        self._dead = False
        self._retry_at = 0.0
        self._following = asyncio.Lock()
        premises.unsent_bytes = self._unsent_bytes

    @property
    def connections(self) -> int:
        """TCP connections open now."""
        return len(self._open)

    def _unsent_bytes(self) -> int:
        return sum(wire.unsent_bytes for wire, _ in self._open.values() if wire.in_session)

    @property
    def is_listening(self) -> bool:
        """The port takes connections."""
        return self._listener is not None

    async def start(self) -> None:
        """The port is open, unless a fault keeps it closed, and follows the faults from now on."""
        self._premises.ears.add(self._ear)
        await self._follow_faults()
        self._tender = self._tasks.create_task(self._tend())

    def faults_changed(self) -> None:
        """What the change closes is closed now; what it opens follows at once in the background."""
        if self._must_refuse():
            self._close_port()
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
        self._close_port()
        if self._tender is not None:
            self._tender.cancel()

    def _must_refuse(self) -> bool:
        now = self._premises.now()
        return self._premises.board.live(Refuse, now) or now < self._premises.refuse_until

    async def _tend(self) -> None:
        """Open and close the port as faults come and go by the clock."""
        while True:
            self._ear.clear()
            await self._follow_faults()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_change()):
                    await self._ear.wait()

    def _until_next_change(self) -> float | None:
        now = self._premises.now()
        moments = [self._premises.board.next_change(now), self._premises.refuse_until, self._retry_at]
        coming = [moment for moment in moments if moment is not None and moment > now]
        return min(coming) - now if coming else None

    async def _follow_faults(self) -> None:
        async with self._following:
            if self._must_refuse():
                self._close_port()
            elif self._listener is None and not self._dead:
                await self._try_to_open_port()
        # Whoever waits for a fault to begin or end by the clock looks again too.
        for ear in self._premises.ears - {self._ear}:
            ear.set()

    async def _try_to_open_port(self) -> None:
        try:
            await self._open_port()
        except OSError as error:
            # Somebody else took the port while it was closed.
            self._retry_at = self._premises.now() + RETRY_SECONDS
            spec = self._premises.spec
            logger.warning("replica %s: port %d cannot be opened: %s", spec.name, spec.port, error)

    async def _open_port(self) -> None:
        spec = self._premises.spec
        bound = bind(spec.host, spec.port)
        listener = await asyncio.start_server(
            self._welcome, sock=bound, backlog=BACKLOG, limit=READ_LIMIT_BYTES, start_serving=False
        )
        if self._dead or self._must_refuse():
            listener.close()
            return
        await listener.start_serving()
        self._listener = listener
        self._premises.record("port_opened", detail={"port": spec.port})

    def _close_port(self) -> None:
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        self._premises.record("port_closed")
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
