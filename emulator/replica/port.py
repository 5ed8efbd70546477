"""A replica's port: open, closed, or full to the last place, as its faults want it.

A full port is real: it listens with the shortest backlog that there is, one connection of our own stands in
it, and nobody accepts. Linux drops the SYN of everybody else, who goes on trying. It is one and the same
socket that is filled and emptied again, so that nobody is refused in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable
from enum import StrEnum

from emulator.faults import Blackhole
from emulator.faults.fault import Point
from emulator.replica.premises import Premises

BACKLOG = 512
READ_LIMIT_BYTES = 65536
RETRY_SECONDS = 0.5
"""Between tries to open a port that somebody else holds."""

logger = logging.getLogger("emulator")

Welcome = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class Door(StrEnum):
    """What a connect meets."""

    OPEN = "open"
    CLOSED = "closed"
    """Connects are refused."""
    FULL = "full"
    """Connects hang."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, not listening. Raises OSError when somebody else listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
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


class Port:
    """Follows the faults of one replica."""

    def __init__(self, premises: Premises, welcome: Welcome, narrowed: Callable[[], None]) -> None:
        """`welcome` is given each connection; `narrowed` is called when the door is open no longer."""
        self._premises = premises
        self._welcome = welcome
        self._narrowed = narrowed
        self._socket: socket.socket | None = None
        self._listener: asyncio.Server | None = None
        self._filler: socket.socket | None = None
        self._filler_name: object = None
        self._dead = False
        self._one_at_a_time = asyncio.Lock()
        self.retry_at = 0.0
        """Monotonic seconds at which a failed opening is tried again."""

    @property
    def door(self) -> Door:
        """As it is."""
        if self._listener is not None:
            return Door.OPEN
        return Door.CLOSED if self._socket is None else Door.FULL

    @property
    def wanted(self) -> Door:
        """As the faults want it now."""
        now = self._premises.now()
        faults = self._premises.board.live_at(Point.LISTEN, now)
        if self._dead or now < self._premises.refuse_until:
            return Door.CLOSED
        if not faults:
            return Door.OPEN
        return Door.FULL if all(isinstance(fault, Blackhole) for fault in faults) else Door.CLOSED

    def narrow(self) -> None:
        """It is closed or full at once if it should be; opening takes a `follow`."""
        match self.wanted:
            case Door.CLOSED:
                self._close()
            case Door.FULL if self._socket is not None:
                self._fill(self._socket)
            case _:
                pass

    async def follow(self) -> None:
        """It is as the faults want it."""
        async with self._one_at_a_time:
            self.narrow()
            try:
                if self._socket is None and self.wanted is not Door.CLOSED:
                    self._socket = bind(self._premises.spec.host, self._premises.spec.port)
                    self.narrow()
                if self.wanted is Door.OPEN and self._socket is not None and self._listener is None:
                    await self._open(self._socket)
            except OSError as error:
                # Somebody else took the port while it was closed.
                self._close()
                self.retry_at = self._premises.now() + RETRY_SECONDS
                spec = self._premises.spec
                logger.warning("replica %s: port %d cannot be opened: %s", spec.name, spec.port, error)

    def die(self) -> None:
        """It is closed for good."""
        self._dead = True
        self._close()

    async def _open(self, bound: socket.socket) -> None:
        listener = await asyncio.start_server(
            self._take, sock=bound.dup(), backlog=BACKLOG, limit=READ_LIMIT_BYTES, start_serving=False
        )
        if self.wanted is not Door.OPEN:
            listener.close()
            return
        await listener.start_serving()
        self._listener = listener
        self._empty()
        self._premises.record("port_opened", detail={"port": self._premises.spec.port})

    def _close(self) -> None:
        if self._socket is None:
            return
        was = self.door
        self._stop_accepting()
        self._empty()
        self._socket.close()
        self._socket = None
        if was is not Door.CLOSED:
            self._premises.record("port_closed")
        self._narrowed()

    def _fill(self, bound: socket.socket) -> None:
        if self._filler is not None:
            return
        bound.listen(0)
        self._stop_accepting()
        self._filler = socket.socket(bound.family, socket.SOCK_STREAM)
        self._filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._filler.connect(bound.getsockname())
        self._filler_name = self._filler.getsockname()
        self._premises.record("port_filled")
        self._narrowed()

    def _stop_accepting(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _empty(self) -> None:
        if self._filler is not None:
            self._filler.close()
            self._filler = None

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("peername") == self._filler_name:
            # What stood in the full backlog was ours.
            writer.transport.abort()
            self._filler_name = None
            return
        self._welcome(reader, writer)
