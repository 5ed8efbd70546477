"""How fast a client takes what it is sent: at once, at a rate, or not at all."""

from __future__ import annotations

import asyncio
import contextlib

from emulator.scenario import Read


class Pace:
    """Asked before each message."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._opened_at: float | None = None
        self._told: bool | None = None
        self._changed = asyncio.Event()

    @property
    def holds_back(self) -> bool:
        """Whether a message may ever have to wait."""
        return self._read.how != "normal"

    @property
    def has_stopped_for_good(self) -> bool:
        """It takes nothing, and will not by itself."""
        return self._is_stopped() and self._until_change() is None

    def opened(self) -> None:
        """The times of the plan count from now."""
        self._opened_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """Nothing is taken any more, whatever the plan says."""
        self._tell(False)

    def go_on(self) -> None:
        """Everything is taken at once from now on."""
        self._tell(True)

    def finish(self) -> None:
        """The play is over: what is left is taken, to see how it ends."""
        self._tell(True)

    async def wait(self, size_bytes: int) -> None:
        """Return when the next message may be taken, after one of this size."""
        if self._told is None and self._read.how == "slow":
            await self._pause(size_bytes / self._read.bytes_per_second if self._is_in_force() else 0.0)
        while self._is_stopped():
            await self._pause(self._until_change())

    def _tell(self, reads: bool) -> None:
        self._told = reads
        self._changed.set()

    def _is_stopped(self) -> bool:
        if self._told is not None:
            return not self._told
        return self._read.how == "stopped" and self._is_in_force()

    def _is_in_force(self) -> bool:
        if self._opened_at is None:
            return False
        since = asyncio.get_running_loop().time() - self._opened_at - self._read.after
        return since >= 0 and (self._read.lasting is None or since < self._read.lasting)

    def _until_change(self) -> float | None:
        """Until the plan says something else; None for never."""
        if self._told is not None or self._opened_at is None or self._read.lasting is None:
            return None
        end = self._opened_at + self._read.after + self._read.lasting
        return max(0.0, end - asyncio.get_running_loop().time())

    async def _pause(self, seconds: float | None) -> None:
        self._changed.clear()
        if seconds == 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
