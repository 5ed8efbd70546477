"""A TCP connection of a replica, down to its bytes: read, write, reset, close."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Sequence

READ_BYTES = 65536
LINGER_NOTHING = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing sends a reset and throws away what is unsent."""
CLOSE_SECONDS = 2.0


class Wire:
    """Reads and writes stand still while `running` is cleared, as those of a stopped process do."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, running: asyncio.Event
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._running = running
        self.in_session = False
        """The handshake to a WebSocket is done."""
        self._ahead = b""

    @property
    def peer(self) -> str:
        """host:port of the other side."""
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "gone"

    @property
    def unsent_bytes(self) -> int:
        """Written, and not yet taken by the other side's kernel; 0 once the connection is gone."""
        raw: socket.socket | None = self._writer.get_extra_info("socket")
        if raw is None or raw.fileno() < 0:
            return 0
        queued = bytearray(4)
        with contextlib.suppress(OSError):
            fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, queued)
        return self._writer.transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    async def read(self) -> bytes:
        """The next bytes; empty once the other side has ended or the connection is lost. Cancel-safe."""
        await self._running.wait()
        if not self._ahead:
            with contextlib.suppress(OSError):
                self._ahead = await self._reader.read(READ_BYTES)
        await self._running.wait()
        received, self._ahead = self._ahead, b""
        return received

    async def wait_for_end(self) -> None:
        """Return once the other side has ended. What it says before that is kept for `read`; when that is
        much, the end behind it is not seen. Cancel-safe."""
        while len(self._ahead) < READ_BYTES:
            await self._running.wait()
            received = b""
            with contextlib.suppress(OSError):
                received = await self._reader.read(READ_BYTES)
            if not received:
                return
            self._ahead += received
        await asyncio.Event().wait()

    async def write(self, *parts: bytes) -> None:
        """The bytes are with the kernel or in a buffer of bounded size. Waits while the other side does not
        read. What goes to a lost connection is thrown away; `read` tells of the loss."""
        await self._running.wait()
        if self._writer.is_closing():
            return
        self._writer.writelines(parts)
        await self.drain()

    async def drain(self) -> None:
        """The write buffer is below its limit, or the connection lost."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def push(self, parts: Sequence[bytes]) -> None:
        """The bytes are in the buffer at once; for answers that may not be torn apart by another writer."""
        if not self._writer.is_closing():
            self._writer.writelines(parts)

    async def wait_while_paused(self) -> None:
        """Return once the replica runs."""
        await self._running.wait()

    def reset(self) -> None:
        """The other side gets a reset; nothing more is sent or read."""
        self.expect_death()
        self._writer.transport.abort()

    def expect_death(self) -> None:
        """However the connection ends from now on, the other side gets a reset."""
        raw: socket.socket | None = self._writer.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOTHING)

    def end(self) -> None:
        """The other side sees the end of what we send; reading goes on."""
        with contextlib.suppress(OSError):
            if not self._writer.is_closing() and self._writer.can_write_eof():
                self._writer.write_eof()

    def close(self) -> None:
        """What is buffered is still sent, then the connection ends."""
        self._writer.close()

    async def finish(self) -> None:
        """The connection is closed: in order when the other side takes what is left in time, else by a
        reset."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        except TimeoutError:
            self.reset()
        except OSError:
            pass
