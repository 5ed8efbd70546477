"""A WebSocket client that sends the request it is told to, octet for octet, and shows every refusal whole."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from websockets.protocol import Side

from tests.support.peer import Headers, Peer
from tests.support.waiting import PATIENCE_SECONDS


class HandshakeRefusedError(Exception):
    """The server answered the upgrade with something else than 101."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        super().__init__(f"{status} {body[:200]!r}")

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@asynccontextmanager
async def raw_client(
    port: int,
    target: str = "/v1/stream",
    *,
    headers: Headers | None = None,
    subprotocols: Sequence[str] = (),
    timeout: float = PATIENCE_SECONDS,
) -> AsyncIterator[Peer]:
    """An open session, dropped on leaving if still open; `HandshakeRefusedError` when there is none."""
    peer = await connect(port, target, headers=headers, subprotocols=subprotocols, timeout=timeout)
    try:
        yield peer
    finally:
        await peer.aclose()


async def connect(
    port: int,
    target: str = "/v1/stream",
    *,
    headers: Headers | None = None,
    subprotocols: Sequence[str] = (),
    timeout: float = PATIENCE_SECONDS,
) -> Peer:
    """As `raw_client`, for a session that the caller closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(timeout):
            writer.write(_request(port, target, headers or [], subprotocols))
            head = await reader.readuntil(b"\r\n\r\n")
            status, answered = _parse_head(head)
            if status != 101:
                raise HandshakeRefusedError(status, answered, await _body(reader, answered))
    except BaseException:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        raise
    chosen = next((value for name, value in answered if name.lower() == "sec-websocket-protocol"), None)
    peer = Peer(reader, writer, Side.CLIENT, headers=answered, subprotocol=chosen)
    peer.start()
    return peer


def _request(port: int, target: str, headers: Headers, subprotocols: Sequence[str]) -> bytes:
    lines = [
        f"GET {target} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        *([f"Sec-WebSocket-Protocol: {', '.join(subprotocols)}"] if subprotocols else []),
        *(f"{name}: {value}" for name, value in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _parse_head(head: bytes) -> tuple[int, Headers]:
    line, *rest = head[:-4].decode("latin-1").split("\r\n")
    pairs = [header.partition(":") for header in rest]
    return int(line.split(" ")[1]), [(name, value.strip()) for name, _, value in pairs]


async def _body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), None)
    if length is not None:
        return await reader.readexactly(length)
    # Chunked or until the end: what counts in a refusal is the status, so a body that trickles is cut.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            return await reader.read(64 * 1024)
    return b""
