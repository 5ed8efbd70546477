"""Many sessions of the streaming protocol that open and then rest: a socket and a small buffer each."""

import asyncio
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Self, cast

AT_ONCE = 64
"""Sessions that open at the same time."""
OPEN_SECONDS = 60.0

_REQUEST = (
    "GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n"
)
_TEXT, _CLOSE, _PING = 0x81, 0x88, 0x89
_PONG = b"\x8a\x80\x00\x00\x00\x00"
"""Empty, masked with zeros."""


class Broken(Exception):
    """A session did not open, or did not stay open."""


class _Resting(asyncio.Protocol):
    """One session. `open` is done when the replica has started the stream, and fails when that does not
    come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._received = b""
        self._is_upgraded = False
        self._transport: asyncio.Transport | None = None
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.problem: str | None = None
        """What ended it; None while it is open."""
        self.pongs = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.write(_REQUEST.encode())

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_upgraded:
            head, blank, rest = self._received.partition(b"\r\n\r\n")
            if not blank:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._end(f"the upgrade was answered {head[:80]!r}")
                return
            self._is_upgraded, self._received = True, rest
            opening = json.dumps({"type": "session_init_v2", "client_id": self._name}).encode()
            self._write(bytes([_TEXT, 0x80 | len(opening), 0, 0, 0, 0]) + opening)
        self._take_frames()

    def _take_frames(self) -> None:
        """Frames of an opening are short: their length fits into the second byte or the two after it."""
        while len(self._received) >= 4 or self._received[1:2] == b"\x00":
            start, size = 2, self._received[1]
            if size == 126:
                start, size = 4, int.from_bytes(self._received[2:4], "big")
            if len(self._received) < start + size:
                return
            kind, payload = self._received[0], self._received[start : start + size]
            self._received = self._received[start + size :]
            self._take(kind, payload)

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == _PING:
            self.pongs += 1
            self._write(_PONG)
        elif kind == _CLOSE:
            self._write(bytes([_CLOSE, 0x80 | len(payload), 0, 0, 0, 0]) + payload)
            self._end(f"it was closed: {payload!r}")
        elif b'"ltx2_stream_start"' in payload and not self.open.done():
            self.open.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end("the connection ended")

    def close(self) -> None:
        """The socket is closed, without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem
        if not self.open.done():
            self.open.set_exception(Broken(problem))


class IdleSessions:
    """An async context manager: inside, `each` sessions rest on every one of the ports."""

    def __init__(self, ports: Sequence[int], each: int) -> None:
        self._ports = [port for port in ports for _ in range(each)]
        self._sessions: list[_Resting] = []
        self._gate = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        """Sessions that are open."""
        return sum(session.problem is None for session in self._sessions)

    @property
    def problems(self) -> list[str]:
        """What ended those that are not."""
        return [session.problem for session in self._sessions if session.problem is not None]

    @property
    def pongs(self) -> int:
        """Pings that were answered."""
        return sum(session.pongs for session in self._sessions)

    async def _open(self, port: int, name: str) -> None:
        async with self._gate, asyncio.timeout(OPEN_SECONDS):
            loop = asyncio.get_running_loop()
            _, session = await loop.create_connection(lambda: _Resting(name), "127.0.0.1", port)
            self._sessions.append(session)
            await session.open

    async def __aenter__(self) -> Self:
        """Raises Broken when one does not open."""
        try:
            async with asyncio.TaskGroup() as group:
                for number, port in enumerate(self._ports):
                    group.create_task(self._open(port, f"idle-{number}"))
        except* (Broken, OSError, TimeoutError) as problems:
            self._close()
            raise Broken(
                f"{len(self._sessions)} of {len(self._ports)} opened: {problems.exceptions[0]}"
            ) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for session in self._sessions:
            session.close()
