"""PURE. Points of a session's way at which the whole replica stands still until it is told to go on.

So whoever watches can act at that very point: nothing more is read or sent before. A watch fires once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.faults.fault import Point


@dataclass(slots=True)
class Watch:
    """One that has not fired yet."""

    key: int
    """Told when it fires. A key is used once."""
    point: Point
    session: int | None = None
    """The replica's own count of upgrade requests; None for any session."""
    n: int = 1
    """The how-manieth time, counted from the watch's beginning, over kills and restarts too."""
    seen: int = 0
    """Times so far."""


@dataclass(slots=True)
class Watches:
    """Of one replica."""

    waiting: dict[int, Watch] = field(default_factory=dict)
    """By key, in the order of setting."""
    fired: set[int] = field(default_factory=set)
    """Keys of those that wait no longer."""

    def set(self, watch: Watch) -> None:
        """It waits, unless it has fired."""
        if watch.key not in self.fired:
            self.waiting[watch.key] = watch

    def drop(self, key: int) -> None:
        """No watch of that key waits."""
        self.waiting.pop(key, None)

    def pass_by(self, point: Point, session: int) -> list[int]:
        """A session is at the point; the keys of the watches that fire, which wait no longer."""
        return list(self._fire(point, session))

    def _fire(self, point: Point, session: int) -> Iterator[int]:
        for watch in list(self.waiting.values()):
            if watch.point is point and watch.session in (None, session):
                watch.seen += 1
                if watch.seen == watch.n:
                    del self.waiting[watch.key]
                    self.fired.add(watch.key)
                    yield watch.key
