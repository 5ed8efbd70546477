"""PURE. The faults of the replica's process: dead, frozen, or gone for a while.

A point of a session's life triggers them, and all sessions of the replica suffer them. Nothing more is sent
from the point on, and what was sent before has left for the client when the process dies or stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.fault import Kind, Point, PointFault, SessionFault, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(PointFault):
    """The replica dies with all its sessions: connections are reset, the port is closed."""

    name: ClassVar[str] = "kill"
    kind: ClassVar[Kind] = "process"
    needs_session: ClassVar[bool] = False
    restart_after_seconds: float | None = None
    """It comes back after so long; None for not by itself."""
    warming_seconds: float = 0.0
    """How long it is warming once back."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_seconds(restart_after_seconds=self.restart_after_seconds, warming_seconds=self.warming_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(PointFault):
    """The replica stands still with all its sessions: it takes connects, and reads and writes nothing."""

    name: ClassVar[str] = "pause"
    kind: ClassVar[Kind] = "process"
    needs_session: ClassVar[bool] = False
    seconds: float | None = None
    """How long; None for until it is resumed or the fault is lifted."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_seconds(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(PointFault):
    """The replica restarts in order, as for a new version: sessions are closed with 1001, the port is closed,
    and after a while it is back."""

    name: ClassVar[str] = "restart"
    kind: ClassVar[Kind] = "process"
    needs_session: ClassVar[bool] = False
    away_seconds: float = 1.0
    """From its end until it is back."""
    warming_seconds: float = 0.0
    """How long it is warming once back."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_seconds(away_seconds=self.away_seconds, warming_seconds=self.warming_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison(SessionFault):
    """A prompt that contains the text kills the replica that takes it up, with all its sessions."""

    name: ClassVar[str] = "poison"
    kind: ClassVar[Kind] = "process"
    strikes_at: ClassVar[Point] = Point.SEGMENT_START
    text: str = "poison"
    """What the prompt has to contain."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if not self.text:
            raise ValueError("text must not be empty: every prompt contains that")


ProcessFault = Kill | Pause | Restart | Poison
"""What a session cannot suffer alone: the replica's owner has to carry it out."""
