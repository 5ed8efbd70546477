"""An event loop whose time passes at once: where every task waits, the clock jumps to the next timer.

    LOOPS = {"virtual": VirtualTimeLoop}   # in a test module: its tests run on this loop

A minute's timeout costs no time, and happens at its exact second.
"""

from __future__ import annotations

import asyncio
import selectors


class _Jumper(selectors.DefaultSelector):
    """Waits for nothing: instead of sleeping it moves the clock."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
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
