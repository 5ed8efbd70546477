"""PURE. The faults of a port: nobody gets in, or not soon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Fault, Kind, Point, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Fault):
    """The port is closed: connects are refused. Open sessions go on, idle HTTP connections are closed."""

    name: ClassVar[str] = "refuse"
    kind: ClassVar[Kind] = "connect"
    strikes_at: ClassVar[Point] = Point.LISTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole(Fault):
    """Connects hang: the listen backlog is full, and the kernel drops every SYN; or they are taken and
    nothing is ever answered. Open sessions go on, idle HTTP connections are closed."""

    name: ClassVar[str] = "blackhole"
    kind: ClassVar[Kind] = "connect"
    how: Literal["backlog", "accept"] = "backlog"
    """`backlog`: no connect comes to an end. `accept`: every connect does, and then there is silence."""

    @property
    def at(self) -> Point:
        return Point.LISTEN if self.how == "backlog" else Point.CONNECT


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAccept(Fault):
    """A new connection waits before anything of it is read, as behind a busy accept loop."""

    name: ClassVar[str] = "slow_accept"
    kind: ClassVar[Kind] = "connect"
    strikes_at: ClassVar[Point] = Point.CONNECT
    seconds: float = 1.0
    """From the connect until the first byte is read."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(seconds=self.seconds)
