"""`/healthz`: the gateway's own life. `/readyz`: whether it should be given sessions, and if not, why."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec
from litestar import Controller, HttpMethod, Response, route
from litestar.datastructures import CacheControlHeader
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter, SkipValidation
from litestar.status_codes import HTTP_503_SERVICE_UNAVAILABLE

from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.registry import ReplicaRegistry

NOT_CACHED = CacheControlHeader(no_store=True)
ASKED_WITH = (HttpMethod.GET, HttpMethod.HEAD)
"""Some balancers and uptime checks ask with HEAD. The server leaves the body out then."""

Reason = Literal[
    "draining",
    "monitor_not_running",
    "first_probe_round",
    "joining_fleet",
    "no_replica_known",
    "no_healthy_replica",
]


class Readiness(Protocol):
    """What the sessions' side says of taking new ones."""

    @property
    def draining(self) -> bool:
        """No new session is admitted any more."""
        ...


class Joining(Protocol):
    """The gateway's part in a fleet, as far as readiness goes."""

    @property
    def joining(self) -> bool:
        """The fleet does not know yet that this gateway serves."""
        ...


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(msgspec.Struct, frozen=True):
    """Sessions may be sent here."""

    status: Literal["ready"] = "ready"


class NotReady(msgspec.Struct, frozen=True):
    """Sessions should go elsewhere for now."""

    reason: Reason
    message: str
    status: Literal["not_ready"] = "not_ready"


MESSAGES: dict[Reason, str] = {
    "draining": "this gateway is draining and takes no new session",
    "monitor_not_running": "the health loop is not running",
    "first_probe_round": "the replicas have not all been probed once yet",
    "joining_fleet": "the fleet does not know yet that this gateway serves",
    "no_replica_known": "discovery has listed no replica yet",
    "no_healthy_replica": "no replica is healthy and taking sessions",
}


def own_fault(monitor: HealthMonitor, *, draining: bool, joining: bool = False) -> Reason | None:
    """What about the gateway itself keeps it from taking sessions, whatever its replicas do."""
    if draining:
        return "draining"
    if not monitor.running:
        return "monitor_not_running"
    if not monitor.first_round_done.is_set():
        return "first_probe_round"
    return "joining_fleet" if joining else None


def replicas_fault(registry: ReplicaRegistry) -> Reason | None:
    """What about the replicas keeps it. Full ones are ready: sessions wait for them, or are told so in band.
    Sleeping ones are, too: a session wakes them, and nothing else would."""
    candidates = registry.candidates()
    if not candidates:
        return "no_replica_known"
    ready = any(candidate.usable for candidate in candidates)
    return None if ready else "no_healthy_replica"


class HealthController(Controller):
    """Asked by load balancers and orchestrators."""

    tags = ("health",)

    @route("/healthz", http_method=ASKED_WITH, cache_control=NOT_CACHED)
    async def healthz(self) -> Alive:
        """200 for as long as the event loop turns; looks at nothing else."""
        return Alive()

    @route(
        "/readyz",
        http_method=ASKED_WITH,
        cache_control=NOT_CACHED,
        responses={HTTP_503_SERVICE_UNAVAILABLE: ResponseSpec(NotReady, generate_examples=False)},
    )
    async def readyz(
        self,
        registry: NamedDependency[SkipValidation[ReplicaRegistry]],
        monitor: NamedDependency[SkipValidation[HealthMonitor]],
        readiness: NamedDependency[SkipValidation[Readiness]],
        fleet: NamedDependency[SkipValidation[Joining | None]],
        own: Annotated[
            bool,
            QueryParameter(description="Look only at the gateway's own faults, not at its replicas."),
        ] = False,
    ) -> Response[Ready | NotReady]:
        """200 when sessions may be sent here; 503 with the reason otherwise.

        With `own=1` an outage of the replicas is no fault: ask this where a failed check replaces the
        gateway, which would not bring them back.
        """
        joining = fleet is not None and fleet.joining
        reason = own_fault(monitor, draining=readiness.draining, joining=joining)
        if reason is None and not own:
            reason = replicas_fault(registry)
        if reason is None:
            return Response(Ready())
        return Response(NotReady(reason, MESSAGES[reason]), status_code=HTTP_503_SERVICE_UNAVAILABLE)
