"""PURE. Which fault strikes when: the faults armed on one replica, and a session's meeting with them.

A fault is armed under its name; arming it again replaces it. Whether it takes an opportunity is decided
here, from the time and a random draw that come in as arguments.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from emulator.faults import CorruptMedia, Flaky, Poison
from emulator.faults.fault import Draw, Fault, Point, PointFault, SessionFault


@dataclass(slots=True, eq=False)
class Armed:
    """A fault on a replica. Two are the same only where they are one and the same arming."""

    fault: Fault
    armed_at: float
    """Monotonic seconds."""
    struck: int = 0
    """Opportunities taken so far."""
    origin: Armed | None = None
    """What it came of, for one that was drawn for a session or request; it stands no longer than that."""

    @property
    def begins_at(self) -> float:
        """From then on it is live."""
        return self.armed_at + self.fault.after_seconds

    @property
    def ends_at(self) -> float | None:
        """From then on it is not; None for never."""
        return None if self.fault.for_seconds is None else self.begins_at + self.fault.for_seconds

    def is_in_time(self, now: float) -> bool:
        """Between its beginning and its end."""
        return self.begins_at <= now and (self.ends_at is None or now < self.ends_at)

    def is_live(self, now: float) -> bool:
        """In its time, not used up, and not between two turns."""
        used_up = self.fault.times is not None and self.struck >= self.fault.times
        return self.is_in_time(now) and not used_up and self.fault.is_on(now - self.begins_at)

    def changes_after(self, now: float) -> Iterator[float]:
        """Moments after `now` at which it becomes live or stops being so, the next one among them."""
        for moment in (self.begins_at, self.ends_at):
            if moment is not None and moment > now:
                yield moment
        if self.is_in_time(now) and (turn := self.fault.next_turn(now - self.begins_at)) is not None:
            # However it is rounded, it is ahead.
            yield max(self.begins_at + turn, math.nextafter(now, math.inf))

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

    def live_at(self, point: Point, now: float) -> tuple[Fault, ...]:
        """The live faults that strike at this point, in the order of arming; nothing is counted."""
        return tuple(e.fault for e in self.armed.values() if e.fault.at is point and e.is_live(now))

    def stands(self, entry: Armed, now: float) -> bool:
        """Whether it has been neither lifted nor replaced, and its time is not over."""
        on_board = entry.origin or entry
        return self.armed.get(on_board.fault.name) is on_board and (
            entry.is_in_time(now) and on_board.is_in_time(now)
        )

    def next_change(self, now: float) -> float | None:
        """The next moment at which a fault becomes live or stops being so by the clock alone."""
        return min((at for entry in self.armed.values() for at in entry.changes_after(now)), default=None)

    def strike(self, point: Point, now: float, draw: Draw, asked: set[Armed]) -> tuple[Armed, ...]:
        """The faults that strike this connection or health request, counted. Those that were `asked` before
        are not asked again; the others are among them now."""
        fresh = [e for e in self.armed.values() if e.fault.at is point and e not in asked]
        asked.update(fresh)
        return tuple(entry for entry in fresh if entry.strikes(now, draw))


@dataclass(slots=True)
class Encounter:
    """One session's meeting with the faults: each armed fault decides once whether this session is its
    own."""

    board: Board
    draw: Draw
    number: int = 1
    """The session's, as the replica counts upgrade requests."""
    own: tuple[Armed, ...] = ()
    """Faults of this session alone, drawn for it when it began."""
    _decided: dict[Armed, bool] = field(default_factory=dict)
    _spent: set[Armed] = field(default_factory=set)
    """Those for `now` that have had their moment."""

    def strike(
        self, point: Point, now: float, segment: int | None = None, prompt: str = ""
    ) -> tuple[Armed, ...]:
        """The faults that strike at `point`, in the order of arming; `segment` is the number of the running
        one, `prompt` that of one that starts."""
        return tuple(self._strike(point, now, segment, prompt, ()))

    def next_strike(
        self,
        point: Point,
        now: float,
        segment: int | None = None,
        prompt: str = "",
        *,
        met: Collection[Armed],
    ) -> Armed | None:
        """The first of them that has not been `met` here before; those behind it are not asked yet, since it
        may leave them nobody to strike."""
        return next(self._strike(point, now, segment, prompt, met), None)

    def _strike(
        self, point: Point, now: float, segment: int | None, prompt: str, met: Collection[Armed]
    ) -> Iterator[Armed]:
        for entry in (*self.own, *self.board.armed.values()):
            if (
                entry not in met
                and self._is_due(entry, point, segment, prompt)
                and self._is_mine(entry, now)
                and self._has_its_moment(entry)
            ):
                yield entry

    def _is_due(self, entry: Armed, point: Point, segment: int | None, prompt: str) -> bool:
        fault = entry.fault
        match fault:
            case Flaky():
                # Its plan for the session has been drawn, and is among the session's own faults.
                return False
            case Poison(text=text) if text not in prompt:
                return False
            case SessionFault(session=number) if number is not None and number != self.number:
                return False
            case PointFault(segment=wanted) | CorruptMedia(segment=wanted):
                if wanted is not None and wanted != segment:
                    return False
            case _:
                pass
        if fault.at is Point.NOW:
            return point in (Point.OPEN, Point.SEND, Point.NOW)
        return fault.at is point

    def _is_mine(self, entry: Armed, now: float) -> bool:
        if entry.origin is not None:
            return self.board.stands(entry, now)
        known = self._decided.get(entry)
        if known is None and entry.is_live(now):
            known = self._decided[entry] = entry.strikes(now, self.draw)
        return bool(known) and entry.is_in_time(now)

    def _has_its_moment(self, entry: Armed) -> bool:
        """Once in a session, for those that strike wherever it is."""
        if entry.fault.at is not Point.NOW:
            return True
        if entry in self._spent:
            return False
        self._spent.add(entry)
        return True
