"""The replica's side of a session: a WebSocket client connection (picows) as events, with backpressure both
ways.

What can go wrong while it opens is told by value: a status that the replica answered, or no HTTP answer at
all.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

import picows
from picows import WSFrame, WSListener, WSMsgType, WSTransport

from gateway.session.events import Closed, Event, Message, Ping, Pong, wire_code, wire_reason

logger = logging.getLogger("streamhold.upstream")
logger.setLevel(logging.WARNING)  # the library tells of each connection at INFO; ours tell of each session

FRAGMENT_BYTES = 256 * 1024
"""Messages to a replica leave in frames of at most this size: the connection's write buffer never shrinks
again.
"""

RECEIVE_BUFFER_BYTES = 256 * 1024
"""Of a replica's socket. The connection's read buffer doubles whenever one read fills it, which a system that
holds megabytes for a reader that was paused makes it do again and again.
"""

CLOSE_TIMEOUT_SECONDS = 2.0
"""How long a replica may take to answer a close frame before its connection is cut."""

if TYPE_CHECKING:
    from picows.picows import WSCloseHandshake, WSCloseInfo

_NO_CODE_GIVEN = 1005

_FIELD_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
"""What a server lets pass as a header's value (RFC 9110, section 5.5)."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The replica gave no HTTP answer to the upgrade: refused, reset, timed out, or not HTTP at all."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The replica answered the upgrade with a status other than 101."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """Those that tell the client what to do next: `retry-after` and `www-authenticate`."""


class UpstreamListener(Protocol):
    """What the replica's connection calls: synchronous, on the event loop, must not raise."""

    def upstream_event(self, event: Event) -> None:
        """The replica sent this. `Closed` comes exactly once and last, with code None where no close frame
        came.
        """

    def upstream_paused(self) -> None:
        """The replica does not take what was sent."""

    def upstream_resumed(self) -> None:
        """What was held back has left."""


class Upstream(WSListener):
    """One open connection to a replica, made by `connect`. What comes before `listen` is kept for it."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._transport: WSTransport | None = None
        self._listener: UpstreamListener | None = None
        self._early: list[Event] = []
        self._parts: bytearray | None = None
        self._parts_type = WSMsgType.BINARY
        self._closed: Closed | None = None
        self._close_sent = False
        self._abandoned = False
        self._write_paused = False
        self._owed_pong: bytes | None = None
        self._ending: asyncio.Future[None] | None = None
        self.sent_bytes = 0
        """What was handed over so far, as it counts in `unsent_bytes`: with the headers of its frames."""
        self.too_big = False
        """Whether the connection ended because the replica sent a message above the cap."""

    @property
    def subprotocol(self) -> str | None:
        """What the replica chose."""
        assert self._transport is not None
        chosen: str | None = self._transport.response.headers.get("sec-websocket-protocol")
        return chosen

    def listen(self, listener: UpstreamListener) -> None:
        """Hand over what has come and what comes from now on. Until then the connection is not read."""
        self._listener = listener
        self.resume_reading()
        early, self._early = self._early, []
        for event in early:
            self._listener.upstream_event(event)  # the first one may have led to `mute`
        if self._write_paused:
            self._listener.upstream_paused()

    def mute(self) -> None:
        """Hand over nothing more: this connection serves nobody now."""
        self._listener = _Deaf()

    def abandon(self) -> None:
        """Cut the connection as soon as it exists; for an opening that nobody waits for any more."""
        self._abandoned = True
        self.abort()

    def send(self, event: Event) -> None:
        """Hand `event` to the connection and return at once; after a `Closed` a no-op."""
        transport = self._transport
        if transport is None or self._close_sent or self._closed is not None:
            return
        match event:
            case Message(data=data):
                self._send_message(transport, data)
            case Ping(payload=payload):
                self.sent_bytes += _frame_bytes(len(payload))
                transport.send_ping(payload)
            case Pong(payload=payload):
                self.sent_bytes += _frame_bytes(len(payload))
                transport.send_pong(payload)
            case Closed(code=code, reason=reason):
                self._close_sent = True
                transport.send_close(wire_code(code), wire_reason(reason).encode())  # type: ignore[arg-type]

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_disconnected:
            self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_disconnected:
            self._transport.underlying_transport.resume_reading()

    @property
    def unsent_bytes(self) -> int:
        """What the replica's socket has not taken yet."""
        if self._transport is None or self._transport.is_disconnected:
            return 0
        return self._transport.underlying_transport.get_write_buffer_size()

    def abort(self) -> None:
        """Cut the connection now."""
        if self._transport is not None:
            self._transport.disconnect(graceful=False)

    async def closed(self) -> None:
        """Return once the connection is gone: the close handshake gets `CLOSE_TIMEOUT_SECONDS`, then it is
        cut.
        """
        transport = self._transport
        if transport is None:
            return
        try:
            # A paused connection would never show the replica's answer to our close.
            self.resume_reading()
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._disconnected(transport)
        except TimeoutError:
            pass
        finally:
            if not transport.is_disconnected:
                transport.disconnect(graceful=False)
                await asyncio.shield(self._disconnected(transport))

    @staticmethod
    async def _disconnected(transport: WSTransport) -> None:
        try:
            await transport.wait_disconnected()
        except picows.WSError:
            return  # told as `Closed` already

    def _send_message(self, transport: WSTransport, data: str | bytes) -> None:
        kind = WSMsgType.TEXT if isinstance(data, str) else WSMsgType.BINARY
        whole = data.encode() if isinstance(data, str) and not data.isascii() else data
        if len(whole) <= FRAGMENT_BYTES:
            self.sent_bytes += _frame_bytes(len(whole))
            transport.send(kind, whole)
            return
        payload = memoryview(whole.encode() if isinstance(whole, str) else whole)
        for start in range(0, len(payload), FRAGMENT_BYTES):
            part = payload[start : start + FRAGMENT_BYTES]
            self.sent_bytes += _frame_bytes(len(part))
            last = start + FRAGMENT_BYTES >= len(payload)
            transport.send(kind if start == 0 else WSMsgType.CONTINUATION, part, last)

    # What picows calls.

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        sock = transport.underlying_transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        transport.underlying_transport.pause_reading()
        if self._abandoned:
            transport.disconnect(graceful=False)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if frame.payload_size > self._max_message_bytes:
            self._broken_off(transport)  # handed over although the library has refused it
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._breach(1002, "reserved bits without an extension")
        elif kind == WSMsgType.BINARY and frame.fin and self._parts is None:
            self._deliver(Message(frame.get_payload_as_bytes()))
        elif kind == WSMsgType.TEXT and frame.fin and self._parts is None:
            self._deliver_text(frame.get_payload_as_bytes())
        elif kind in (WSMsgType.BINARY, WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._join(kind, frame)
        elif kind == WSMsgType.PONG:
            self._deliver(Pong(frame.get_payload_as_bytes()))
        elif kind == WSMsgType.PING:
            self._answer(frame.get_payload_as_bytes())
        elif kind == WSMsgType.CLOSE:
            self._close_received(transport, frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if transport.is_close_frame_sent and not self._close_sent:
            self._broken_off(transport)
            # Nobody may ask for the end of this connection, and its error would be told as never retrieved.
            self._ending = asyncio.ensure_future(self._disconnected(transport))  # ends in the same step
        self._parts = None
        self._deliver(Closed(None))

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._listener is not None:
            self._listener.upstream_paused()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._owed_pong is not None:
            self.send(Pong(self._owed_pong))
            self._owed_pong = None
        if self._listener is not None:
            self._listener.upstream_resumed()

    def _answer(self, ping: bytes) -> None:
        """Send the pong, or owe it to a replica that does not read: its latest only (RFC 6455, 5.5.3)."""
        if self._write_paused:
            self._owed_pong = ping
        else:
            self.send(Pong(ping))

    def _broken_off(self, transport: WSTransport) -> None:
        """The library found the replica's frames in breach of the protocol and has told it: the connection is
        lost, and an answer to that close is not the replica's own word.
        """
        handshake: WSCloseHandshake | None = transport.close_handshake
        sent: WSCloseInfo | None = handshake.sent if handshake is not None else None
        if self._closed is None:
            self.too_big = sent is not None and int(cast(int, sent.code)) == 1009
            self._deliver(Closed(None))

    def _join(self, kind: WSMsgType, frame: WSFrame) -> None:
        if kind != WSMsgType.CONTINUATION:
            if self._parts is not None:
                self._breach(1002, "new message inside a fragmented one")
                return
            self._parts_type, self._parts = kind, bytearray()
        elif self._parts is None:
            self._breach(1002, "continuation without a message")
            return
        self._parts += frame.get_payload_as_bytes()
        if len(self._parts) > self._max_message_bytes:
            self.too_big = True
            self._breach(1009, "message_too_big")
        elif frame.fin:
            whole = bytes(self._parts)
            self._parts = None
            if self._parts_type == WSMsgType.TEXT:
                self._deliver_text(whole)
            else:
                self._deliver(Message(whole))

    def _deliver_text(self, payload: bytes) -> None:
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            self._breach(1007, "text that is not UTF-8")
        else:
            self._deliver(Message(text))

    def _breach(self, code: int, reason: str) -> None:
        self.send(Closed(code, reason))
        self._parts = None
        self._deliver(Closed(None))
        if self._transport is not None:
            self._transport.disconnect()

    def _close_received(self, transport: WSTransport, frame: WSFrame) -> None:
        if transport.is_close_frame_sent and not self._close_sent:
            self._broken_off(transport)
            return
        code = int(cast(int, frame.get_close_code())) if frame.payload_size else _NO_CODE_GIVEN
        reason = frame.get_close_message()
        if not self._close_sent:
            self.send(Closed(code, None))
        self._deliver(Closed(code, (reason or b"").decode(errors="replace")))
        transport.disconnect()

    def _deliver(self, event: Event) -> None:
        if self._closed is not None:
            return
        if isinstance(event, Closed):
            self._closed = event
        if self._listener is None:
            self._early.append(event)
        else:
            self._listener.upstream_event(event)


class _Deaf:
    """Listens to a connection that serves nobody any more."""

    def upstream_event(self, event: Event) -> None:
        """It comes too late."""

    def upstream_paused(self) -> None:
        """Nothing more is sent."""

    def upstream_resumed(self) -> None:
        """Nothing more is sent."""


def _frame_bytes(payload_bytes: int) -> int:
    """A client's frame on the wire (RFC 6455, section 5.2): two octets, the longer length, the mask."""
    return payload_bytes + (6 if payload_bytes < 126 else 8 if payload_bytes < 65_536 else 14)


async def connect(
    url: str,
    headers: Sequence[tuple[str, str]],
    *,
    timeout_seconds: float,
    max_message_bytes: int,
) -> Upstream | Unreachable | Refused:
    """Open a WebSocket to `url` (ws:// or wss://), sending `headers` beside the handshake's own.

    Redirects are answers, not followed. Cancel-safe: a connection that comes up after a cancellation is cut.
    """
    upstream = Upstream(max_message_bytes)
    try:
        async with asyncio.timeout(timeout_seconds):
            _, listener = await picows.ws_connect(
                lambda: upstream,
                url,
                extra_headers=list(headers),
                ssl_context=_tls() if url.startswith("wss:") else None,
                max_redirects=0,
                max_frame_size=max_message_bytes,
                websocket_handshake_timeout=timeout_seconds,
                enable_auto_ping=False,
                enable_auto_pong=False,
                logger_name=logger,
                # Its faster transport misses a reset that comes right behind data: the event loop stops
                # polling after one read, and the loss shows only at the next ping.
                use_aiofastnet=False,
            )
        if listener is None:
            return Unreachable("the connection was closed before an answer came")
    except TimeoutError:
        upstream.abandon()
        return Unreachable(f"no answer to the upgrade within {timeout_seconds:g} s")
    except asyncio.CancelledError:
        upstream.abandon()
        raise
    except picows.WSHandshakeError as error:
        status = _status(error)
        if status is None or status == 101:
            return Unreachable(f"not a WebSocket answer: {error}")
        return Refused(status, _kept_headers(error))
    except (OSError, picows.WSError, UnicodeError) as error:
        return Unreachable(str(error) or type(error).__name__)
    return upstream


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _status(error: picows.WSHandshakeError) -> int | None:
    """The status of the answer, also where the library knows no name for its number."""
    match = re.match(rb"HTTP/1\.[01] (\d{3})\b", error.raw_header or b"")
    return int(match[1]) if match else None


def _kept_headers(error: picows.WSHandshakeError) -> tuple[tuple[bytes, bytes], ...]:
    lines = (error.raw_header or b"").split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines)
    return tuple(
        (name.strip().lower(), value.strip())
        for name, _, value in pairs
        if name.strip().lower() in (b"retry-after", b"www-authenticate")
        and _FIELD_VALUE.fullmatch(value.strip())
    )
