"""PURE. What every fault has: when and how often it strikes, and at which point.

A fault strikes at a point: a named place in the shell where the shell asks (see board). What it does there
is the shell's work. The fields that all of them have:

- From `after_seconds` after arming, for `for_seconds`, it is live. When it is live no longer, or lifted, or
armed anew with other fields, whatever waits because of it goes on at once.
- `probability` and `times` count opportunities: for faults of a session that is a session (decided once, at
its first chance), for faults of connects a connection, for faults of health routes a request. The port
itself is either open or not: there they have no meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

Draw = Callable[[], float]
"""The next random number, at least 0 and below 1."""

Kind = Literal["connect", "health", "session", "process", "mix"]
"""What a fault is about: getting in, the health routes, a session, the replica's process, or several."""


class Point(StrEnum):
    """Where a fault can strike, in the order in which a connection meets them."""

    LISTEN = "listen"
    """Before any connection: the port."""
    CONNECT = "connect"
    """A connection has been accepted, and nothing of it read."""
    HEALTH = "health"
    """A request on a health route has been read."""
    UPGRADE = "upgrade"
    """An upgrade request has been read, nothing has been answered."""
    ADMIT = "admit"
    """The handshake is done, and the session asks for a place."""
    OPEN = "open"
    """It is known whether the session has a place, and nothing has been said."""
    INIT = "init"
    """The first message has been read, not answered."""
    GPU = "gpu"
    """The first message has been taken, and the session waits for a GPU."""
    SEND = "send"
    """Before each message to the client."""
    MEDIA = "media"
    """Before each binary message to the client."""
    BYTES = "bytes"
    """Before each piece of a message is written."""
    SEGMENT_START = "segment_start"
    """A segment has been announced, and nothing of it made."""
    SEGMENT = "segment"
    """In the middle of a segment: before its last chunk."""
    SEGMENT_END = "segment_end"
    """A segment is complete, and nothing has been read since."""
    SNAPSHOT = "snapshot"
    """A snapshot has been asked for and not answered."""
    PING = "ping"
    """A ping has been read, and not answered."""
    CLOSE = "close"
    """The client's close frame has been read, and not answered."""
    NOW = "now"
    """Wherever a session is: at its next message, or at once when it is idle."""


SessionPoint = Literal[
    "upgrade", "open", "init", "segment_start", "segment", "segment_end", "snapshot", "now"
]
"""The points that a fault may choose among."""
SEGMENT_POINTS = ("segment_start", "segment", "segment_end")
"""Those that belong to a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What all faults have."""

    name: ClassVar[str]
    """In URLs, and in the event log."""
    kind: ClassVar[Kind] = "session"
    """What it is about."""
    strikes_at: ClassVar[Point]
    """Where, for faults that have no choice."""

    probability: float = 1.0
    """Share of the opportunities that it strikes, 0 to 1."""
    after_seconds: float = 0.0
    """From arming until it is live."""
    for_seconds: float | None = None
    """How long it stays live; None for until it is lifted."""
    times: int | None = None
    """How many opportunities it strikes at most; None for all."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is a share from 0 to 1, not {self.probability}")
        check_seconds(after_seconds=self.after_seconds)
        if self.for_seconds is not None and not 0 < self.for_seconds < math.inf:
            raise ValueError(f"for_seconds must be more than 0, not {self.for_seconds}; null is for ever")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be 1 or more, not {self.times}; null is without a limit")

    @property
    def at(self) -> Point:
        """Where it strikes."""
        return self.strikes_at

    def is_on(self, age_seconds: float) -> bool:
        """Whether it does anything `age_seconds` after it has become live: most do all the time."""
        return age_seconds >= 0

    def next_turn(self, age_seconds: float) -> float | None:
        """The age at which `is_on` changes next by itself; None for never."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFault(Fault):
    """A fault that strikes sessions."""

    session: int | None = None
    """Only the session with this number (the replica's own count of upgrade requests, from 1); None for every
    one."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.session is not None and self.session < 1:
            raise ValueError(f"session counts upgrade requests from 1, not {self.session}; null is every one")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFault(SessionFault):
    """A fault that strikes a session at a place of its life."""

    needs_session: ClassVar[bool] = True
    """Without an open session it cannot strike."""

    point: SessionPoint = "segment"
    """Where in the session's life."""
    segment: int | None = None
    """Only in the segment with this number (from 0); None for every one. For the points of a segment."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if self.segment is not None and (self.segment < 0 or self.point not in SEGMENT_POINTS):
            raise ValueError(f"segment is a number from 0, and goes with {', '.join(SEGMENT_POINTS)}")
        if self.needs_session and self.point == "upgrade":
            raise ValueError(
                "it needs an open session; at the point upgrade use reset, stall or upgrade_status"
            )

    @property
    def at(self) -> Point:
        return Point(self.point)


def check_seconds(**seconds: float | None) -> None:
    """Raise ValueError for a time that is negative or not finite; None is fine."""
    for name, value in seconds.items():
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be 0 or more, not {value}")


def check_range(low: int, high: int, **numbers: int) -> None:
    """Raise ValueError for a number outside `low` to `high`."""
    for name, value in numbers.items():
        if not low <= value <= high:
            raise ValueError(f"{name} must be {low} to {high}, not {value}")
