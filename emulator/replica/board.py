"""PURE. Which fault strikes when: the faults armed on one replica, and a session's meeting with them.

A fault is armed under its name; arming it again replaces it. Whether it takes an opportunity is decided
here, from the time and a random draw that come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.faults import Flaky
from emulator.faults.fault import Draw, Fault, Point, PointFault
from emulator.faults.process import Poison


@dataclass(slots=True)
class Armed:
    """A fault on a replica."""

    fault: Fault
    armed_at: float
    """Monotonic seconds."""
    struck: int = 0
    """Opportunities taken so far."""

    def is_live(self, now: float) -> bool:
        """In its time, and not used up."""
        begin = self.armed_at + self.fault.after_seconds
        end = None if self.fault.for_seconds is None else begin + self.fault.for_seconds
        used_up = self.fault.times is not None and self.struck >= self.fault.times
        return begin <= now and (end is None or now < end) and not used_up

    def changes_after(self, now: float) -> Iterator[float]:
        """The moments after `now` at which it becomes live or stops being so."""
        begin = self.armed_at + self.fault.after_seconds
        if begin > now:
            yield begin
        if self.fault.for_seconds is not None and begin + self.fault.for_seconds > now:
            yield begin + self.fault.for_seconds

    def strikes(self, now: float, draw: Draw) -> bool:
        """Whether it takes this opportunity; if so, it is counted."""
        if not self.is_live(now) or (self.fault.probability < 1 and draw() >= self.fault.probability):
            return False
        self.struck += 1
        return True


@dataclass(slots=True)
class Board:
    """The faults armed on one replica. Owned and changed by the replica alone."""

    armed: dict[str, Armed] = field(default_factory=dict)

    def arm(self, fault: Fault, now: float) -> None:
        """`fault` stands, in place of one of the same name."""
        self.armed[fault.name] = Armed(fault, now)

    def lift(self, name: str) -> bool:
        """No fault of that name stands; tells whether one did."""
        return self.armed.pop(name, None) is not None

    def lift_all(self) -> None:
        """No fault stands."""
        self.armed.clear()

    def live(self, kind: type[Fault], now: float) -> bool:
        """Whether a fault of this kind is in its time."""
        entry = self.armed.get(kind.name)
        return entry is not None and entry.is_live(now)

    def next_change(self, now: float) -> float | None:
        """The next moment at which a fault becomes live or stops being so by the clock alone."""
        return min((at for entry in self.armed.values() for at in entry.changes_after(now)), default=None)

    def strike_health(self, now: float, draw: Draw) -> tuple[Fault, ...]:
        """The faults that strike this health request, counted."""
        return tuple(
            entry.fault
            for entry in self.armed.values()
            if entry.fault.at is Point.HEALTH and entry.strikes(now, draw)
        )


@dataclass(slots=True)
class Encounter:
    """One session's meeting with the faults: each armed fault decides once whether this session is its
    own."""

    board: Board
    draw: Draw
    own: tuple[Fault, ...] = ()
    """Faults of this session alone, drawn for it when it began."""
    _decided: dict[int, tuple[Armed, bool]] = field(default_factory=dict)

    def strike(
        self, point: Point, now: float, segment: int | None = None, prompt: str = ""
    ) -> tuple[Fault, ...]:
        """The faults that strike at `point`, in the order of arming; `segment` is the number of the running
        one, `prompt` that of one that starts."""
        found = [fault for fault in self.own if _is_due(fault, point, segment, prompt)]
        for entry in list(self.board.armed.values()):
            if _is_due(entry.fault, point, segment, prompt) and self._is_mine(entry, now):
                found.append(entry.fault)
        return tuple(found)

    def _is_mine(self, entry: Armed, now: float) -> bool:
        known = self._decided.get(id(entry))
        if known is not None:
            # The entry is kept beside the verdict, so its id cannot be taken by another one meanwhile.
            return known[1] and _in_time(entry, now)
        if not entry.is_live(now):
            return False
        mine = entry.strikes(now, self.draw)
        self._decided[id(entry)] = (entry, mine)
        return mine


def _in_time(entry: Armed, now: float) -> bool:
    fault = entry.fault
    return fault.for_seconds is None or now < entry.armed_at + fault.after_seconds + fault.for_seconds


def _is_due(fault: Fault, point: Point, segment: int | None, prompt: str) -> bool:
    if isinstance(fault, Flaky):
        # Its plan for the session has been drawn, and is among the session's own faults.
        return False
    if isinstance(fault, Poison) and fault.text not in prompt:
        return False
    at = fault.at
    if at is Point.NOW:
        return point in (Point.OPEN, Point.SEND, Point.NOW)
    wanted = fault.segment if isinstance(fault, PointFault) else None
    return at is point and (wanted is None or wanted == segment)
