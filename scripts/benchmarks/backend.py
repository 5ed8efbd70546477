"""The replica of the benchmark: echoes, or streams chunks as fast as taken, for less CPU than a proxy.

The query picks what a session does. Without one, each message comes back. `source=CHUNK_BYTES&total=BYTES`
streams numbered chunks (total 0: until told `stop`), then tells in a text message how many bytes they held.
`segments=CHUNK_BYTES` speaks the streaming protocol: each prompt is answered by a segment of numbered chunks.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qs, urlsplit

import picows

PATH = "/ws"
STOP = b"stop"
RING = 4
"""Chunks differ in a cycle of this many, so that a lost, doubled or swapped one shows."""
SEGMENT_CHUNKS = 16
"""Binary messages of a segment, its initialisation part among them."""
SEGMENT_STEPS = 4
STATE_BYTES = 1024
"""Of the continuation state, about."""
BURST_BYTES = 1 << 20
"""What a source writes before it lets the event loop turn."""


def chunk(size: int, number: int) -> bytes:
    """The payload of the numbered chunk: a function of its place in the cycle."""
    place = number % RING
    pattern = bytes((i * 7 + place * 31) & 0xFF for i in range(251))
    return (pattern * (size // len(pattern) + 1))[:size]


def _unmasked_frame(payload: bytes, opcode: int = 2) -> bytes:
    """A whole message as a server sends it (RFC 6455, 5.2), ready to be written again and again."""
    size = len(payload)
    first = bytes((0x80 | opcode,))
    if size < 126:
        header = first + bytes((size,))
    elif size < 1 << 16:
        header = first + b"\x7e" + size.to_bytes(2, "big")
    else:
        header = first + b"\x7f" + size.to_bytes(8, "big")
    return header + payload


def _text(kind: str, **fields: object) -> bytes:
    """A message of the streaming protocol as a frame."""
    return _unmasked_frame(json.dumps({"type": kind, **fields}).encode(), opcode=1)


@dataclass(slots=True)
class Tally:
    """What the backend saw, to check the load generator's own count against."""

    opened: int = 0
    closed: dict[int, int] = field(default_factory=dict)
    """Sessions that ended with a close frame, by code."""
    lost: int = 0
    """Sessions that ended without one."""
    source_bytes: int = 0
    """Chunk bytes handed to the sockets."""


class _Session(picows.WSListener):
    """Keeps the tally of one session and answers its close handshake."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._close_code: int | None = None

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        self._tally.opened += 1

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.CLOSE:
            code = frame.get_close_code()
            self._close_code = int(code)  # type: ignore[call-overload]  # the stub's Enum is an IntEnum
            transport.send_close(code, frame.get_close_message())
            transport.disconnect()
        elif frame.msg_type != picows.WSMsgType.PONG:
            self.message(transport, frame)

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        if self._close_code is None:
            self._tally.lost += 1
        else:
            self._tally.closed[self._close_code] = self._tally.closed.get(self._close_code, 0) + 1

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        raise NotImplementedError


class _Echo(_Session):
    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        transport.send(frame.msg_type, frame.get_payload_as_bytes(), frame.fin)


class _Writer(_Session):
    """Writes prebuilt frames to the transport; stands still while that is over its high-water mark."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self._paused = False
        self._scheduled = False
        self._done = False
        self._transport: picows.WSTransport | None = None

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        super().on_ws_connected(transport)
        self._transport = transport
        self._later()

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        self._done = True
        super().on_ws_disconnected(transport)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._later()

    def _later(self) -> None:
        if not self._scheduled and not self._done:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        transport = self._transport
        burst = 0
        while transport is not None and not (self._paused or self._done) and burst < BURST_BYTES:
            if transport.underlying_transport.is_closing():
                return
            frame = self._next()
            if frame is None:
                return
            # Not through picows: above 8 KiB it hands the transport a header that its next send writes over.
            transport.underlying_transport.write(frame)
            burst += len(frame)
            self._wrote(transport)
        if not self._paused:
            self._later()

    def _next(self) -> bytes | None:
        """The next frame; None while there is none, and `_later` is called when there is."""
        raise NotImplementedError

    def _wrote(self, transport: picows.WSTransport) -> None:
        """The frame is with the transport."""


class _Source(_Writer):
    """Chunks and nothing else, up to a total or until told to stop."""

    def __init__(self, tally: Tally, frames: list[bytes], size: int, total: int) -> None:
        super().__init__(tally)
        self._frames = frames
        self._size = size
        self._total = total
        self._number = 0

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.get_payload_as_bytes() == STOP:
            self._finish(transport)

    def _next(self) -> bytes:
        self._number += 1
        return self._frames[(self._number - 1) % RING]

    def _wrote(self, transport: picows.WSTransport) -> None:
        self._tally.source_bytes += self._size
        if self._total and self._number * self._size >= self._total:
            self._finish(transport)

    def _finish(self, transport: picows.WSTransport) -> None:
        if not self._done:
            self._done = True
            transport.send(picows.WSMsgType.TEXT, str(self._number * self._size).encode())


_STATE = _text(
    "continuation_state_snapshot", state={"kind": "bench", "payload": {"digest": "x" * STATE_BYTES}}
)


class _Replica(_Writer):
    """Speaks the streaming protocol as a replica does, without the GPU's time."""

    def __init__(self, tally: Tally, frames: list[bytes]) -> None:
        super().__init__(tally)
        self._frames = frames
        self._asked = 0
        self._out = self._frames_of_a_session()
        self._answers: list[bytes] = []

    def message(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        match str(json.loads(frame.get_payload_as_bytes())["type"]):
            case "session_init_v2":
                self._answers += [
                    _text("queue_status", position=0, queue_depth=0),
                    _text("gpu_assigned", gpu_id=0, session_timeout=120),
                    _text("ltx2_stream_start", width=256, height=256, fps=24, num_frames=24),
                ]
            case "segment_prompt_source":
                self._asked += 1
            case "snapshot_state":
                self._answers.append(_STATE)
            case _:
                pass
        self._later()

    def _next(self) -> bytes | None:
        return next(self._out)

    def _frames_of_a_session(self) -> Iterator[bytes | None]:
        """What is asked during a segment is answered after it."""
        numbers = itertools.count()
        while True:
            yield from self._answers
            self._answers.clear()
            if self._asked:
                self._asked -= 1
                yield from self._segment(next(numbers))
            elif not self._answers:
                yield None

    def _segment(self, number: int) -> Iterator[bytes]:
        stream_id = f"{number:032x}"
        yield _text("ltx2_segment_start", segment_idx=number, prompt="p", total_steps=SEGMENT_STEPS)
        for step in range(1, SEGMENT_STEPS + 1):
            progress = {"step": step, "total_steps": SEGMENT_STEPS, "stage": "denoise"}
            yield _text("step_complete", segment_idx=number, **progress)
        yield _text("media_init", segment_idx=number, mime="video/mp4", stream_id=stream_id, mode="av_fmp4")
        for place in range(SEGMENT_CHUNKS):
            yield self._frames[place % RING]
        complete = {"stream_id": stream_id, "chunks": SEGMENT_CHUNKS - 1, "duration_ms": 1000.0}
        yield _text("media_segment_complete", segment_idx=number, **complete)
        yield _text("ltx2_segment_complete", segment_idx=number, generation_time_ms=1.0, e2e_latency_ms=1.0)


class Backend:
    """A replica on a free loopback port, in this process and on this event loop."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._frames: dict[int, list[bytes]] = {}

    async def __aenter__(self) -> "Backend":
        self._server = await picows.ws_create_server(
            self._listener, "127.0.0.1", 0, max_frame_size=1 << 27, websocket_handshake_timeout=20
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._server is not None:
            self._server.close()

    def _listener(
        self, request: picows.WSUpgradeRequest
    ) -> picows.WSListener | picows.WSUpgradeResponseWithListener:
        url = urlsplit(request.path.decode())
        if url.path == "/health":
            ready = picows.WSUpgradeResponse.create_ok_response(b'{"status":"ok"}')
            ready.headers["Content-Type"] = "application/json"
            return picows.WSUpgradeResponseWithListener(ready, None)
        query = parse_qs(url.query)
        if "segments" in query:
            return _Replica(self.tally, self._frames_of(int(query["segments"][0])))
        if "source" not in query:
            return _Echo(self.tally)
        size = int(query["source"][0])
        return _Source(self.tally, self._frames_of(size), size, int(query["total"][0]))

    def _frames_of(self, size: int) -> list[bytes]:
        """The ring of chunks of this size."""
        if size not in self._frames:
            self._frames[size] = [_unmasked_frame(chunk(size, place)) for place in range(RING)]
        return self._frames[size]


class _HealthProtocol(asyncio.Protocol):
    """Answers each request of a kept-alive connection with a ready body."""

    _ANSWER = (
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"status":"ok"}'
    )

    def __init__(self, owner: "HealthFarm") -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._owner.connections += 1

    def data_received(self, data: bytes) -> None:
        requests = data.count(b"\r\n\r\n")
        self._owner.probes += requests
        if self._transport is not None:
            self._transport.write(self._ANSWER * requests)


class HealthFarm:
    """Many replicas that do nothing but be healthy, a port each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.ports: list[int] = []
        self.probes = 0
        self.connections = 0
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> "HealthFarm":
        loop = asyncio.get_running_loop()
        for _ in range(self.count):
            server = await loop.create_server(lambda: _HealthProtocol(self), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for server in self._servers:
            server.close()
