"""`/status`: what the gateway knows of its replicas. `/router/replicas/sessions`: the same for monitor
pages."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal, Protocol

import msgspec
from litestar import Controller, route
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from gateway.fleet.counts import waiting_in
from gateway.fleet.member import number_in
from gateway.fleet.membership import FleetStatus
from gateway.fleet.surplus import MOVABLE
from gateway.fleet.view import LOAD
from gateway.replicas.model import Candidate, Replica
from gateway.replicas.registry import ReplicaRegistry
from gateway.routes.health import ASKED_WITH, NOT_CACHED, Readiness
from gateway.settings import Settings

VERSION = version("streamhold")


class ReplicaReport(msgspec.Struct, frozen=True):
    """One replica."""

    url: str
    primary: bool
    status: Literal["unknown", "healthy", "unhealthy"]
    last_ok_at: float | None
    """Seconds since the epoch."""
    last_latency_ms: float | None
    consecutive_failures: int
    name: str
    draining: bool
    """Takes no new session, as somebody asked or discovery says."""
    removed: bool
    """No longer configured; goes when its last session ends."""
    active_sessions: int
    """Sessions open on it through this gateway."""
    pending_sessions: int
    """Sessions whose handshake with it has not finished."""
    elsewhere_sessions: int
    """Sessions open on it through the other gateways of the fleet, as they said last."""
    reserved: int
    """Free places on it that are left to clients who wait at other gateways."""
    max_sessions: int | None
    """Its own limit, for the sessions of all gateways; null is none."""
    weight: float
    refusing: bool
    """Said moments ago that it has no room, and counts as full."""
    ejected: bool
    """Lost too many sessions in a row; gets new ones only where no other replica is usable."""
    ramp: float
    """Share of its weight that counts while it starts slowly; 1 when it is done."""
    cold_start: bool
    """Sleeps while nobody needs it."""
    sleeping: bool
    """Does so now: it is not probed, so that its status is unknown, and is woken by the session that needs
    it.
    """


class FleetMemberReport(msgspec.Struct, frozen=True):
    """One member of the gateways' fleet, as the store had it."""

    id: str
    state: Literal["starting", "serving", "draining"]
    since: float
    """When it joined: seconds since the epoch, by the store's clock, as `at`."""
    load: float | None
    """Its sessions, as it said last; null where it does not say."""
    waiting: int
    """Its clients that waited for a place then."""
    movable: float | None
    """Its sessions that it could hand back; null where it hands none back (`fleet.shed`)."""


class FleetReport(msgspec.Struct, frozen=True):
    """The gateways' fleet, as this gateway saw it last."""

    name: str
    member: str
    """Which of the members this gateway is."""
    at: float
    """When the view was read: seconds since the epoch, by the store's clock."""
    age_seconds: float
    """How old the view is by now, by this gateway's own clock."""
    hash: str
    """The same for gateways that see the same members in the same states."""
    failing: str | None
    """Why the last beat was not answered; null where it was."""
    failed_beats: int
    """Beats in a row without an answer."""
    id_shared: bool
    """A second live process beats under the same id."""
    share: int
    """The sessions that this gateway takes: its part of `admission.max_sessions`."""
    members: list[FleetMemberReport]
    """In the order of their ids."""


class GatewayReport(msgspec.Struct, frozen=True):
    """The gateway and its replicas."""

    version: str
    draining: bool
    """The gateway takes no new session."""
    sessions: int
    """Sessions on replicas, pending ones included."""
    replicas: list[ReplicaReport]
    fleet: FleetReport | None
    """null where this gateway is in no fleet, or has not joined it yet."""


class Fleet(Protocol):
    """The gateway's part in a fleet."""

    def status(self) -> FleetStatus | None:
        """What was seen last; None before it has joined."""
        ...

    @property
    def share(self) -> int:
        """Its part of the sessions that there may be."""
        ...


class ReplicaSessions(msgspec.Struct, frozen=True):
    """One replica's sessions; every count is 0 or more."""

    url: str
    healthy: bool
    active_sessions: int
    pending_sessions: int
    max_available_sessions: int


class SessionsReport(msgspec.Struct, frozen=True):
    """The sessions of every replica."""

    replicas: list[ReplicaSessions]


def _report(replica: Replica, now: Candidate) -> ReplicaReport:
    health = replica.health
    return ReplicaReport(
        url=replica.url,
        primary=replica.primary,
        status=health.status.value,
        last_ok_at=health.last_ok_at,
        last_latency_ms=health.last_latency_ms,
        consecutive_failures=health.consecutive_failures,
        name=replica.name,
        draining=replica.leaving,
        removed=replica.removed,
        active_sessions=replica.sessions - replica.pending,
        pending_sessions=replica.pending,
        elsewhere_sessions=replica.elsewhere.sessions,
        reserved=replica.elsewhere.reserved,
        max_sessions=replica.endpoint.max_sessions,
        weight=replica.endpoint.weight,
        refusing=now.refusing,
        ejected=now.ejected,
        ramp=round(now.ramp, 3),
        cold_start=replica.endpoint.cold_start,
        sleeping=replica.sleeping,
    )


def _fleet_report(fleet: Fleet | None) -> FleetReport | None:
    seen = fleet.status() if fleet is not None else None
    if fleet is None or seen is None:
        return None
    view = seen.sighting.view
    return FleetReport(
        name=seen.fleet,
        member=seen.member_id,
        at=view.at.timestamp(),
        age_seconds=round(seen.age_seconds, 3),
        hash=seen.hash,
        failing=seen.failing,
        failed_beats=seen.failed_beats,
        id_shared=seen.id_shared,
        share=fleet.share,
        members=[
            FleetMemberReport(
                id=member.id,
                state=member.state.value,
                since=member.since.timestamp(),
                load=number_in(member.report, LOAD),
                waiting=waiting_in(member.report),
                movable=number_in(member.report, MOVABLE),
            )
            for member in view.members
        ],
    )


class StatusController(Controller):
    """Asked by people, dashboards and monitor pages."""

    tags = ("status",)

    @route("/status", http_method=ASKED_WITH, cache_control=NOT_CACHED)
    async def status(
        self,
        registry: NamedDependency[SkipValidation[ReplicaRegistry]],
        readiness: NamedDependency[SkipValidation[Readiness]],
        fleet: NamedDependency[SkipValidation[Fleet | None]],
    ) -> GatewayReport:
        """Every replica in order, unknown ones included, and the gateways' fleet; always 200."""
        replicas = registry.all()
        return GatewayReport(
            version=VERSION,
            draining=readiness.draining,
            sessions=sum(replica.sessions for replica in replicas),
            replicas=[_report(replica, registry.snapshot(replica)) for replica in replicas],
            fleet=_fleet_report(fleet),
        )

    @route("/router/replicas/sessions", http_method=ASKED_WITH, cache_control=NOT_CACHED)
    async def replica_sessions(
        self,
        registry: NamedDependency[SkipValidation[ReplicaRegistry]],
        settings: NamedDependency[SkipValidation[Settings]],
    ) -> SessionsReport:
        """Session counts a replica. One without a limit of its own shows the gateway's,
        `admission.max_sessions`."""
        unlimited = settings.admission.max_sessions
        return SessionsReport(
            replicas=[
                ReplicaSessions(
                    url=replica.url,
                    healthy=replica.is_healthy,
                    active_sessions=replica.sessions - replica.pending,
                    pending_sessions=replica.pending,
                    max_available_sessions=replica.endpoint.max_sessions or unlimited,
                )
                for replica in registry.all()
            ]
        )
