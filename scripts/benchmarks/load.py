"""The load generator: sessions that check every message they get, for less CPU than a proxy."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from typing import TypeVar, cast

import picows
from picows import WSError

from scripts.benchmarks.backend import RING, SEGMENT_CHUNKS, STOP, chunk

CONNECT_SECONDS = 10.0
REPLY_SECONDS = 20.0
NORMAL = 1000
FULL_COMPARE_EVERY = 8
"""Of so many chunks one is compared whole, the others by length, head and tail."""
EDGE_BYTES = 64


class ReplyMissing(Exception):
    """The proxy lost, changed or refused something: its figures would mean nothing."""


class Session(picows.WSListener):
    """A client session: notes the first thing that went wrong, and how it was closed."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.close_code: int | None = None
        self.transport: picows.WSTransport | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        kind = frame.msg_type
        if kind == picows.WSMsgType.CLOSE:
            self.close_code = int(frame.get_close_code())  # type: ignore[call-overload]  # an IntEnum in truth
            if not transport.is_close_frame_sent:
                self.fault(f"closed by the other side with {self.close_code} {frame.get_close_message()!r}")
                transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif kind != picows.WSMsgType.PONG:
            self.message(transport, frame)

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        if self.close_code is None:
            self.fault("connection ended without a close frame")
        if not self.ended.done():
            self.ended.set_result(None)

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        self.fault(f"unexpected message {frame.get_payload_as_bytes()[:80]!r}")

    def fault(self, what: str) -> None:
        if self.problem is None:
            self.problem = what

    async def close(self) -> None:
        """Whole close handshake; raises ReplyMissing for any fault of the session's life."""
        if self.transport is not None:
            self.transport.send_close(picows.WSCloseCode.OK)
            try:
                async with asyncio.timeout(REPLY_SECONDS):
                    await self.ended
            except TimeoutError as error:
                self.transport.disconnect(graceful=False)
                raise ReplyMissing(self.problem or "no reply to the close frame") from error
        if self.problem is not None:
            raise ReplyMissing(self.problem)
        if self.close_code != NORMAL:
            raise ReplyMissing(f"close {NORMAL} was answered with {self.close_code}")


class Echo(Session):
    """Keeps a window of text messages under way and checks that each comes back, whole and in order."""

    _serial = itertools.count()

    def __init__(self, size: int, window: int) -> None:
        super().__init__()
        serial = next(self._serial)
        self._ring = [f"{serial:08d} {place:06d} ".encode().ljust(size, b"x") for place in range(window)]
        self._window = window
        self._place = 0
        self.received = 0
        self.sent = 0
        self.flowing = False

    def start(self) -> None:
        self.flowing = True
        assert self.transport is not None
        for payload in self._ring:
            self.transport.send(picows.WSMsgType.TEXT, payload)
        self.sent += self._window

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        place = self._place
        expected = self._ring[place]
        if (
            frame.get_payload_as_bytes() != expected
            or frame.msg_type != picows.WSMsgType.TEXT
            or not frame.fin
        ):
            self.fault(f"echo {self.received} came back as {frame.get_payload_as_bytes()[:80]!r}")
            self.flowing = False
        self.received += 1
        self._place = place + 1 if place + 1 < self._window else 0
        if self.flowing:
            transport.send(picows.WSMsgType.TEXT, expected)
            self.sent += 1

    async def settled(self) -> None:
        """Stops the flow and waits until what is under way has come back."""
        self.flowing = False
        await until(lambda: self.received >= self.sent or self.ended.done())
        if self.received != self.sent:
            raise ReplyMissing(self.problem or f"{self.sent} messages sent, {self.received} came back")


class Sink(Session):
    """Takes numbered chunks as fast as they come, and checks them."""

    def __init__(self, size: int, *, stalled: bool = False) -> None:
        super().__init__()
        self._ring = [chunk(size, place) for place in range(RING)]
        self._edges = [(payload[:EDGE_BYTES], payload[-EDGE_BYTES:]) for payload in self._ring]
        self._size = size
        self._stalled = stalled
        self._parts = bytearray()
        self._fragmented = False
        self.chunks = 0
        self.source_bytes: int | None = None

    @property
    def bytes(self) -> int:
        return self.chunks * self._size

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        super().on_ws_connected(transport)
        if self._stalled:
            transport.underlying_transport.pause_reading()

    def resume(self) -> None:
        assert self.transport is not None
        self.transport.underlying_transport.resume_reading()

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self.text(transport, frame.get_payload_as_utf8_text())
            return
        if not frame.fin or self._fragmented:
            self._parts += frame.get_payload_as_memoryview()
            self._fragmented = not frame.fin
            if frame.fin:
                whole, self._parts = bytes(self._parts), bytearray()
                self._check(whole == self._ring[self.chunks % RING])
            return
        place = self.chunks % RING
        if self.chunks % FULL_COMPARE_EVERY == (self.chunks // FULL_COMPARE_EVERY) % RING:
            self._check(frame.get_payload_as_bytes() == self._ring[place])
            return
        payload = frame.get_payload_as_memoryview()
        head, tail = self._edges[place]
        self._check(
            frame.payload_size == self._size
            and payload[:EDGE_BYTES] == head
            and payload[-EDGE_BYTES:] == tail
        )

    def text(self, transport: picows.WSTransport, payload: str) -> None:
        """A text message came."""
        self.source_bytes = int(payload)

    def _check(self, intact: bool) -> None:
        if not intact:
            self.fault(f"chunk {self.chunks} came out of order or changed")
        self.chunks += 1

    async def settled(self, *, stop: bool) -> None:
        """Waits for the source's own count, after telling it to stop, and holds it against what came."""
        assert self.transport is not None
        if stop:
            self.transport.send(picows.WSMsgType.TEXT, STOP)
        await until(lambda: self.source_bytes is not None or self.ended.done())
        if self.source_bytes != self.bytes:
            raise ReplyMissing(
                self.problem or f"the source sent {self.source_bytes} bytes, {self.bytes} came"
            )


class Viewer(Sink):
    """A client of the streaming protocol: keeps prompts under way, and checks the media that comes."""

    _INIT = b'{"type":"session_init_v2","client_id":"bench"}'
    _PROMPT = b'{"type":"segment_prompt_source","prompt":"p","seed":1}'
    _WINDOW = 2
    """Prompts under way, so that the replica never waits for the next."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.flowing = True
        self.asked = 0
        self.completed = 0

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        super().on_ws_connected(transport)
        transport.send(picows.WSMsgType.TEXT, self._INIT)

    def text(self, transport: picows.WSTransport, payload: str) -> None:
        match str(json.loads(payload)["type"]):
            case "ltx2_stream_start":
                for _ in range(self._WINDOW):
                    self._ask(transport)
            case "ltx2_segment_complete":
                self.completed += 1
                if self.completed * SEGMENT_CHUNKS != self.chunks:
                    self.fault(f"{self.chunks} chunks came of {self.completed} segments")
                if self.flowing:
                    self._ask(transport)
            case "error" | "session_resumed" | "continuation_state_snapshot":
                self.fault(f"unexpected message {payload[:80]!r}")
            case _:
                pass

    def _ask(self, transport: picows.WSTransport) -> None:
        self.asked += 1
        transport.send(picows.WSMsgType.TEXT, self._PROMPT)

    async def finished(self) -> None:
        """Asks for nothing more, and waits until all that was asked for has come."""
        self.flowing = False
        await until(lambda: self.completed >= self.asked or self.ended.done())
        if self.completed != self.asked or self.problem is not None:
            raise ReplyMissing(self.problem or f"{self.asked} segments asked for, {self.completed} came")


SessionT = TypeVar("SessionT", bound=Session)


async def connect(make: Callable[[], SessionT], url: str) -> SessionT:
    """An open session; raises OSError or ReplyMissing where there is none."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, listener = await picows.ws_connect(
                make,
                url,
                max_redirects=0,
                max_frame_size=1 << 27,
                websocket_handshake_timeout=CONNECT_SECONDS,
            )
    except (WSError, TimeoutError) as error:
        raise ReplyMissing(f"no session: {str(error) or type(error).__name__}") from error
    return cast(SessionT, listener)


async def echo_once(url: str) -> None:
    """Opens, echoes, closes; raises OSError or ReplyMissing unless all of it went well."""
    session = await connect(lambda: Echo(64, 1), url)
    session.start()
    try:
        await session.settled()
    finally:
        await session.close()


async def until(condition: Callable[[], bool], seconds: float = REPLY_SECONDS) -> None:
    """Returns once the condition holds, looked at every 5 ms; raises ReplyMissing at the deadline."""
    deadline = time.monotonic() + seconds
    for _ in itertools.takewhile(lambda _: not condition(), itertools.count()):
        if time.monotonic() > deadline:
            raise ReplyMissing(f"what was awaited did not come in {seconds:.0f} s")
        await asyncio.sleep(0.005)
