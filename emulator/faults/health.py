"""PURE. The faults of the health routes: what a probe sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.fault import Fault, Point, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus(Fault):
    """Health routes answer with this status."""

    name: ClassVar[str] = "health_status"
    strikes_at: ClassVar[Point] = Point.HEALTH
    status: int = 503
    """An HTTP status, 200 to 599."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 200 <= self.status <= 599:
            raise ValueError(f"status is an HTTP status from 200 to 599, not {self.status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthHang(Fault):
    """Health routes read the request and answer nothing."""

    name: ClassVar[str] = "health_hang"
    strikes_at: ClassVar[Point] = Point.HEALTH
    seconds: float | None = None
    """After this long the answer comes; None for never."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming(Fault):
    """No worker is ready: `/health` and `/readyz` answer 200 with the status `warming`, sessions wait for a
    GPU."""

    name: ClassVar[str] = "warming"
    strikes_at: ClassVar[Point] = Point.HEALTH
