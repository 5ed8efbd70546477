"""What can be set: one frozen model a section of gateway.yaml, with its defaults.

A field's type and bounds are checked here, each field by itself. What a replica or a probe schedule may be
is said once, in `gateway.replicas.endpoint` and `gateway.replicas.config`, and what holds between fields in
`gateway.settings.settings`. The sections by which gateways and replicas find each other are in `meeting`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gateway.metrics.names import NAMESPACE, SERVICE_NAME
from gateway.replicas.config import HealthPolicy, JsonScalar, RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.outlier import OutlierPolicy
from gateway.runtime import ConfiguredMode
from gateway.settings.fields import (
    CloudWatchNamespace,
    CloudWatchValue,
    Count,
    Network,
    Number,
    Origin,
    Seconds,
    SecondsOrZero,
    Section,
    SessionPath,
    Share,
    Token,
    Whole,
    WholeOrZero,
    checked_affinity,
    checked_host,
    one_or_more_bodies,
    some_distinct,
)


class ReplicaSettings(Section):
    """One entry of `router.replicas`."""

    url: str
    """HTTP base URL, as in http://host:8000: scheme, host and port, nothing after them."""
    name: str | None = None
    """What logs, tables and messages call it; without one, host:port."""
    primary: bool = False
    """Gets sessions before the others while it is healthy and has room. At most one replica is primary."""
    weight: Number = 1.0
    """Its share beside the others' under a weighted policy."""
    max_sessions: Whole | None = None
    """Sessions that it takes at once; null is no limit. A server with one GPU takes one."""
    cold_start: bool = False
    """It sleeps while nobody needs it: it is not probed then, and woken by the session that needs it."""

    def endpoint(self) -> ReplicaEndpoint:
        """This entry as the registry takes it."""
        return ReplicaEndpoint(
            self.url, self.name, self.primary, self.weight, self.max_sessions, self.cold_start
        )


class ColdStartSettings(Section):
    """`router.cold_start`: replicas that sleep while nobody needs them."""

    connect_timeout_seconds: Seconds = 120.0
    """How long one may take to wake, until it has answered the upgrade; in place of
    `session.connect_timeout_seconds`.
    """
    idle_seconds: Seconds = 300.0
    """One that has had no session for this long is probed no more, and so may go back to sleep."""


class HealthCheckSettings(Section):
    """`router.health_check`: how replicas are probed, and what makes one healthy."""

    path: str = "/health"
    """Asked on each replica with GET. Prefer one that tells readiness, where the server has it."""
    interval_seconds: Number = 5.0
    """From one probe of a replica to the next."""
    timeout_seconds: Number = 2.0
    """A probe that has not been answered in full by then is a failure."""
    failure_threshold: Whole = 3
    """Failures in a row that make a replica unhealthy."""
    recovery_threshold: Whole = 2
    """Successes in a row that make an unhealthy replica healthy again."""
    jitter: Number = 0.1
    """Each wait is the interval, longer or shorter by up to this share of it, so that probes spread out."""
    expect_status: tuple[Whole, ...] = (200, 204)
    """HTTP statuses of a replica that can take a session. Redirects are not followed."""
    expect_body: Annotated[dict[str, tuple[object, ...]], BeforeValidator(one_or_more_bodies)] = Field(
        default={"status": ("ok", "ready")}
    )
    """Where the body is a JSON object with one of these keys, its value must be one of those listed. A
    compressed body is a failure; `{}` looks at no body.
    """
    unhealthy_interval_seconds: Number | None = None
    """The interval while a replica is unhealthy; null is the same interval."""


class RouterSettings(Section):
    """`router`: where the gateway listens, and the replicas behind it."""

    host: Annotated[str, AfterValidator(checked_host)] = "0.0.0.0"
    """Address that `python -m gateway serve` binds; under `granian` its own --host rules."""
    port: Annotated[Whole, Field(ge=0, le=65535)] = 9000
    """Port that `python -m gateway serve` binds; 0 takes a free one. Under `granian` its own --port rules."""
    replicas: tuple[ReplicaSettings, ...] = ()
    """The servers that sessions go to, in order of preference under the `priority` policy."""
    health_check: HealthCheckSettings = HealthCheckSettings()
    cold_start: ColdStartSettings = ColdStartSettings()

    def endpoints(self) -> list[ReplicaEndpoint]:
        """The replicas as the registry takes them, in the order of the file."""
        return [replica.endpoint() for replica in self.replicas]

    def config(self) -> RouterConfig:
        """This section as the public `RouterConfig`, which has no room for jitter and what is expected."""
        check = self.health_check
        return RouterConfig(
            self.host,
            self.port,
            self.endpoints(),
            check.path,
            check.interval_seconds,
            check.timeout_seconds,
            check.failure_threshold,
            check.recovery_threshold,
        )

    def health_policy(self) -> HealthPolicy:
        """How the monitor probes."""
        check = self.health_check
        bodies: dict[str, tuple[JsonScalar, ...]] = {
            key: tuple(item for item in listed if item is None or isinstance(item, str | int | float | bool))
            for key, listed in check.expect_body.items()
        }
        # The fields of the section are those of the policy, by the same names.
        return HealthPolicy(**{**dict(check), "expect_body": bodies})


class RuntimeSettings(Section):
    """`runtime`: what kind of process this is."""

    mode: ConfiguredMode = "auto"
    """`auto` looks at the host; a named mode wins over what the host looks like. `serverless` never
    starts.
    """


class SessionSettings(Section):
    """`session`: what one streaming session may do, and for how long."""

    paths: Annotated[tuple[SessionPath, ...], AfterValidator(some_distinct)] = (
        "/v1/stream",
        "/ws",
    )
    """WebSocket paths that are carried to a replica, which sees the same path."""
    protocol: Literal["streaming", "passthrough"] = "streaming"
    """`streaming` follows sessions that open with session_init_v2, and carries any other traffic as it is;
    `passthrough` looks at no message. Clients that wait are told so by `queue_status` under both, before
    their replica has spoken; `admission.queue_size: 0` avoids it.
    """
    connect_timeout_seconds: Seconds = 5.0
    """From the first packet to a replica until it has answered the upgrade; for each attempt."""
    connect_attempts: Count = 3
    """Replicas that are tried for one session, the first included."""
    idle_timeout_seconds: Seconds = 300.0
    """A session without a message in either direction for this long is ended."""
    ping_interval_seconds: Seconds = 20.0
    """A ping goes to each side that can take one after this much silence; below the idle timeout."""
    ping_timeout_seconds: Seconds = 10.0
    """A side that has not answered a ping by then is gone."""
    slow_consumer_timeout_seconds: Seconds = 60.0
    """A side that takes nothing for this long while data waits for it is cut off."""
    max_message_bytes: Count = 64 * 1024 * 1024
    """A larger message from either side ends the session with 1009."""
    resume: bool = True
    """A session whose replica is lost goes on at another one; only under `streaming`."""
    resume_attempts: Count = 3
    """Replicas that a session may lose in a row, without getting on in between, before it ends."""
    max_state_bytes: Count = 16 * 1024 * 1024
    """A larger continuation state is not kept, and its session does not go on elsewhere from then on."""
    snapshot_every: Count = 1
    """The state is asked for after each so many segments; those since then are made again when a replica is
    lost.
    """
    on_unhealthy: Literal["keep", "drain", "close"] = "keep"
    """A session whose replica turned unhealthy stays on it (`keep`), leaves it at the next moment that costs
    no work (`drain`), or leaves it now, and ends where it cannot move (`close`).
    """
    segment_stall_seconds: Seconds | None = None
    """A replica that sends nothing for this long inside a segment is lost; null waits for its pongs alone."""


class SelectionSettings(Section):
    """`selection`: which replica the next session gets."""

    policy: Literal["priority", "round_robin", "least_sessions", "weighted", "p2c", "rendezvous"] = "priority"
    """`priority` fills the primary, then the others in order; the other policies spread within a tier."""
    slow_start_seconds: SecondsOrZero = 0.0
    """A replica that joins or comes back gets its whole share only after this long; 0 is at once. Without
    effect under `priority` and for sessions with a key.
    """


class AffinitySettings(Section):
    """`affinity`: what keeps a client on one replica."""

    key: Annotated[str, AfterValidator(checked_affinity)] = "none"
    """Sessions with the same `client_ip`, `query:NAME`, `header:NAME`, `cookie:NAME` or `init:client_id` go
    to the same replica while it has room; `none` lets each go where the policy says.
    """


class OutlierSettings(Section):
    """`outlier`: when a replica that loses its sessions is left out for a while, although its probes pass."""

    consecutive_losses: Count = 5
    """Sessions lost in a row, by the replica's own fault, that eject it."""
    base_seconds: Seconds = 30.0
    """How long the first ejection lasts; each further one is that much longer."""
    max_seconds: Seconds = 300.0
    """How long any ejection lasts at most, and how long a replica has to hold out to start anew."""
    max_ejected_share: Share = 0.5
    """Of the usable replicas at most this share is ejected at once, rounded down; 0 ejects none."""

    def policy(self) -> OutlierPolicy:
        """This section as the registry takes it."""
        return OutlierPolicy(
            self.consecutive_losses, self.base_seconds, self.max_seconds, self.max_ejected_share
        )


class AdmissionSettings(Section):
    """`admission`: how much this gateway takes."""

    max_sessions: Count = 1000
    """Sessions open at once, on all replicas together, for each server worker; in a fleet for all of its
    gateways together, each of which takes its share.
    """
    queue_size: WholeOrZero = 100
    """Sessions that wait at once while every healthy replica is full; 0 refuses them."""
    queue_timeout_seconds: Seconds = 30.0
    """How long a session waits for a place."""
    max_sessions_per_client: Count | None = None
    """Sessions of one client address at once, waiting ones included; null is no limit of its own."""


class DrainSettings(Section):
    """`drain`: how the gateway goes."""

    timeout_seconds: SecondsOrZero = 30.0
    """How long open sessions may go on after SIGTERM. Keep the platform's stop timeout above it."""
    spread_seconds: SecondsOrZero = 2.0
    """Sessions left at the deadline are closed over this long, so that their clients do not return at
    once.
    """


class MetricsSettings(Section):
    """`metrics`: what the gateway measures of itself, for those who scale it or are woken by it."""

    emf: bool = False
    """A line for CloudWatch (EMF) on standard output each interval, by each server worker."""
    interval_seconds: Seconds = 60.0
    """From one line to the next. CloudWatch keeps one value a minute."""
    namespace: CloudWatchNamespace = NAMESPACE
    """What CloudWatch keeps them under."""
    service: CloudWatchValue = SERVICE_NAME
    """Their one dimension, `Service`: tells apart deployments that share a namespace."""
    full_at_sessions: Count | None = None
    """Sessions with which a worker counts as fully used (100 % of `SessionUtilisation`); null is
    `admission.max_sessions`. Set it where that limit is for a whole fleet.
    """


class AdminSettings(Section):
    """`admin`: who may drain and steer this gateway. There is nothing to set yet."""

    later = frozenset({"token"})


class ClientsSettings(Section):
    """`clients`: who may open a session."""

    tokens: tuple[Token, ...] = ()
    """Bearer tokens, one of which a client must show; empty asks for none."""
    allowed_origins: tuple[Origin, ...] = ("*",)
    """Web origins that may open a session from a browser; "*" is any."""
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-* headers are believed."""
