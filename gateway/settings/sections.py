"""What can be set: one frozen model a section of gateway.yaml, with its defaults.

A field's type and bounds are checked here, each field by itself. What a replica or a probe schedule may be
is said once, in `gateway.replicas.model`, and what holds between fields in `gateway.settings.settings`.

A key of `later` gets its effect in a later version. Until then it is refused, unless it is null: a setting
that is silently without effect would be worse than an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from gateway.affinity import Affinity
from gateway.replicas.model import HealthPolicy, JsonScalar, ReplicaEndpoint, RouterConfig, host_problem
from gateway.replicas.outlier import OutlierPolicy
from gateway.runtime import ConfiguredMode
from gateway.settings.tree import Path


def _no_boolean(value: object) -> object:
    # YAML reads `yes` and `on` as true, and true would pass for 1.
    if isinstance(value, bool):
        raise ValueError(f"should be a number, not {str(value).lower()}")
    return value


def _one_or_more_bodies(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    for listed in value.values():
        for item in listed if isinstance(listed, list | tuple) else (listed,):
            if not (item is None or isinstance(item, str | int | float | bool)):
                raise ValueError("should list plain values for each key, as in {status: [ok, ready]}")
    return {
        key: tuple(listed) if isinstance(listed, list | tuple) else (listed,) for key, listed in value.items()
    }


def _finite(range_in_words: str) -> BeforeValidator:
    """pydantic tells a value that is not a number from one that is out of range only sometimes."""

    def checked(value: object) -> object:
        try:
            number = float(value) if isinstance(value, str | float) else 0.0
        except ValueError:
            return value
        if not math.isfinite(number):
            raise ValueError(f"should be a finite number {range_in_words}, not {number}")
        return value

    return BeforeValidator(checked)


def _host(value: str) -> str:
    if problem := host_problem(value):
        raise ValueError(problem)
    return value


def _session_path(value: str) -> str:
    if not value.startswith("/") or value == "/" or value.endswith("/") or "//" in value:
        raise ValueError(f"should be a path such as /v1/stream, without a slash at its end, not {value!r}")
    if not value.isascii() or not value.isprintable() or set(value) & set(" ?#{}%\\"):
        raise ValueError(f"should be a plain path without spaces, braces, % or a query, not {value!r}")
    if value in OWN_PATHS or value.startswith(OWN_TREES):
        raise ValueError(f"{value} is one of the gateway's own paths; choose another for sessions")
    return value


def _some_distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise ValueError("should have at least one entry")
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"has {', '.join(twice)} more than once")
    return values


def _origin(value: str) -> str:
    if value in ("*", "null"):
        return value
    try:
        parts = urlsplit(value)
        usable = bool(parts.scheme and parts.hostname) and value == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f'should be an origin such as https://app.example.com, or "*" for any, not {value!r}'
        )
    return value


def _network(value: object) -> object:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        return ip_network(value if isinstance(value, str) else "", strict=False)
    except ValueError:
        raise ValueError("should be an address or a network such as 192.0.2.7 or 10.0.0.0/8") from None


def _affinity(value: str) -> str:
    Affinity.parse(value)
    return value


def _token(value: SecretStr) -> SecretStr:
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("a token must be printable ASCII without spaces, and not empty")
    return value


SECRETS: tuple[Path, ...] = (("clients", "tokens"),)
"""Settings of which no message repeats a part."""
OWN_PATHS = frozenset(
    {"/status", "/router/replicas/sessions", "/healthz", "/readyz", "/metrics", "/schema", "/admin"}
)
"""HTTP paths of the gateway itself, which no session path may take."""
OWN_TREES = ("/admin/", "/schema/")
"""What lies below these is the gateway's own as well."""

Number = Annotated[float, BeforeValidator(_no_boolean)]
Whole = Annotated[int, BeforeValidator(_no_boolean)]
WholeOrZero = Annotated[int, BeforeValidator(_no_boolean), Field(ge=0)]
Count = Annotated[int, BeforeValidator(_no_boolean), Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(_no_boolean), _finite("above 0"), Field(gt=0, allow_inf_nan=False)]
SecondsOrZero = Annotated[
    float, BeforeValidator(_no_boolean), _finite("of 0 or more"), Field(ge=0, allow_inf_nan=False)
]
"""Zero means at once."""
Share = Annotated[
    float, BeforeValidator(_no_boolean), _finite("from 0 to 1"), Field(ge=0, le=1, allow_inf_nan=False)
]
SessionPath = Annotated[str, AfterValidator(_session_path)]
Origin = Annotated[str, AfterValidator(_origin)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]
Token = Annotated[SecretStr, AfterValidator(_token)]


class Section(BaseModel):
    """A part of gateway.yaml. It has no other keys than its fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )
    later: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, given: object) -> object:
        """A section whose every line is commented out reads as null, and means its defaults."""
        if isinstance(given, dict):
            return {key: value for key, value in given.items() if value is not None or key not in cls.later}
        return {} if given is None else given


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section, or the settings, that a value of this type is; None for a list and a plain setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def later_in(annotation: Any) -> frozenset[str]:
    """Keys that such a section has in a later version."""
    section = section_in(annotation)
    return section.later if section is not None and issubclass(section, Section) else frozenset()


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

    def endpoint(self) -> ReplicaEndpoint:
        """This entry as the registry takes it."""
        return ReplicaEndpoint(self.url, self.name, self.primary, self.weight, self.max_sessions)


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
    expect_body: Annotated[dict[str, tuple[object, ...]], BeforeValidator(_one_or_more_bodies)] = {
        "status": ("ok", "ready")
    }
    """Where the body is a JSON object with one of these keys, its value must be one of those listed. A
    compressed body is a failure; `{}` looks at no body.
    """
    unhealthy_interval_seconds: Number | None = None
    """The interval while a replica is unhealthy; null is the same interval."""


class RouterSettings(Section):
    """`router`: where the gateway listens, and the replicas behind it."""

    host: Annotated[str, AfterValidator(_host)] = "0.0.0.0"
    """Address that `python -m gateway serve` binds; under `granian` its own --host rules."""
    port: Annotated[Whole, Field(ge=0, le=65535)] = 9000
    """Port that `python -m gateway serve` binds; 0 takes a free one. Under `granian` its own --port rules."""
    replicas: tuple[ReplicaSettings, ...] = ()
    """The servers that sessions go to, in order of preference under the `priority` policy."""
    health_check: HealthCheckSettings = HealthCheckSettings()

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

    paths: Annotated[tuple[SessionPath, ...], AfterValidator(_some_distinct)] = (
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

    key: Annotated[str, AfterValidator(_affinity)] = "none"
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
    """Sessions open at once, on all replicas together, for each server worker."""
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


class FleetSettings(Section):
    """`fleet`: how gateways meet."""

    later = frozenset({"url", "name", "namespace", "ttl_seconds", "every_seconds", "on_stop"})

    backend: Literal["none"] = "none"
    """`none` leaves each gateway by itself."""


class DiscoverySettings(Section):
    """`discovery`: where replicas come from."""

    kind: Literal["static"] = "static"
    """`static` is the list under `router.replicas`."""


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
