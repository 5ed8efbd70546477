"""An event loop whose time passes at once: where every task waits, the clock jumps to the next timer.

    LOOPS = {"virtual": VirtualTimeLoop}   # in a test module: its tests run on this loop

A minute's timeout costs no time, and happens at its exact second.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable


class _Jumper(selectors.DefaultSelector):
    """Waits for nothing: instead of sleeping it moves the clock."""

    now = 1000.0
    turns = 0
    """How often the loop has gone round: it asks here once each time."""
    intruder: tuple[int, Callable[[], object]] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if self.intruder is not None and self.intruder[0] == self.turns:
            (_, intrude), self.intruder = self.intruder, None
            intrude()
            return super().select(0)
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("every task waits for another, and no timer is set")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a clock of its own. Not for threads, processes or peers on a socket."""

    def __init__(self) -> None:
        self._jumper = _Jumper()
        super().__init__(self._jumper)

    def time(self) -> float:
        return self._jumper.now

    def at_turn(self, turns: int, intrude: Callable[[], object]) -> None:
        """Call `intrude` between two turns of the loop, `turns` from now: there may be one such call at a
        time.
        """
        self._jumper.intruder = (self._jumper.turns + turns, intrude)

    def call_off(self) -> Callable[[], object] | None:
        """The call of `at_turn` that has not come yet, which now never comes; None where it has."""
        intruder, self._jumper.intruder = self._jumper.intruder, None
        return intruder[1] if intruder is not None else None


class LoopClock:
    """A `gateway.clock.Clock` that tells the running loop's time."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
