"""PURE. The faults of a port: nobody gets in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.fault import Fault, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Fault):
    """The port is closed: connects are refused. Open sessions go on, idle HTTP connections are closed."""

    name: ClassVar[str] = "refuse"
    strikes_at: ClassVar[Point] = Point.LISTEN
