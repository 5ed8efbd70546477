"""A replica that does what a test tells it: it records the wire, and breaks every rule on command."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import http
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

from websockets.protocol import Side

from tests.support.peer import Headers, Peer
from tests.support.waiting import PATIENCE_SECONDS

_ACCEPT_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it came: nothing decoded, nothing reordered."""

    line: bytes
    headers: Headers

    @property
    def target(self) -> str:
        """The request target, octet for octet."""
        return self.line.split(b" ")[1].decode("latin-1")

    def values(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)

    @property
    def subprotocols(self) -> list[str]:
        return [part.strip() for value in self.values("Sec-WebSocket-Protocol") for part in value.split(",")]


@dataclass(frozen=True, slots=True)
class Accept:
    """Answer 101, with the subprotocol that `choose` picks from those offered (None: none)."""

    choose: Callable[[list[str]], str | None] = lambda _offered: None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the upgrade with a status."""

    status: int
    headers: Headers = field(default_factory=list)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the request and never answer."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Take the request and reset the connection."""


UpgradeAnswer = Accept | Refuse | Hang | Reset


@dataclass(frozen=True, slots=True)
class Health:
    """What every path that is not an upgrade answers."""

    status: int = 200
    body: bytes = b'{"status": "ok"}'
    delay_seconds: float = 0
    hang: bool = False
    headers: Headers = field(default_factory=list)


class ScriptedReplica:
    """A server on a port of its own. As a context manager it starts and stops; in between `kill`, `start`."""

    def __init__(
        self,
        *,
        upgrade: UpgradeAnswer | None = None,
        health: Health | None = None,
        serve: Callable[[Peer], Awaitable[None]] | None = None,
        port: int = 0,
    ) -> None:
        """`serve`, when given, is run for each session; otherwise a test takes sessions with `session()`."""
        self.upgrade: UpgradeAnswer = upgrade or Accept()
        self.health = health or Health()
        self.port = port
        self.connections = 0
        """TCP connections taken, of every kind."""
        self.upgrades: list[Request] = []
        self.health_requests: list[tuple[float, Request]] = []
        """With the loop's time of each."""
        self.answer_upgrades = asyncio.Event()
        """While cleared, upgrade requests wait for their answer."""
        self.answer_upgrades.set()
        self.sessions: list[Peer] = []
        """Every session ever accepted."""
        self._serve_session = serve
        self._fresh: asyncio.Queue[Peer] = asyncio.Queue()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_sessions(self) -> int:
        return sum(1 for peer in self.sessions if peer.open)

    async def session(self, timeout: float = PATIENCE_SECONDS) -> Peer:
        """The next session that was accepted and not taken yet."""
        async with asyncio.timeout(timeout):
            return await self._fresh.get()

    async def start(self) -> None:
        """Listen; on the port of before, when it has been started before."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """As a SIGKILL would: the port refuses, every connection is reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            _reset(writer)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
        for peer in self.sessions:
            await peer.aclose()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side went: nothing left to answer
        except asyncio.CancelledError:
            _reset(writer)  # not passed on: asyncio's stream server logs a cancelled handler as a defect
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is done with."""
        request = _parse(await reader.readuntil(b"\r\n\r\n"))
        if (request.value("Upgrade") or "").lower() != "websocket":
            return await self._answer_health(request, writer)
        self.upgrades.append(request)
        await self.answer_upgrades.wait()
        match self.upgrade:
            case Accept(choose):
                await self._accept(request, choose(request.subprotocols), reader, writer)
            case Refuse(status, headers, body):
                await _respond(writer, status, headers, body)
                return True
            case Hang():
                await reader.read()
            case Reset():
                _reset(writer)
        return False

    async def _answer_health(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        self.health_requests.append((asyncio.get_running_loop().time(), request))
        answer = self.health
        if answer.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(answer.delay_seconds)
        await _respond(writer, answer.status, answer.headers, answer.body)
        return True

    async def _accept(
        self,
        request: Request,
        subprotocol: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        key = (request.value("Sec-WebSocket-Key") or "").encode()
        accept = base64.b64encode(hashlib.sha1(key + _ACCEPT_SALT).digest()).decode()
        head = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
        if subprotocol is not None:
            head.append(("Sec-WebSocket-Protocol", subprotocol))
        writer.write(_head(101, head))
        await writer.drain()
        peer = Peer(reader, writer, Side.SERVER, headers=request.headers, subprotocol=subprotocol)
        self.sessions.append(peer)
        self._fresh.put_nowait(peer)
        if self._serve_session is None:
            await peer.run()
            return
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(peer.run())
            with contextlib.suppress(ConnectionError):
                await self._serve_session(peer)
            await reading


def _parse(head: bytes) -> Request:
    line, *rest = head[:-4].split(b"\r\n")
    pairs = [header.decode("latin-1").partition(":") for header in rest]
    return Request(line, [(name, value.strip()) for name, _, value in pairs])


def _head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _respond(writer: asyncio.StreamWriter, status: int, headers: Headers, body: bytes) -> None:
    writer.write(
        _head(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])
    )
    writer.write(body)
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = cast(socket.socket, writer.get_extra_info("socket"))
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
