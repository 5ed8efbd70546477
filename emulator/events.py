"""PURE. The event log: what each replica saw and did, in a ring of bounded size."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_CAPACITY = 10_000
DEFAULT_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a replica."""

    seq: int
    """Counts from 1, over all replicas."""
    at: float
    """Seconds since the epoch."""
    replica: str
    kind: str
    """Past tense, as in the table KINDS."""
    connection: int | None = None
    """The replica's own count of TCP connections, from 1."""
    session: int | None = None
    """The replica's own count of upgrade requests, from 1."""
    detail: Mapping[str, Any] = field(default_factory=dict)


KINDS: Mapping[str, str] = {
    "state_changed": "the replica's state: running, paused, killed, stopped",
    "port_opened": "the port takes connections",
    "port_closed": "connects are refused",
    "port_filled": "connects hang: the backlog is full",
    "fault_armed": "a fault stands, with its fields",
    "fault_lifted": "a fault stands no longer",
    "point_reached": "a session is where somebody waits for it, and the replica stands still, with the point",
    "fault_struck": "a fault took its turn, with its name",
    "connection_opened": "a TCP connection, with the peer's address",
    "connection_closed": "a TCP connection ended",
    "http_answered": "a plain request, with method, path and status (null when nothing was answered)",
    "upgrade_received": "method, path, query and headers as they came, subprotocols offered",
    "upgrade_answered": "the status and the subprotocol",
    "session_opened": "the session has a place",
    "session_rejected": "all places were taken",
    "message_received": "a text message, with type and size_bytes; an opening one with its client_id",
    "binary_received": "a binary message, with size_bytes",
    "message_sent": "a text message, with type and size_bytes",
    "binary_sent": "a binary message, with size_bytes",
    "close_received": "the client's close frame, with code and reason",
    "close_sent": "our close frame, with code and reason",
    "session_closed": "the session is over, with code (null without a close frame)",
    "woken": "it slept, and this connection has woken it",
    "warmed": "it is awake, and answers whoever has waited",
    "fell_asleep": "it scales to zero and nobody used it, with awake_seconds",
    "listed": "its instance stands in Cloud Map, with id and health (healthy, unhealthy)",
    "unlisted": "its instance stands there no longer, with id",
}
"""Every kind, with what its detail says."""

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events somebody asks for; what is left out takes all."""

    replica: str | None = None
    """Only this replica's."""
    kinds: frozenset[str] = frozenset()
    """Only of these kinds."""
    session: int | None = None
    """Only of the session with this number, as its replica counts them."""

    def takes(self, event: Event) -> bool:
        """Whether `event` is one of them."""
        return (
            (self.replica is None or event.replica == self.replica)
            and (not self.kinds or event.kind in self.kinds)
            and (self.session is None or event.session == self.session)
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Some events, oldest first."""

    events: tuple[Event, ...]
    last: int
    """Ask for what comes `after` this."""
    dropped: int
    """How many events the ring has let go since the start; their numbers are the lowest."""


class EventLog:
    """A ring of the newest events. `record` numbers them and tells the listeners, synchronously."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError("the event log needs room for one event at least")
        self._events: deque[Event] = deque(maxlen=capacity)
        self._listeners: list[Listener] = []
        self._last = 0

    @property
    def last(self) -> int:
        """The newest event's number; 0 before the first."""
        return self._last

    @property
    def dropped(self) -> int:
        """Events that the ring has let go."""
        return self._last - len(self._events)

    def record(
        self,
        replica: str,
        kind: str,
        *,
        at: float,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Event:
        """The event is in the ring, with the next number."""
        self._last += 1
        event = Event(self._last, at, replica, kind, connection, session, detail or {})
        self._events.append(event)
        for listener in tuple(self._listeners):
            listener(event)
        return event

    def page(
        self,
        after: int = 0,
        *,
        replica: str | None = None,
        kinds: Iterable[str] = (),
        session: int | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> Page:
        """The oldest `limit` events with a number above `after`, among those wanted."""
        wanted = Wanted(replica, frozenset(kinds), session)
        found: list[Event] = []
        last = max(after, self._last)
        # The ring holds every number from `dropped` + 1 on, in order.
        for event in itertools.islice(self._events, max(0, after - self.dropped), None):
            if not wanted.takes(event):
                continue
            if len(found) == limit:
                last = found[-1].seq if found else after
                break
            found.append(event)
        return Page(tuple(found), last, self.dropped)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """`listener` hears every event from now on; call the result to end that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe
