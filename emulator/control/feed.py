"""Waiting for events: whoever asks for what comes next is woken once it is there, and when the server
stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from emulator.events import Event, EventLog, Wanted

MAX_WAITING = 64
"""Requests that may wait at a time."""


class TooManyWaiting(Exception):
    """All places to wait are taken."""


class Waiter:
    """One that waits. `wake` may be called by anybody, and as often as they like."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The running or the next `pause` ends at once."""
        self._woken.set()

    async def pause(self, seconds: float) -> bool:
        """Return once woken (True) or after so long (False). Cancel-safe."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class Feed:
    """The event log's waiting room."""

    def __init__(self, log: EventLog, *, places: int = MAX_WAITING) -> None:
        self.log = log
        self.closed = False
        """Nobody waits any more: the server stops."""
        self._places = places
        self._waiters: set[Waiter] = set()

    @property
    def waiting(self) -> int:
        """How many are in it."""
        return len(self._waiters)

    @property
    def is_full(self) -> bool:
        """The next one is refused."""
        return len(self._waiters) >= self._places

    @contextlib.contextmanager
    def waiter(self, wanted: Wanted) -> Iterator[Waiter]:
        """Woken by each event that is wanted, and by `close`. Raises TooManyWaiting.

        What was recorded before is not told: look at the log first, without an await between the two.
        """
        if self.is_full:
            raise TooManyWaiting
        waiter = Waiter()

        def hear(event: Event) -> None:
            if wanted.takes(event):
                waiter.wake()

        self._waiters.add(waiter)
        unsubscribe = self.log.subscribe(hear)
        try:
            if self.closed:
                waiter.wake()
            yield waiter
        finally:
            unsubscribe()
            self._waiters.discard(waiter)

    def close(self) -> None:
        """All who wait are woken, and whoever comes later does not wait."""
        self.closed = True
        for waiter in self._waiters:
            waiter.wake()
