"""PURE. What the gateway knows of a replica, live and at one moment."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.outlier import OutlierRecord


class ReplicaStatus(enum.Enum):
    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """What the evidence so far says of a replica. Times are seconds since the epoch."""

    status: ReplicaStatus = ReplicaStatus.UNKNOWN
    last_ok_at: float | None = None
    last_failure_at: float | None = None
    consecutive_failures: int = 0
    consecutive_successes: int = 0
    last_latency_ms: float | None = None
    """How long the last successful probe took."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the other gateways of a fleet have and want of a replica, as they said last."""

    sessions: int = 0
    """Their sessions there."""
    reserved: int = 0
    """Free places that are left to them: their clients wait for one."""

    @property
    def places(self) -> int:
        """What is not to be had here."""
        return self.sessions + self.reserved


NOWHERE = Elsewhere()
"""What holds without a fleet."""


@dataclass(slots=True)
class Replica:
    """A live view of one replica. Only the registry changes it, and it replaces `health` as a whole."""

    endpoint: ReplicaEndpoint
    health: ReplicaHealth = field(default_factory=ReplicaHealth)
    draining: bool = False
    """Set by people: takes no new session."""
    withheld: bool = False
    """Set by discovery: it is starting or on its way out, and takes no new session."""
    removed: bool = False
    """No longer configured or discovered: takes no new session, and goes when its last lease ends."""
    sessions: int = 0
    """Leases open, those still pending included."""
    pending: int = 0
    """Leases whose upstream handshake has not finished."""
    refusing_until: float | None = None
    """Counts as full until then: seconds of the registry's monotonic clock, as the next two."""
    serving_since: float | None = None
    """When it joined or came back, which is when its slow start began; None when it never had one."""
    outlier: OutlierRecord = field(default_factory=OutlierRecord)
    """The sessions that it lost, and until when it is ejected for them."""
    ejected: bool = False
    """Whether it was, when the registry last looked; a snapshot is exact."""
    sleeping: bool = False
    """It is left in peace until a session needs it: not probed, and taken to be usable."""
    idle_since: float | None = None
    """Without a session, of any gateway, since then; None while it has some."""
    elsewhere: Elsewhere = NOWHERE
    """What other gateways have and want of it."""

    @property
    def url(self) -> str:
        return self.endpoint.url

    @property
    def name(self) -> str:
        return self.endpoint.display_name

    @property
    def primary(self) -> bool:
        return self.endpoint.primary

    @property
    def is_healthy(self) -> bool:
        return self.health.status is ReplicaStatus.HEALTHY

    @property
    def leaving(self) -> bool:
        """Takes no new session, by the word of people or of discovery."""
        return self.draining or self.withheld

    @property
    def has_room(self) -> bool:
        """Below its own session limit, by the sessions of all gateways."""
        return has_place(self.endpoint.max_sessions, self.sessions, self.elsewhere)

    @property
    def takes_sessions(self) -> bool:
        """A new session may be placed here now."""
        usable = self.is_healthy or self.sleeping
        return usable and self.has_room and not (self.leaving or self.removed)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica at one moment, as selection sees it."""

    url: str
    name: str
    primary: bool
    weight: float
    healthy: bool
    draining: bool
    sessions: int
    max_sessions: int | None
    refusing: bool = False
    """It refused a session moments ago for want of room, and counts as full until the moment has passed."""
    ejected: bool = False
    """It lost too many sessions in a row: used only where nothing else is usable."""
    ramp: float = 1.0
    """Share of its weight that it gets while it starts slowly: above 0, and 1 when it is done."""
    sleeping: bool = False
    """It has to be woken first: used only where none that is awake has room."""
    elsewhere: Elsewhere = NOWHERE
    """What other gateways have and want of it."""

    @property
    def all_sessions(self) -> int:
        """Those of all gateways."""
        return self.sessions + self.elsewhere.sessions

    @property
    def usable(self) -> bool:
        """Sessions may be placed here, now or once there is room."""
        return (self.healthy or self.sleeping) and not self.draining

    @property
    def waking(self) -> bool:
        """It sleeps, and somebody who needs it is waking it."""
        return self.sleeping and self.all_sessions > 0

    @property
    def has_room(self) -> bool:
        """Below its own limit, by the sessions of all gateways, and not refusing."""
        return not self.refusing and has_place(self.max_sessions, self.sessions, self.elsewhere)


def has_place(max_sessions: int | None, sessions: int, elsewhere: Elsewhere) -> bool:
    """Whether a replica with that limit has a place for one more of this gateway's `sessions`."""
    return max_sessions is None or sessions + elsewhere.places < max_sessions
