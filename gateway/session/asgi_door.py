"""The door that Granian opens: an ASGI WebSocket as a `Downstream`, by one reader and one writer.

Its wire hides pings, drops a client's close reason, and answers a client's ping only while `receive()` is
awaited. And once a client has vanished, `send()` still returns as if all were well and keeps what it is
given. So a receive is pending whenever it may be: only a second held-back message stops it, and then little
more is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.session.downstream import Capabilities, DownstreamListener, OpeningRequest
from gateway.session.events import Closed, Event, Message, Ping, Pong, wire_code, wire_reason

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024

MAX_HELD_MESSAGES = 2
"""Messages of the client kept back while the replica does not read: one, and the one that the pending receive
brings.
"""

MAX_UNWATCHED_BYTES = 4 * 1024 * 1024
"""What may be sent while no receive is pending, since a client that vanished then goes unnoticed."""

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


class AsgiDoor:
    """Implements `gateway.session.downstream.Downstream`."""

    capabilities = CAPABILITIES

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.request = opening_request(scope)
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._listener: DownstreamListener | None = None
        self._queue: deque[tuple[dict[str, Any], int]] = deque()
        self._queued_bytes = 0
        self._writing = False
        self._paused_sender = False
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._held: deque[Event] = deque()
        self._readable = asyncio.Event()
        self._readable.set()
        self._unwatched_bytes = 0
        self._closing = False
        self._gone = False
        self._progress_at = 0.0
        self._heard_at = 0.0

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
        self._progress_at = self._heard_at = self._loop.time()
        self._running = [self._tasks.create_task(self._read()), self._tasks.create_task(self._write())]

    def send(self, event: Event) -> None:
        if self._closing or self._gone:
            return
        match event:
            case Message(data=str(text)):
                self._push({"type": "websocket.send", "text": text}, len(text))
            case Message(data=data):
                self._push({"type": "websocket.send", "bytes": data}, len(data))
            case Closed(code=code, reason=reason):
                self._closing = True
                self._push(
                    {"type": "websocket.close", "code": wire_code(code), "reason": wire_reason(reason)}, 0
                )
            case Ping() | Pong():
                return

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()
        self._deliver_held()

    @property
    def stalled_since(self) -> float | None:
        return None if self._idle.is_set() or self._gone else self._progress_at

    async def flushed(self) -> None:
        await self._idle.wait()

    def drop_unsent(self) -> None:
        """Forget the messages that the client has not taken, but not a close that waits behind them."""
        kept = [entry for entry in self._queue if entry[0]["type"] == "websocket.close"]
        self._queue.clear()
        self._queue.extend(kept)
        self._queued_bytes = 0

    def _push(self, message: dict[str, Any], size_bytes: int) -> None:
        if self._idle.is_set():
            self._idle.clear()
            self._progress_at = self._loop.time()
        self._queue.append((message, size_bytes))
        self._queued_bytes += size_bytes
        self._work.set()
        if self._queued_bytes > HIGH_WATER_BYTES and not self._paused_sender and self._listener is not None:
            self._paused_sender = True
            self._listener.downstream_paused()

    async def _write(self) -> None:
        assert self._listener is not None
        queue, send, work = self._queue, self._send, self._work
        while True:
            while queue:
                if self._unwatched_bytes > MAX_UNWATCHED_BYTES and len(self._held) >= MAX_HELD_MESSAGES:
                    await self._readable.wait()
                    continue
                message, size_bytes = queue.popleft()
                if message["type"] == "websocket.close":
                    await self._quiet()
                self._unwatched_bytes += size_bytes
                await send(message)
                self._progress_at = self._loop.time()
                self._queued_bytes = max(0, self._queued_bytes - size_bytes)
                if self._paused_sender and self._queued_bytes <= LOW_WATER_BYTES:
                    self._paused_sender = False
                    self._listener.downstream_resumed()
            self._idle.set()
            work.clear()
            await work.wait()

    async def _read(self) -> None:
        receive, held = self._receive, self._held
        while True:
            message = await receive()
            self._heard_at = self._loop.time()
            if message["type"] == "websocket.disconnect":
                self._gone = True
                self._queue.clear()
                self._idle.set()
                held.append(_closed(message))
                self._deliver_held()
                return
            text = message.get("text")
            held.append(Message(message["bytes"] if text is None else text))
            self._deliver_held()
            if len(held) >= MAX_HELD_MESSAGES:
                self._unwatched_bytes = 0
                await self._readable.wait()

    async def _quiet(self) -> None:
        """Return once the client is quiet, has left, or has been waited for long enough; it is read
        meanwhile."""
        self.resume_reading()
        give_up_at = self._loop.time() + QUIET_TIMEOUT_SECONDS
        while not self._gone:
            now = self._loop.time()
            wait = min(self._heard_at + QUIET_SECONDS, give_up_at) - now
            if wait <= 0:
                return
            await asyncio.sleep(wait)

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
