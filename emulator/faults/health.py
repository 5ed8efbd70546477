"""PURE. The faults of the health routes: what a probe sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Fault, Kind, Point, check_range, check_seconds
from emulator.faults.upgrade import MAX_PIECES, check_header

MAX_BODY_BYTES = 1024 * 1024 * 1024
MOVED_PATH = "/moved"
"""Where `redirect` leads by itself: a prober that follows finds a healthy answer there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus(Fault):
    """Health routes answer with this status."""

    name: ClassVar[str] = "health_status"
    kind: ClassVar[Kind] = "health"
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
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH
    seconds: float | None = None
    """After this long the answer comes; None for never."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDrip(Fault):
    """Health routes answer in pieces, so that a deadline a read never passes and one for the whole does."""

    name: ClassVar[str] = "slow_drip"
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH
    seconds: float = 10.0
    """From the request to the end of the answer."""
    pieces: int = 40
    """In how many pieces it comes, one after the other in equal intervals."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(seconds=self.seconds)
        check_range(1, MAX_PIECES, pieces=self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect(Fault):
    """Health routes answer with a redirect; by itself it leads to a healthy answer, which proves nothing."""

    name: ClassVar[str] = "redirect"
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH
    status: Literal[301, 302, 303, 307, 308] = 302
    """Which redirect."""
    location: str = MOVED_PATH
    """A path of this replica, or a whole URL."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_header(location=self.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming(Fault):
    """No worker is ready: `/health` and `/readyz` answer 200 with the status `warming`, sessions wait for a
    GPU."""

    name: ClassVar[str] = "warming"
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH


@dataclass(frozen=True, slots=True, kw_only=True)
class BadJson(Fault):
    """Health routes answer 200 with a body that calls itself JSON and is none."""

    name: ClassVar[str] = "bad_json"
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH
    body: str = '{"status": "ok", '
    """The text of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeBody(Fault):
    """Health routes answer 200 with a healthy JSON object of enormous size."""

    name: ClassVar[str] = "huge_body"
    kind: ClassVar[Kind] = "health"
    strikes_at: ClassVar[Point] = Point.HEALTH
    size_bytes: int = 64 * 1024 * 1024
    """Of the body, at least."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_range(0, MAX_BODY_BYTES, size_bytes=self.size_bytes)
