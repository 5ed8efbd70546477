"""PURE. What somebody knows who sees one view of a fleet after another.

A single view tells who joined lately, by `since`, but not who is missing. So beside the view's own rule:

1. A member that was in the last view and is not in this one unsettles the fleet: its work is about to arrive
   somewhere. The same goes for one that came back as a new member between two views.
2. A store whose clock went back unsettles the fleet: no `since` of before can be compared.
3. A view that is older than a beat should take to bring the next is kept, but nothing is moved by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway.fleet.view import FleetView


@dataclass(frozen=True, slots=True)
class Sighting:
    """The newest view, when it was seen, and what the views before it say of it."""

    view: FleetView
    """The newest view: kept, and aged, while no newer one comes."""
    seen_at_seconds: float
    """When it came, by its reader's own steady clock."""
    unsettled_at: datetime | None = None
    """The store's clock in the last view that missed somebody; None where none has."""

    def next(self, view: FleetView, seen_at_seconds: float) -> Sighting:
        """What is known once `view` has followed this one."""
        before, after = _identities(self.view), _identities(view)
        unsettled = bool(before - after) or view.at < self.view.at
        return Sighting(view, seen_at_seconds, view.at if unsettled else self.unsettled_at)

    def age_seconds(self, now_seconds: float) -> float:
        """How old the view is, by its reader's steady clock."""
        return max(0.0, now_seconds - self.seen_at_seconds)

    def settled(self, settle: timedelta) -> bool:
        """Whether for `settle` nobody has joined the serving members, and nobody has been missed."""
        quiet = self.unsettled_at is None or self.view.at - self.unsettled_at >= settle
        return quiet and self.view.settled(settle)

    def excess(
        self,
        me: str,
        tolerance: float,
        settle: timedelta,
        movable: str | None = None,
        smallest: int = 1,
        *,
        now_seconds: float,
        fresh_seconds: float,
    ) -> int:
        """The view's `excess`; 0 also until this is settled, and for a view older than `fresh_seconds`."""
        if self.age_seconds(now_seconds) > fresh_seconds or not self.settled(settle):
            return 0
        return self.view.excess(me, tolerance, settle, movable, smallest)


def _identities(view: FleetView) -> frozenset[tuple[str, datetime]]:
    return frozenset((member.id, member.since) for member in view.members)
