"""What a connection does whatever is spoken on it: write in time, and wait for as long as a fault stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from emulator.replica.board import Armed
from emulator.replica.premises import Premises
from emulator.replica.wire import Wire

WRITE_SECONDS = 10.0
"""How long a client may take to read a piece of an answer."""


class Exchange:
    """One connection of a replica, as its server's rules see it."""

    def __init__(self, premises: Premises, wire: Wire, number: int) -> None:
        """`number` is the replica's count of connections."""
        self.premises = premises
        self.wire = wire
        self.number = number

    async def write(self, parts: Iterable[bytes]) -> bool:
        """Whether the client took them in time; if not, its connection has been reset."""
        try:
            for part in parts:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self.wire.write(part)
        except TimeoutError:
            self.wire.reset()
            return False
        return True

    async def drip(self, data: bytes, entry: Armed, *, seconds: float, pieces: int) -> bool:
        """The data are written in so many pieces at equal intervals, the last after `seconds`; once the fault
        stands no longer, the rest comes at once. Tells whether the client took them."""
        size = max(1, -(-len(data) // pieces))
        for at in range(0, len(data), size):
            if not await self.outlast(entry, seconds / pieces):
                return False
            if not await self.write([data[at : at + size]]):
                return False
        return True

    async def outlast(self, entry: Armed, seconds: float | None) -> bool:
        """Silence for so long (None: without an end) or until the fault stands no longer. Tells whether the
        client is still there; what it says meanwhile is kept for later."""
        premises = self.premises
        end = None if seconds is None else premises.now() + seconds
        with premises.ear() as ear:
            return await self._until(ear, lambda: time_left(premises, entry, end))

    async def until_awake(self) -> bool:
        """The replica is awake, which this wakes where it has to; tells whether the client is still there."""
        premises = self.premises
        premises.touch(self.number)
        if premises.is_awake:
            return True
        with premises.ear() as ear:
            return await self._until(ear, lambda: 0 if premises.is_awake else None)

    async def _until(self, ear: asyncio.Event, time_left: Callable[[], float | None]) -> bool:
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(self.wire.wait_for_end())
            is_there = True
            while is_there and not self.premises.closing and time_left() != 0:
                ear.clear()
                changed = group.create_task(ear.wait())
                await asyncio.wait({gone, changed}, timeout=time_left(), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                is_there = not gone.done()
            gone.cancel()
        await self.wire.wait_while_paused()
        return is_there


def time_left(premises: Premises, entry: Armed, end: float | None) -> float | None:
    """Seconds until there is a reason to look again; 0 where the wait is over, None for no such time."""
    now = premises.now()
    if not premises.board.stands(entry, now):
        return 0
    moments = [moment for moment in (end, entry.ends_at) if moment is not None]
    return max(0.0, min(moments) - now) if moments else None
