"""Time as a port: commands that wait take it as an argument, so that tests need not."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a command needs to know of time."""

    def now(self) -> datetime:
        """In UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since any one moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after so long."""
        ...


class SystemClock:
    """The machine's."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
