"""PURE. The faults of a session's pace: late, slow, quiet, or deaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Point, PointFault, SessionFault, SessionPoint, check_range, check_seconds

MAX_RATE = 10 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(SessionFault):
    """Every message to the client comes later."""

    name: ClassVar[str] = "latency"
    strikes_at: ClassVar[Point] = Point.SEND
    seconds: float = 0.3
    """Added before each message."""
    jitter_seconds: float = 0.0
    """Up to this much more, drawn for each message."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_seconds(seconds=self.seconds, jitter_seconds=self.jitter_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(SessionFault):
    """Messages to the client trickle: so many bytes a second and no more, also within one message."""

    name: ClassVar[str] = "bandwidth"
    strikes_at: ClassVar[Point] = Point.BYTES
    bytes_per_second: int = 65536
    """Of each session."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_range(1, MAX_RATE, bytes_per_second=self.bytes_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(PointFault):
    """The session goes quiet: nothing more is sent, the connection stays open and answers pings."""

    name: ClassVar[str] = "stall"
    needs_session: ClassVar[bool] = False
    seconds: float | None = None
    """How long; None for until the client leaves or the fault is lifted."""
    then: Literal["continue", "reset"] = "continue"
    """What follows when that time is over: the session goes on, or its connection is reset."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_seconds(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReading(PointFault):
    """The replica reads nothing more of the session, no ping and no close either; it goes on sending."""

    name: ClassVar[str] = "stop_reading"
    point: SessionPoint = "now"
    seconds: float | None = None
    """How long; None for until the fault is lifted."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_seconds(seconds=self.seconds)
