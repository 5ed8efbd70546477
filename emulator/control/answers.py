"""PURE. What the control API says: its answers, as the client reads them too."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from emulator.events import Event

StateName = Literal["running", "paused", "killed", "stopped"]


class ScalingStatus(msgspec.Struct, frozen=True):
    """A replica that scales to zero."""

    idle_seconds: float
    """Without a request or a session for so long, it sleeps."""
    wake_seconds: float
    """From what wakes it until it is warm."""
    power: Literal["asleep", "waking", "awake"]
    """What there is behind its port."""
    wakes: int
    """Times that it was woken; over kills and restarts."""
    billed_seconds: float
    """That it was awake or waking: what it would have cost."""


class ReplicaStatus(msgspec.Struct, frozen=True):
    """A replica as it is now."""

    name: str
    url: str
    """What goes into a gateway's settings."""
    state: StateName
    """What its process does."""
    warming: bool
    """No worker is ready."""
    refusing: bool
    """It runs, and its port is closed."""
    pid: int | None
    """The process that it lives in; null while it is dead."""
    capacity: int
    """Sessions that it takes at a time."""
    sessions: int
    """Open now."""
    sessions_total: int
    """Upgrade requests ever; over kills and restarts."""
    connections_total: int
    """TCP connections ever."""
    health_total: int
    """Requests on health routes ever."""
    scale_to_zero: ScalingStatus | None
    """How it sleeps; null for one that never does."""
    faults: dict[str, dict[str, Any]]
    """Those that stand, by name: their fields, `struck` (opportunities taken) and `live` (in its time)."""

    @property
    def ws_url(self) -> str:
        """Where a session is opened."""
        return self.url.replace("http", "ws", 1) + "/v1/stream"


class OpenSession(msgspec.Struct, frozen=True):
    """A session that is open now."""

    replica: str
    session: int
    """The replica's own count, as in the events."""
    opened_at: float
    """Seconds since the epoch."""
    path: str
    """As the client or the gateway asked for it, with its query."""
    received: int
    """Messages from the client so far."""
    sent: int
    """Messages to the client so far, media included."""
    sent_bytes: int
    """Of media and text, without frames."""
    segments: int
    """Segments that were begun."""


class FarmStatus(msgspec.Struct, frozen=True):
    """Everything at a glance."""

    replicas: list[ReplicaStatus]
    sessions: list[OpenSession]
    """Open now, on all replicas, the oldest first."""
    last_event: int
    """Number of the newest event: ask for what comes `after` it."""
    waiting: int
    """Requests that wait for an event now."""


class EventPage(msgspec.Struct, frozen=True):
    """Some events, oldest first."""

    events: list[Event]
    last: int
    """Ask for what comes `after` this."""
    dropped: int
    """Events that the log has let go since the start; their numbers are the lowest."""


class FieldDescription(msgspec.Struct, frozen=True):
    """A field of a fault."""

    type: str
    """What its value is: a number, a text and so on; of some there is a choice."""
    default: Any
    means: str
    choices: list[Any] | None = None
    """All that it may be; null where there is no such list."""


class FaultDescription(msgspec.Struct, frozen=True):
    """A fault that can be armed."""

    does: str
    fields: dict[str, FieldDescription]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was not followed."""

    status: int
    """The HTTP status."""
    error: str
    """For programs: unknown_replica, unknown_fault, bad_body, bad_query, wrong_state, name_taken, port_busy,
    too_many_waiting, forbidden, not_found, method_not_allowed or internal_error."""
    detail: str
    """For people: what was wrong, and what would be right."""
