"""PURE. How long to leave a service alone that says it is asked too often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first_seconds` to `longest_seconds`, each cut by up to a half at random: those
    who were turned away together do not come back together.
    """

    first_seconds: float = 5.0
    longest_seconds: float = 60.0

    def seconds(self, refusals: int, draw: float) -> float:
        """How long to wait after so many refusals in a row, at least one; `draw` is random, from 0 to 1."""
        # Bounded, for the power of a number that only a day of refusals reaches is no float any more.
        whole = min(self.first_seconds * 2.0 ** min(refusals - 1, 32), self.longest_seconds)
        return whole * (1 - draw / 2)
