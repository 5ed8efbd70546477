"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

SETTLING_ROUNDS = 50
"""Turns of the loop after each step: more than any chain of awaits in the code under test is long."""


async def settle() -> None:
    """Return once tasks that can run without time passing have run."""
    for _ in range(SETTLING_ROUNDS):
        await asyncio.sleep(0)


class ManualClock:
    """A `gateway.clock.Clock`. Tests call `advance`, or `freeze` for a process that did not run meanwhile."""

    def __init__(self, *, epoch: float = 1_700_000_000.0) -> None:
        self._epoch = epoch
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self._epoch + self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(seconds, 0.0), next(self._numbers), woken))
        await woken

    @property
    def sleepers(self) -> int:
        """Tasks that wait for this clock."""
        return sum(1 for _, _, woken in self._sleepers if not woken.done())

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: each sleeper wakes at its own time, and what that sets off runs first."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now = max(self._now, self._sleepers[0][0])
            self._wake_due()
            await settle()
        self._now = end
        await settle()

    async def freeze(self, seconds: float) -> None:
        """Let `seconds` pass while nothing runs: who should have woken meanwhile wakes late, all at once."""
        self._now += seconds
        self._wake_due()
        await settle()

    def jump(self, seconds: float) -> None:
        """`freeze`, before anybody has woken up."""
        self._now += seconds

    def _wake_due(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
