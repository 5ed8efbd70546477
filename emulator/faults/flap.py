"""PURE. A replica that goes down and comes up again, and again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Fault, Kind, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Flap(Fault):
    """Down and up in turns, beginning with down: health routes answer 503, or the port is closed."""

    name: ClassVar[str] = "flap"
    kind: ClassVar[Kind] = "health"
    down_seconds: float = 2.0
    """How long it is down each time."""
    up_seconds: float = 2.0
    """How long it is up in between."""
    how: Literal["health", "port"] = "health"
    """What down is: health routes answer 503, or connects are refused."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        for name, value in (("down_seconds", self.down_seconds), ("up_seconds", self.up_seconds)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be more than 0, not {value}")

    @property
    def at(self) -> Point:
        return Point.HEALTH if self.how == "health" else Point.LISTEN

    def is_on(self, age_seconds: float) -> bool:
        return age_seconds >= 0 and age_seconds % (self.down_seconds + self.up_seconds) < self.down_seconds

    def next_turn(self, age_seconds: float) -> float | None:
        period = self.down_seconds + self.up_seconds
        begun = math.floor(age_seconds / period) * period
        turns = (begun + self.down_seconds, begun + period, begun + period + self.down_seconds)
        return next(turn for turn in turns if turn > age_seconds)
