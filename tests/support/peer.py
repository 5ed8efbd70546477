"""One open WebSocket with the wire in the test's hands: either side, on the sans-I/O half of `websockets`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from tests.support.waiting import PATIENCE_SECONDS

Headers = list[tuple[str, str]]
"""In the order of the wire, names as they were spelt."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a connection ended, seen from the side that holds it."""

    code: int | None
    """What the peer's close frame said (1005 when it said nothing), None when the connection just went."""
    reason: str
    fault: str | None = None
    """What the peer did that a WebSocket may not do, as sending an invalid code; None when all was legal."""


class PeerEndedError(Exception):
    """A message was wanted, and the connection ended."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        super().__init__(str(ending))


class Peer:
    """One side of an open WebSocket. `start()` it before use, `aclose()` it after."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        side: Side,
        *,
        headers: Headers | None = None,
        subprotocol: str | None = None,
    ) -> None:
        self.headers: Headers = headers or []
        """What the other side sent in the handshake."""
        self.subprotocol = subprotocol
        self.answer_pings = True
        self.pings: list[bytes] = []
        self.pongs: list[bytes] = []
        self.received_messages = 0
        self.bytes_sent = 0
        """Of payload, handed to the socket with backpressure obeyed."""
        self._reader = reader
        self._writer = writer
        self._protocol = Protocol(side, max_size=None)
        self._messages: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._parts: list[bytes] = []
        self._is_text = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._read())

    # -- sending

    async def send(self, message: str | bytes) -> None:
        """One message in one frame; returns once the socket has taken it."""
        payload = message.encode() if isinstance(message, str) else message
        if isinstance(message, str):
            self._protocol.send_text(payload)
        else:
            self._protocol.send_binary(payload)
        await self._flush()
        self.bytes_sent += len(payload)

    async def send_fragments(self, parts: Iterable[bytes]) -> None:
        """One binary message, a frame a part."""
        first, *rest = parts
        self._protocol.send_binary(first, fin=not rest)
        for index, part in enumerate(rest, start=1):
            self._protocol.send_continuation(part, fin=index == len(rest))
            await self._flush()
        await self._flush()

    async def send_raw(self, data: bytes) -> None:
        """Octets as they are, below the WebSocket."""
        self._writer.write(data)
        await self._writer.drain()

    async def ping(self, payload: bytes = b"") -> None:
        self._protocol.send_ping(payload)
        await self._flush()

    async def close(self, code: int | None = 1000, reason: str = "") -> None:
        """Send a close frame with any legal code; the connection ends when the peer answers."""
        with contextlib.suppress(InvalidState):
            self._protocol.send_close(code, reason)
        await self._flush()

    def abort(self) -> None:
        """Reset the TCP connection."""
        sock = cast(socket.socket, self._writer.get_extra_info("socket"))
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def end_of_stream(self) -> None:
        """Say that no more will come, without a close frame (a FIN)."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write_eof()

    async def abort_mid_message(self, announced_bytes: int = 100_000, sent_bytes: int = 1_000) -> None:
        """Start a binary message, stop in the middle of it, and reset the connection."""
        frame = Frame(Opcode.BINARY, b"x" * announced_bytes).serialize(
            mask=self._protocol.side is Side.CLIENT
        )
        await self.send_raw(frame[:sent_bytes])
        self.abort()

    # -- receiving

    def pause_reading(self) -> None:
        """Take nothing more from the socket, so that the kernel's buffers fill up behind it."""
        self._may_read.clear()
        self._transport_reading(False)

    def resume_reading(self) -> None:
        self._transport_reading(True)
        self._may_read.set()

    async def recv(self, timeout: float = PATIENCE_SECONDS) -> str | bytes:
        """The next whole message; `PeerEndedError` when the connection ends instead."""
        async with asyncio.timeout(timeout):
            message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
            raise PeerEndedError(self.ending)
        return message

    async def ended(self, timeout: float = PATIENCE_SECONDS) -> Ending:
        """How it ended, once it has; messages that came before stay to be received."""
        async with asyncio.timeout(timeout):
            await self._over.wait()
        return self.ending

    @property
    def open(self) -> bool:
        return not self._over.is_set()

    @property
    def ending(self) -> Ending:
        received = self._protocol.close_rcvd
        fault = self._protocol.parser_exc
        return Ending(
            code=None if received is None else received.code,
            reason="" if received is None else received.reason,
            fault=None if fault is None or isinstance(fault, EOFError) else str(fault),
        )

    async def aclose(self) -> None:
        """Leave nothing behind. Safe to call again."""
        self._writer.transport.abort()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def run(self) -> None:
        """Read until the end: for whoever has a task already."""
        await self._read()

    # -- inside

    def _transport_reading(self, wanted: bool) -> None:
        transport = cast(asyncio.ReadTransport, self._writer.transport)
        with contextlib.suppress(RuntimeError):  # the stream's own flow control got there first
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
            else:
                self.end_of_stream()
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                data = await self._reader.read(1 << 18)
                if not data:
                    break
                self._protocol.receive_data(data)
                for frame in self._protocol.events_received():
                    self._take(cast(Frame, frame))
                await self._flush()
        except ConnectionError:
            pass  # a reset is an end like another: `ending` has no code then
        finally:
            if not self._protocol.reader.eof:
                self._protocol.receive_eof()
            self._over.set()
            self._messages.put_nowait(None)
            self._writer.close()

    def _take(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                if frame.opcode is not Opcode.CONT:
                    self._is_text = frame.opcode is Opcode.TEXT
                self._parts.append(bytes(frame.data))
                if frame.fin:
                    self.received_messages += 1
                    whole = b"".join(self._parts)
                    self._parts.clear()
                    self._messages.put_nowait(whole.decode() if self._is_text else whole)
            case Opcode.PING:
                self.pings.append(bytes(frame.data))
                if not self.answer_pings:
                    self._protocol.writes = [
                        data for data in self._protocol.writes if not data or data[0] & 0x0F != Opcode.PONG
                    ]
            case Opcode.PONG:
                self.pongs.append(bytes(frame.data))
            case Opcode.CLOSE:
                pass
