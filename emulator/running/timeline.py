"""PURE. When what a scenario has planned is due: at a time, at an event, or some time after one.

Whoever sees something happen tells it, with the time; back comes what is due at once. What is due later is
asked for by the time. An entry is due once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from emulator.faults.fault import Point
from emulator.scenario import ClientWhen, ReplicaWhen, StatusWhen, When, matching

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AtReplica:
    """Something happened at a replica that is not a point of its sessions' way."""

    replica: str
    event: str
    session: int | None = None


@dataclass(frozen=True, slots=True)
class AtClient:
    """Something happened to a driven session."""

    session: str
    event: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class AtStatus:
    """What the gateway says of each replica, by name."""

    statuses: Mapping[str, str]


Happening = AtReplica | AtClient | AtStatus


@dataclass(frozen=True, slots=True)
class Planned(Generic[KeyT]):
    """One entry: due at a time or at an event."""

    key: KeyT
    at: float | None
    when: When | None


@dataclass(slots=True)
class Timeline(Generic[KeyT]):
    """The entries that are not due yet."""

    _planned: list[Planned[KeyT]]
    _counts: dict[tuple[KeyT, str], int] = field(default_factory=dict)
    _due_at: dict[KeyT, float] = field(default_factory=dict)
    _causes: dict[KeyT, AtReplica | AtClient] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Iterable[Planned[KeyT]]) -> Timeline[KeyT]:
        """Nothing has happened yet."""
        return cls(list(planned))

    @property
    def waiting(self) -> list[Planned[KeyT]]:
        """What is still to come, in the order of the plan."""
        return list(self._planned)

    @property
    def wants_status(self) -> bool:
        """Whether an entry waits for what the gateway says."""
        return any(
            isinstance(entry.when, StatusWhen) and entry.key not in self._due_at for entry in self._planned
        )

    def is_timed(self, key: KeyT) -> bool:
        """Whether the entry will come by the time alone."""
        return any(entry.key == key and self._time_of(entry) is not None for entry in self._planned)

    def due(self, now: float) -> list[KeyT]:
        """What is due by the time, earliest first and else in the order of the plan; it is told once."""
        found = [entry for entry in self._planned if (at := self._time_of(entry)) is not None and at <= now]
        found.sort(key=lambda entry: self._time_of(entry) or 0.0)
        for entry in found:
            self._planned.remove(entry)
        return [entry.key for entry in found]

    def next_at(self) -> float | None:
        """When the next entry is due by the time alone."""
        times = (self._time_of(entry) for entry in self._planned)
        return min((at for at in times if at is not None), default=None)

    def notice(self, happening: Happening, now: float) -> list[KeyT]:
        """What is due because of this, at once."""
        for entry in list(self._planned):
            if entry.when is not None and entry.key not in self._due_at and self._is_it(entry, happening):
                self._due_at[entry.key] = now + entry.when.after
                if not isinstance(happening, AtStatus):
                    self._causes[entry.key] = happening
        return self.due(now)

    def reach(self, key: KeyT, place: AtReplica, now: float) -> list[KeyT]:
        """A replica stands still at the point for which the entry `key` waits; what is due at once."""
        for entry in self._planned:
            if entry.key == key and entry.when is not None and key not in self._due_at:
                self._due_at[key] = now + entry.when.after
                self._causes[key] = place
        return self.due(now)

    def cause_of(self, key: KeyT) -> AtReplica | AtClient | None:
        """What made the entry due; None for a time and for what the gateway says."""
        return self._causes.get(key)

    def _time_of(self, entry: Planned[KeyT]) -> float | None:
        return entry.at if entry.at is not None else self._due_at.get(entry.key)

    def _is_it(self, entry: Planned[KeyT], happening: Happening) -> bool:
        match entry.when, happening:
            case ReplicaWhen() as when, AtReplica(replica=replica, event=event, session=session):
                fits = when.event == event and when.session in (None, session)
                return fits and bool(matching([when.replica], [replica])) and self._counted(entry, replica)
            case ClientWhen() as when, AtClient(session=name, event=event, type=kind):
                fits = (when.session, when.event) == (name, event) and when.type in (None, kind)
                return fits and self._counted(entry, name)
            case StatusWhen() as when, AtStatus(statuses=statuses):
                return says(statuses, when.status)
            case _:
                return False

    def _counted(self, entry: Planned[KeyT], place: str) -> bool:
        """Whether this time is the n-th there."""
        count = self._counts[entry.key, place] = self._counts.get((entry.key, place), 0) + 1
        return isinstance(entry.when, ReplicaWhen | ClientWhen) and count == entry.when.n


def says(statuses: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether the gateway says of all replicas what is wanted; a pattern fits one at least."""
    for pattern, status in wanted.items():
        names = matching([pattern], statuses)
        if not names or any(statuses[name] != status for name in names):
            return False
    return True


def point_of(when: When | None) -> Point | None:
    """The point of a session's way at which the replica has to stand still for this; None for what is
    seen in passing."""
    if isinstance(when, ReplicaWhen) and when.event in POINTS:
        return Point(when.event)
    return None


POINTS = ("upgrade", "open", "init", "segment_start", "segment", "segment_end", "snapshot")
LOGGED: Mapping[str, str] = {
    "session_opened": "session_opened",
    "session_rejected": "session_rejected",
    "session_closed": "session_closed",
    "message_received": "message_received",
    "close_received": "close_received",
    "http_answered": "health",
    "woken": "woken",
    "fell_asleep": "fell_asleep",
}
"""Events of a replica that are seen in passing, by their kind in the event log."""
