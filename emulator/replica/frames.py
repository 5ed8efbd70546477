"""What a replica makes of WebSocket frames, without I/O: whole messages, answers that may be kept back, and
frames that no library would make.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.protocol import SEND_EOF
from websockets.server import ServerProtocol

FIN = 0x80
BATCH_BYTES = 16384
"""Small frames leave in batches of about this size."""
PING = bytes([FIN | Opcode.PING, 0])


class ReplicaProtocol(ServerProtocol):
    """A server's protocol that asks before it answers a ping or a close."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.answers_ping: Callable[[], bool] = lambda: True
        """Asked for each ping."""
        self.answers_close: Callable[[], bool] = lambda: True
        """Asked for the client's close frame."""
        self._kept_back: Frame | None = None

    @property
    def keeps_back_close(self) -> bool:
        """The client's close frame has not been answered yet."""
        return self._kept_back is not None

    def answer_close(self) -> None:
        """What was kept back is among what is to be sent."""
        if self._kept_back is not None:
            frame, self._kept_back = self._kept_back, None
            super().send_frame(frame)

    def send_frame(self, frame: Frame) -> None:
        is_answer = self.close_rcvd is not None and self.close_sent is None
        if frame.opcode is Opcode.PONG and not self.answers_ping():
            return
        if frame.opcode is Opcode.CLOSE and is_answer and not self.answers_close():
            self._kept_back = frame
            return
        super().send_frame(frame)

    def parts_to_send(self) -> list[bytes]:
        """The bytes of whole frames; the end of the stream is not among them."""
        return [part for part in self.data_to_send() if part != SEND_EOF]


class Assembly:
    """Joins the fragments of messages."""

    def __init__(self) -> None:
        self._fragments: list[bytes] = []
        self._is_text = True

    def add(self, frame: Frame) -> tuple[bool, bytes] | None:
        """Whether it is text, and all of its bytes, once `frame` ends a message; control frames end none."""
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return None
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._fragments.append(bytes(frame.data))
        if not frame.fin:
            return None
        data = self._fragments[0] if len(self._fragments) == 1 else b"".join(self._fragments)
        self._fragments.clear()
        return self._is_text, data


def header(opcode: Opcode, size_bytes: int, *, fin: bool = True) -> bytes:
    """Of a server's frame, which is never masked."""
    first = opcode | (FIN if fin else 0)
    if size_bytes < 126:
        return struct.pack("!BB", first, size_bytes)
    if size_bytes < 65536:
        return struct.pack("!BBH", first, 126, size_bytes)
    return struct.pack("!BBQ", first, 127, size_bytes)


def begun_frame(declared_bytes: int, sent_bytes: int) -> bytes:
    """The header of a binary frame of `declared_bytes`, and the first `sent_bytes` of its payload."""
    return header(Opcode.BINARY, declared_bytes) + bytes(sent_bytes)


def blank_frame(opcode: Opcode, size_bytes: int) -> Iterator[bytes]:
    """One frame of zeros (binary) or spaces (text), in parts."""
    yield header(opcode, size_bytes)
    part = (b" " if opcode is Opcode.TEXT else b"\0") * BATCH_BYTES
    for at in range(0, size_bytes, BATCH_BYTES):
        yield part[: size_bytes - at]


def fragments(opcode: Opcode, data: bytes, fragment_bytes: int, ping_every: int = 0) -> Iterator[bytes]:
    """The message in frames of `fragment_bytes`, with a ping after every so many of them, in batches."""
    batch = bytearray()
    for number, at in enumerate(range(0, max(1, len(data)), fragment_bytes)):
        piece = data[at : at + fragment_bytes]
        is_last = at + fragment_bytes >= len(data)
        batch += header(opcode if number == 0 else Opcode.CONT, len(piece), fin=is_last) + piece
        if ping_every and not is_last and (number + 1) % ping_every == 0:
            batch += PING
        if is_last or len(batch) >= BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
