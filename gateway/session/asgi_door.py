"""The door that Granian opens: an ASGI WebSocket as a `Downstream`, by one reader and one writer.

Its wire hides pings, drops a client's close reason, and answers a client's ping only while `receive()` is
awaited. And once a client has vanished, `send()` still returns as if all were well and keeps what it is
given. So a receive is pending whenever it may be: only a second held-back message stops it, and then little
more is sent. `asgi_writer.py` has the writer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.session.asgi_writer import Ahead, Frame, InStep, Writer
from gateway.session.downstream import Capabilities, DownstreamListener, OpeningRequest
from gateway.session.events import Closed, Event, Message, Ping, Pong, wire_code, wire_reason

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

MAX_HELD_MESSAGES = 2
"""Messages of the client kept back while the replica does not read: one, and the one that the pending receive
brings. `ReceivesAhead` may bring `RECEIVES_AHEAD - 1` more.
"""

RECEIVES_AHEAD = 4
"""Receives that are pending at once while the client's messages are small."""

SMALL_BYTES = 4096
"""Up to here a message counts as small."""

QUIET_SECONDS = 0.25
"""A close is sent once the client has said nothing for this long. The server cuts the connection right behind
it, and where something of the client's is still under way, a reset makes its system throw away our last words
unread.
"""
QUIET_TIMEOUT_SECONDS = 0.75
"""How long a close waits for that at most."""

_ABORTED = 1005
"""What Granian reports for a client that vanished; a close frame without a code arrives as 1000."""

CAPABILITIES = Capabilities(pings=False, client_reasons=False, largest_frame_bytes=16 * 1024 * 1024)


class Receiving(Awaitable[Any], Protocol):
    """A receive that has begun."""

    def cancel(self) -> object: ...


WIRE = "streamhold.wire"
"""Where a `Wire` is found in a scope."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The server's own callables, as they are below whatever a framework wraps around them."""

    receive: Callable[[], Any]
    send: Callable[[Any], Any]
    sends_keep_order: bool
    """Whether `asgi_writer.Ahead` may be used: sends begin when they are called, and leave in that order."""


class ReceivesAhead:
    """An ASGI `receive` for a server whose own one begins when it is called, and answers in that order.

    While messages are small, the next few are asked for beforehand, so that those of a burst come by one trip
    between Granian's threads. What was asked for is held when it comes, whatever its size by then: at worst
    `RECEIVES_AHEAD` times the largest message, which is why a large one ends it.
    """

    def __init__(self, receive: Callable[[], Receiving]) -> None:
        self._receive = receive
        self._pending: deque[Receiving] = deque()
        self._depth = 1
        self._cancelled = False

    async def __call__(self) -> Any:
        """The next message. Cancelling it loses messages: it is for the end of a session."""
        while len(self._pending) < self._depth:
            self._pending.append(self._receive())
        message = await self._pending.popleft()
        text = message.get("text")
        data = message.get("bytes") if text is None else text
        small = data is not None and len(data) <= SMALL_BYTES
        self._depth = RECEIVES_AHEAD if small and not self._cancelled else 1
        return message

    def cancel(self) -> None:
        """Ask for nothing beforehand any more: a close is not to find several receives in its way."""
        self._cancelled = True
        self._depth = 1
        while self._pending:
            self._pending.pop().cancel()


class AsgiDoor:
    """Implements `gateway.session.downstream.Downstream`. Uses the `Wire` of its scope where it has one."""

    capabilities = CAPABILITIES

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.request = opening_request(scope)
        wire: Wire = scope.get(WIRE) or Wire(receive, send, sends_keep_order=False)
        self._ahead = ReceivesAhead(wire.receive) if wire.sends_keep_order else None
        self._receive: Receive = self._ahead or wire.receive
        self._send: Send = wire.send
        self._writer: Writer = Ahead(wire.send) if wire.sends_keep_order else InStep(wire.send)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._listener: DownstreamListener | None = None
        self._held: deque[Event] = deque()
        self._readable = asyncio.Event()
        self._readable.set()
        self._closing = False
        self._heard_at = 0.0
        self._has_spoken = False
        self._quieting_since: float | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def run(self, serve: Callable[[AsgiDoor], Awaitable[None]]) -> None:
        """Serve one session: `serve` returns when it has ended, then the reader and the writer do."""
        connect = await self._receive()
        if connect["type"] != "websocket.connect":
            return
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await serve(self)
            finally:
                for task in self._running:
                    task.cancel()
                self._hush()
                if self._ahead is not None:
                    self._ahead.cancel()

    @property
    def accepted(self) -> bool:
        return self._listener is not None

    async def refuse(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        fields = [*headers, (b"content-length", str(len(body)).encode())]
        await self._send({"type": "websocket.http.response.start", "status": status, "headers": fields})
        await self._send({"type": "websocket.http.response.body", "body": body})

    async def accept(self, listener: DownstreamListener, subprotocol: str | None) -> None:
        assert self._tasks is not None, "accept belongs inside run()"
        self._listener = listener
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})
        self._heard_at = asyncio.get_running_loop().time()
        self._writer.start(listener)
        self._running = [self._tasks.create_task(self._read()), self._tasks.create_task(self._writer.run())]

    def send(self, event: Event) -> None:
        if self._closing:
            return
        match event:
            case Message(data=str(text)):
                self._writer.push({"type": "websocket.send", "text": text}, len(text))
            case Message(data=data):
                self._writer.push({"type": "websocket.send", "bytes": data}, len(data))
            case Closed(code=code, reason=reason):
                self._closing = True
                close = {"type": "websocket.close", "code": wire_code(code), "reason": wire_reason(reason)}
                self._close(close)
            case Ping() | Pong():
                return

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()
        self._deliver_held()

    @property
    def stalled_since(self) -> float | None:
        return self._writer.stalled_since if self._quieting_since is None else self._quieting_since

    async def flushed(self) -> None:
        await self._quiet.wait()
        await self._writer.flushed()

    def drop_unsent(self) -> None:
        self._writer.drop_unsent()

    async def _read(self) -> None:
        receive, held = self._receive, self._held
        while True:
            message = await receive()
            self._heard_at = asyncio.get_running_loop().time()
            if message["type"] == "websocket.disconnect":
                self._writer.left()
                self._hush()
                held.append(_closed(message))
                self._deliver_held()
                return
            self._has_spoken = True
            text = message.get("text")
            held.append(Message(message["bytes"] if text is None else text))
            self._deliver_held()
            if len(held) >= MAX_HELD_MESSAGES:
                self._writer.unwatched()
                await self._readable.wait()
                self._writer.watched()

    def _close(self, close: Frame) -> None:
        """Send `close` once the client is quiet; it is read meanwhile."""
        self.resume_reading()
        now = asyncio.get_running_loop().time()
        if self._quiet_at <= now or self._writer.has_ended:
            self._push_close(close)
            return
        self._quieting_since = now
        self._quiet.clear()
        self._close_when_quiet(close, now + QUIET_TIMEOUT_SECONDS)

    @property
    def _quiet_at(self) -> float:
        """When the client will have been quiet for long enough. One that has only just been accepted is most
        likely about to speak for the first time.
        """
        return self._heard_at + (QUIET_SECONDS if self._has_spoken else QUIET_TIMEOUT_SECONDS)

    def _close_when_quiet(self, close: Frame, give_up_at: float) -> None:
        loop = asyncio.get_running_loop()
        due = min(self._quiet_at, give_up_at)
        if due > loop.time():
            self._close_timer = loop.call_at(due, self._close_when_quiet, close, give_up_at)
        else:
            self._hush()
            self._push_close(close)

    def _push_close(self, close: Frame) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
        self._writer.push(close, 0)

    def _hush(self) -> None:
        """The client is quiet, or has left."""
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._quieting_since = None
        self._quiet.set()

    def _deliver_held(self) -> None:
        assert self._listener is not None
        while self._held and self._readable.is_set():
            self._listener.downstream_event(self._held.popleft())


def _closed(message: dict[str, Any]) -> Closed:
    code = message.get("code")
    return Closed(None if code in (None, _ABORTED) else code, message.get("reason") or None)


def opening_request(scope: Any) -> OpeningRequest:
    """The upgrade request of an ASGI WebSocket scope."""
    raw_path = scope.get("raw_path") or scope["path"].encode()
    client = scope.get("client") or ("", 0)
    return OpeningRequest(
        raw_path=raw_path.decode("latin-1").partition("?")[0],
        query=scope["query_string"].decode("latin-1"),
        headers=tuple(scope["headers"]),
        client_host=str(client[0]),
        scheme={"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"]),
    )
