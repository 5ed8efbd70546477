"""How gateways and replicas find each other: the sections `fleet` and `discovery`."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from gateway.fleet.member import checked_id
from gateway.fleet.spec import Cadence, FleetSpec, checked_name
from gateway.settings.fields import (
    AboveZero,
    Seconds,
    SecondsOrZero,
    Section,
    ZeroOrMore,
    finite,
    no_boolean,
)

DATABASE = re.compile(r"[0-9]{1,9}")

LEAST_SECONDS = 0.001
"""What a fleet's spans are at least: stores and timers know nothing finer for sure."""

SCHEMES = ("redis", "rediss", "unix")
"""In the clear, by TLS, by a socket of this machine."""
URL_OPTIONS = frozenset(
    {"db", "username", "password", "client_name", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
)
"""What the query of `fleet.url` may set."""

LONGEST_SECONDS = 86_400.0
REGION = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")


def _endpoint_url(value: str) -> str:
    """Where something speaks AWS's API."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("should be a URL such as http://127.0.0.1:5000, without a user name or a query")
    return value


def _aws_name(value: str) -> str:
    """A name, or the ARN, of something in AWS."""
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"should be a name or an ARN as AWS shows it, not {value!r}")
    return value


def _region(value: str) -> str:
    if not REGION.fullmatch(value):
        raise ValueError(f"should be a region such as eu-central-1, not {value!r}")
    return value


def fits_a_cluster(url: SecretStr) -> bool:
    """Whether a cluster can be at a `fleet.url`: it has no socket of this machine, and no database but 0."""
    parts = urlsplit(url.get_secret_value())
    databases = [text for name, text in parse_qsl(parts.query) if name == "db"]
    return parts.scheme != "unix" and not any(map(int, (parts.path[1:] or "0", *databases)))


def _fleet_url(value: SecretStr) -> SecretStr:
    """A server's address. No message repeats a part of it: it may hold a password."""
    try:
        parts = urlsplit(value.get_secret_value())
        place = parts.path if parts.scheme == "unix" else parts.hostname
        usable = parts.scheme in SCHEMES and bool(place) and parts.port != 0 and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("should be an address such as redis://HOST:6379/0, rediss://HOST:6379/0 for TLS")
    if parts.scheme != "unix" and parts.path not in ("", "/") and not DATABASE.fullmatch(parts.path[1:]):
        raise ValueError("should name a database by its number, as in redis://HOST:6379/0")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if {name for name, _ in query} - URL_OPTIONS:
        raise ValueError(f"has a query that is not understood; it may set {', '.join(sorted(URL_OPTIONS))}")
    if not all(DATABASE.fullmatch(text) for name, text in query if name == "db"):
        raise ValueError("should name a database by its number, as in ?db=0")
    if parts.scheme != "rediss" and any(name.startswith("ssl_") for name, _ in query):
        raise ValueError("sets files for TLS in its query, which are for rediss:// alone")
    return value


FleetUrl = Annotated[SecretStr, AfterValidator(_fleet_url)]
FleetName = Annotated[str, AfterValidator(partial(checked_name, what="a fleet's name", colon=False))]
Namespace = Annotated[str, AfterValidator(partial(checked_name, what="a fleet's namespace"))]
MemberId = Annotated[str, AfterValidator(checked_id)]
FleetSeconds = Annotated[
    float, BeforeValidator(no_boolean), finite("above 0"), Field(ge=LEAST_SECONDS, le=LONGEST_SECONDS)
]
EndpointUrl = Annotated[str, AfterValidator(_endpoint_url)]
AwsName = Annotated[str, AfterValidator(_aws_name)]
Region = Annotated[str, AfterValidator(_region)]
Port = Annotated[int, BeforeValidator(no_boolean), Field(ge=1, le=65535)]
ReportBytes = Annotated[int, BeforeValidator(no_boolean), Field(ge=256)]


class FleetSettings(Section):
    """`fleet`: the gateways that divide the replicas among them, and where they and the replicas meet."""

    backend: Literal["none", "memory", "redis"] = "none"
    """Where they meet: `redis` is Redis or Valkey at `fleet.url`; `memory` is a fleet of this process alone,
    to try it out. `none` leaves each gateway by itself.
    """
    url: FleetUrl | None = None
    """The server of the `redis` backend, as in redis://HOST:6379/0; rediss:// is TLS. Never shown: it may
    hold a password.
    """
    cluster: bool = False
    """The server is a Redis or Valkey cluster."""
    name: FleetName = "gateways"
    """What this fleet is called: gateways with the same replicas belong to the same one."""
    namespace: Namespace = "streamhold"
    """First part of the fleet's keys: tells apart what shares a server."""
    ttl_seconds: FleetSeconds = 10.0
    """A member of which nothing was heard for this long is gone; the same for all of a fleet."""
    every_seconds: FleetSeconds = 3.0
    """From one answer of the server to the next question; below half of `fleet.ttl_seconds`."""
    on_stop: Literal["leave", "linger"] = "leave"
    """A gateway that stops takes its entry with it (`leave`), or leaves a draining one behind (`linger`)."""
    linger_for_seconds: FleetSeconds | None = None
    """How long that one stays; null is `fleet.ttl_seconds`."""
    member_id: MemberId | None = None
    """A name that stays over restarts, for one gateway alone; its second server worker is NAME:2, and so on.
    null is host:pid:nonce.
    """
    report_max_bytes: ReportBytes = 4096
    """What a gateway tells in each beat: some 25 bytes for each replica on which it has sessions."""
    settle_seconds: SecondsOrZero = 30.0
    """Where more than half of the replicas vanish at once, they are believed gone after this long. Nothing is
    shed before no gateway has come or gone for so long, and no session that is younger.
    """
    shed: bool = False
    """With more sessions than the other gateways have, this one hands some back to their clients, who connect
    again: only such as can go on without loss.
    """
    shed_tolerance: ZeroOrMore = 0.2
    """How far above the mean a gateway may be before it sheds: 0.2 is a fifth."""
    shed_per_second: AboveZero = 5.0
    """Sessions that a gateway hands back in a second, at the most."""

    def spec(self) -> FleetSpec:
        """The gateways' fleet."""
        return FleetSpec(self.name, timedelta(seconds=self.ttl_seconds), self.report_max_bytes)

    def cadence(self) -> Cadence:
        """How a gateway beats in it, and how often any fleet is asked."""
        linger_for = self.linger_for_seconds
        return Cadence(
            every=timedelta(seconds=self.every_seconds),
            on_stop=self.on_stop,
            linger_for=timedelta(seconds=linger_for) if linger_for is not None else None,
        )


class DiscoverySettings(Section):
    """`discovery`: where replicas come from."""

    kind: Literal["static", "fleet", "cloudmap", "ecs"] = "static"
    """`static` is the list under `router.replicas`; `fleet` adds those that announce themselves at
    `fleet.url`, as `python -m gateway announce` does; `cloudmap` the instances of a service in AWS Cloud
    Map, and `ecs` the tasks of a service in Amazon ECS.
    """
    name: FleetName = "replicas"
    """What the fleet of replicas is called, under the gateways' `fleet.namespace`; not `fleet.name`."""
    namespace: AwsName | None = None
    """`cloudmap`: the name of the namespace."""
    service: AwsName | None = None
    """`cloudmap`, `ecs`: the name of the service that the replicas are."""
    cluster: AwsName = "default"
    """`ecs`: the cluster that it runs in."""
    port: Port | None = None
    """`cloudmap`, `ecs`: of the replicas that do not say theirs."""
    scheme: Literal["http", "https"] = "http"
    """`cloudmap`, `ecs`: of the replicas that do not say theirs."""
    region: Region | None = None
    """`cloudmap`, `ecs`: null is that of AWS_REGION, or of the AWS configuration."""
    endpoint_url: EndpointUrl | None = None
    """`cloudmap`, `ecs`: something else that speaks AWS's API; null is AWS."""
    interval_seconds: Seconds = 5.0
    """`cloudmap`, `ecs`: from one question to the next."""
    full_interval_seconds: Seconds = 30.0
    """`cloudmap`: the whole list is asked for at least this often, and else only when its revision says that
    something has come or gone.
    """
    timeout_seconds: Seconds = 5.0
    """`cloudmap`, `ecs`: for a connect to AWS, and for its answer."""
    confirm_seconds: SecondsOrZero = 10.0
    """`cloudmap`, `ecs`: a replica that is listed no more is gone after this long."""
    settle_seconds: SecondsOrZero = 60.0
    """`cloudmap`, `ecs`: the same, where more than half of them are missing at once, or all."""
