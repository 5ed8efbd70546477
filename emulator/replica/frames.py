"""What a replica makes of WebSocket frames, without I/O: whole messages, and pongs that may be kept back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol


class ReplicaProtocol(ServerProtocol):
    """A server's protocol that asks before it answers a ping."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.answers_ping: Callable[[], bool] = lambda: True
        """Asked for each ping."""

    def send_frame(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.PONG or self.answers_ping():
            super().send_frame(frame)


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


def begun_frame(declared_bytes: int, sent_bytes: int) -> bytes:
    """The header of a binary frame of `declared_bytes`, and the first `sent_bytes` of its payload."""
    if declared_bytes < 126:
        header = struct.pack("!BB", 0x82, declared_bytes)
    elif declared_bytes < 65536:
        header = struct.pack("!BBH", 0x82, 126, declared_bytes)
    else:
        header = struct.pack("!BBQ", 0x82, 127, declared_bytes)
    return header + bytes(sent_bytes)
