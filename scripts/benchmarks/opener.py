"""Opens and closes sessions with canned bytes: both handshakes, for far less CPU than a library takes."""

import asyncio
import base64
import hashlib
from typing import cast

from scripts.benchmarks.load import CONNECT_SECONDS, REPLY_SECONDS, ReplyMissing

_KEY = base64.b64encode(bytes(range(16)))
_ACCEPT = base64.b64encode(hashlib.sha1(_KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).lower()
_CLOSE_NORMAL = b"\x88\x82\x00\x00\x00\x00\x03\xe8"
"""A client's close frame with code 1000, masked with zeros (legal, and its own unmasking)."""
_CLOSED_NORMAL = b"\x88\x02\x03\xe8"


class _Opening(asyncio.Protocol):
    """One session; `ended` gets None when all went well, else what did not."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self._upgraded = False
        self._transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._upgraded:
            head, blank, rest = self._received.partition(b"\r\n\r\n")
            if not blank:
                return
            if not head.startswith(b"HTTP/1.1 101") or _ACCEPT not in head.lower():
                self._end(f"the upgrade was answered {head[:80]!r}")
                return
            self._upgraded = True
            self._received = rest
            if self._transport is not None:
                self._transport.write(_CLOSE_NORMAL)
        if self._received.startswith(_CLOSED_NORMAL):
            self._end(None)
        elif len(self._received) >= len(_CLOSED_NORMAL):
            self._end(f"close 1000 was answered {self._received[:40]!r}")

    def connection_lost(self, error: Exception | None) -> None:
        self._end("the connection ended before the close handshake")

    def _end(self, problem: str | None) -> None:
        if not self.ended.done():
            self.ended.set_result(problem)
        if self._transport is not None:
            self._transport.close()


class Opener:
    """Opens sessions at one address, one after another."""

    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {_KEY.decode()}\r\n\r\n"
        ).encode()

    async def open_and_close(self) -> None:
        """Returns when the close frame has been answered; raises ReplyMissing unless all went well."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS + REPLY_SECONDS):
                transport, opening = await loop.create_connection(
                    lambda: _Opening(self._request), "127.0.0.1", self._port
                )
                try:
                    problem = await opening.ended
                finally:
                    transport.close()
        except TimeoutError as error:
            raise ReplyMissing("a session did not open and close in time") from error
        if problem is not None:
            raise ReplyMissing(problem)
