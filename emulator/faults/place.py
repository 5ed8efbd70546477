"""PURE. The faults of a session's place: none, fewer than before, or one without a GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Point, SessionFault, check_range, check_seconds

MAX_SESSIONS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity(SessionFault):
    """The replica takes another number of sessions than it was started with. Open sessions stay, also where
    they are more; new ones are rejected until there are fewer."""

    name: ClassVar[str] = "capacity"
    strikes_at: ClassVar[Point] = Point.ADMIT
    sessions: int = 0
    """How many at a time; 0 for none."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_range(0, MAX_SESSIONS, sessions=self.sessions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart(SessionFault):
    """A session waits for its GPU, and is told so by a `queue_status` again and again."""

    name: ClassVar[str] = "cold_start"
    strikes_at: ClassVar[Point] = Point.GPU
    seconds: float = 5.0
    """From the opening message until the session has its GPU."""
    every_seconds: float = 1.0
    """Between two `queue_status`, whose position counts down."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_seconds(seconds=self.seconds)
        if not 0 < self.every_seconds < math.inf:
            raise ValueError(f"every_seconds must be more than 0, not {self.every_seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject(SessionFault):
    """Sessions are refused in band, below the capacity too: accepted, told by an `error`, closed by 1013."""

    name: ClassVar[str] = "reject"
    code: Literal["session_rejected", "gpu_unavailable"] = "session_rejected"
    """Of the `error`, and the reason of the close."""
    point: Literal["open", "init"] = "open"
    """Before or after the first message has been read."""

    @property
    def at(self) -> Point:
        return Point(self.point)
