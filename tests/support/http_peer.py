"""An HTTP server in the test's hands, byte by byte: whatever a health path could answer, right or wrong."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


def answer(body: bytes = b'{"status":"ok"}', *, status: int = 200, headers: bytes = b"") -> bytes:
    """A whole HTTP/1.1 response."""
    return b"HTTP/1.1 %d Told\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)


@dataclass
class Exchange:
    """One connection, from its first request on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    """0 for the first connection."""

    async def request(self) -> bytes | None:
        """The head of the next request; None when the client has gone."""
        try:
            return await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection by a TCP reset."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Serve = Callable[[Exchange], Awaitable[None]]


@dataclass
class HttpPeer:
    """What is known of the server, and of who called."""

    url: str = ""
    connections: int = 0
    open_connections: int = 0


def keep_answering(data: bytes) -> Serve:
    """Answer each request on a connection with `data`."""

    async def serve(exchange: Exchange) -> None:
        while await exchange.request() is not None:
            await exchange.send(data)

    return serve


@asynccontextmanager
async def http_peer(serve: Serve) -> AsyncIterator[HttpPeer]:
    """A server on a free loopback port that gives each connection to `serve`, then closes it."""
    peer = HttpPeer()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        exchange = Exchange(reader, writer, peer.connections)
        peer.connections += 1
        peer.open_connections += 1
        try:
            await serve(exchange)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client went, or the test is over
        finally:
            peer.open_connections -= 1
            tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield peer
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
