"""What leaves a session: one message after the other, each whole, as fast as a fault lets it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from emulator.faults import Bandwidth
from emulator.replica.board import Armed
from emulator.replica.wire import Wire

SLICE_SECONDS = 0.05
"""How much of a slow line's time one write takes."""


class Outlet:
    """Messages are sent by one task; control frames of others go in between, and never into the middle of a
    frame."""

    def __init__(
        self,
        wire: Wire,
        limit: Callable[[], Armed | None],
        outlast: Callable[[Armed, float], Awaitable[None]],
    ) -> None:
        """`limit` tells the fault that bounds the bandwidth now; `outlast` waits so long while it stands."""
        self._wire = wire
        self._limit = limit
        self._outlast = outlast
        self._behind: list[bytes] = []
        self._idle = asyncio.Event()
        self._idle.set()

    def push(self, parts: list[bytes]) -> None:
        """The frames leave at once, or behind the message that is under way."""
        if self._idle.is_set():
            self._wire.push(parts)
        else:
            self._behind += parts

    async def send(self, parts: Iterable[bytes]) -> None:
        """The message, given in any parts, is with the kernel or in a buffer of bounded size. When it is
        cancelled, what is on the wire ends in the middle of a message, and nothing may follow."""
        self._idle.clear()
        for part in parts:
            await self._send_part(part)
        self._idle.set()
        behind, self._behind = self._behind, []
        if behind:
            self._wire.push(behind)

    async def settled(self, within_seconds: float) -> None:
        """No message is under way any more, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self._idle.wait()

    async def _send_part(self, part: bytes) -> None:
        rest = memoryview(part)
        while rest:
            entry = self._limit()
            if entry is None or not isinstance(entry.fault, Bandwidth):
                await self._wire.write(bytes(rest))
                return
            rate = entry.fault.bytes_per_second
            now, rest = rest[: max(1, int(rate * SLICE_SECONDS))], rest[max(1, int(rate * SLICE_SECONDS)) :]
            await self._wire.write(bytes(now))
            await self._outlast(entry, len(now) / rate)
