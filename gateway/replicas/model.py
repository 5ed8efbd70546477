"""PURE. What a replica is: its address as configured, how it is judged, and what the gateway knows of it.

An address is kept as its owner wrote it; only joins and the search for duplicates look at its normal form, so
that `http://A:80/` and `http://a` are one replica and a probe never asks for `//health`.
"""

from __future__ import annotations

import enum
import ipaddress
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from gateway.replicas.outlier import OutlierRecord

DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
"""Letters, digits, dots, hyphens, and the underscore of compose services."""
UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
"""What `urlsplit` would silently drop or carry on: spaces, control characters, anything beyond ASCII."""

JsonScalar = str | int | float | bool | None


def url_problem(url: str) -> str | None:
    """What keeps `url` from being a replica's base URL, in the reader's words; None when nothing does."""
    if UNPRINTABLE.search(url):
        return f"{url!r} is not a URL: spaces, control characters and non-ASCII letters are not allowed in it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    problem = None
    if parts.scheme not in DEFAULT_PORTS:
        problem = "must begin with http:// or https://"
    elif not parts.hostname or not _is_host(parts.hostname):
        problem = "needs a host name or an IP address after its scheme"
    elif port == 0:
        problem = "needs a port from 1 to 65535"
    elif "@" in parts.netloc:
        problem = "must not carry a user name or a password: it is shown in logs and on /status"
    elif "?" in url or "#" in url:
        problem = "must not carry a query/fragment; give the base URL, as in http://host:8000"
    elif parts.path not in ("", "/"):
        problem = "must be a base URL without a path, as in http://host:8000"
    return problem and f"{url!r} {problem}"


def normalised_url(url: str) -> str:
    """The one spelling of `url`: lower case, no default port, no trailing slash.

    Total: what is not a URL comes back without its trailing slashes, so that it can still be compared.
    """
    return _normalised(url)


@lru_cache(maxsize=4096)
def _normalised(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url.rstrip("/")
    if not host:
        return url.rstrip("/")
    suffix = "" if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{_bracketed(host)}{suffix}{parts.path.rstrip('/')}"


def join_url(url: str, path: str) -> str:
    """`path` on the replica at `url`, with exactly one slash between them."""
    return f"{normalised_url(url)}/{path.lstrip('/')}"


def websocket_url(url: str, raw_path: bytes | str, query: bytes | str = b"") -> str:
    """The WebSocket URL of `raw_path` on the replica at `url`; path and query stay byte for byte."""
    base = normalised_url(url)
    text = raw_path.decode("latin-1") if isinstance(raw_path, bytes) else raw_path
    extra = query.decode("latin-1") if isinstance(query, bytes) else query
    path = text if text.startswith("/") else f"/{text}"
    return f"ws{base.removeprefix('http')}{path}{'?' + extra if extra else ''}"


def _is_host(host: str) -> bool:
    return HOST_NAME.fullmatch(host) is not None or _ip_address(host) is not None


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    address = _ip_address(host)
    return f"[{address.compressed}]" if address is not None and address.version == 6 else host


@lru_cache(maxsize=4096)
def _nameless(url: str) -> str:
    return url if url_problem(url) else _host_and_port(urlsplit(url))


def _host_and_port(parts: SplitResult) -> str:
    port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
    return f"{_bracketed(parts.hostname or '')}:{port}"


@dataclass(frozen=True, slots=True)
class ReplicaEndpoint:
    """One replica as configured or discovered."""

    url: str
    """HTTP base URL, as in `http://host:8000`; the WebSocket URL has the same host and port."""
    name: str | None = None
    """What people call it; without one it is called host:port."""
    primary: bool = False
    """Gets sessions before the others as long as it is healthy."""
    weight: float = 1.0
    """Its share beside the others' under a weighted policy; 0 takes no share."""
    max_sessions: int | None = None
    """Sessions that it takes at once; None is no limit."""

    @property
    def display_name(self) -> str:
        """`name`, or else host:port; the URL itself where it has neither."""
        return self.name or _nameless(self.url)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Each field that cannot be used, with what is wrong about it."""
        # The types are looked at as well: a Python program may hand in anything.
        if not isinstance(self.url, str):
            yield "url", f"replica URL must be text, as in http://host:8000, not {self.url!r}"
        elif problem := url_problem(self.url):
            yield "url", f"replica URL {problem}"
        if self.name is not None and not _is_name(self.name):
            yield "name", f"the name of a replica must be printable text and not blank, not {self.name!r}"
        if not (_is_finite(self.weight) and self.weight >= 0):
            yield (
                "weight",
                f"the weight of a replica must be finite and 0 or more, not {self.weight!r}",
            )
        if self.max_sessions is not None and not (_is_whole(self.max_sessions) and self.max_sessions >= 1):
            yield (
                "max_sessions",
                f"max_sessions must be 1 or more, not {self.max_sessions!r}; without it: no limit",
            )


def replicas_problems(replicas: list[ReplicaEndpoint]) -> Iterator[str]:
    """What is wrong with the replicas as a set: duplicates, and more than one primary."""
    seen_urls: dict[str, str] = {}
    seen_names: dict[str, ReplicaEndpoint] = {}
    for endpoint in replicas:
        key = normalised_url(endpoint.url)
        if key in seen_urls:
            first = seen_urls[key]
            spelling = "" if first == endpoint.url else f" (the same as {first!r})"
            yield f"Duplicate replica URL {endpoint.url!r}{spelling}"
        seen_urls.setdefault(key, endpoint.url)
        # One that has no name is called host:port, and another may have that for its name.
        name = endpoint.display_name
        other = seen_names.setdefault(name, endpoint)
        if other is endpoint or (not (other.name or endpoint.name) and normalised_url(other.url) == key):
            continue
        nameless = next((one for one in (other, endpoint) if not one.name), None)
        called = f": {nameless.url!r} has no name and is called so" if nameless else ""
        yield f"Duplicate replica name {name!r}{called}"
    primaries = [endpoint.url for endpoint in replicas if endpoint.primary]
    if len(primaries) > 1:
        yield f"only one replica may be primary, not {len(primaries)}: {', '.join(primaries)}"


@dataclass(slots=True)
class RouterConfig:
    """The `router:` block. Raises ValueError with every problem, a line each, when it cannot be used."""

    host: str = "0.0.0.0"
    port: int = 9000
    replicas: list[ReplicaEndpoint] = field(default_factory=list)
    health_check_path: str = "/health"
    health_check_interval_seconds: float = 5.0
    health_check_timeout_seconds: float = 2.0
    failure_threshold: int = 3
    """Failures in a row that make a replica unhealthy."""
    recovery_threshold: int = 2
    """Successes in a row that make an unhealthy replica healthy again."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        if problem := host_problem(self.host):
            yield f"host {problem}"
        if not (_is_whole(self.port) and 0 <= self.port <= 65535):
            yield f"port must be a whole number from 0 to 65535, not {self.port!r}"
        yield from self._replica_problems()
        yield from _schedule_problems(
            "health_check_",
            self.health_check_path,
            self.health_check_interval_seconds,
            self.health_check_timeout_seconds,
        )
        yield from _threshold_problems(self.failure_threshold, self.recovery_threshold)

    def _replica_problems(self) -> Iterator[str]:
        if not isinstance(self.replicas, list | tuple):
            yield f"replicas must be a list of ReplicaEndpoint, not a {type(self.replicas).__name__}"
            return
        if not self.replicas:
            yield "replicas is empty: a router needs at least one replica"
        usable: list[ReplicaEndpoint] = []
        for endpoint in self.replicas:
            if not isinstance(endpoint, ReplicaEndpoint):
                yield f"replicas must list ReplicaEndpoint(...), not a {type(endpoint).__name__}"
                continue
            problems = list(endpoint.problems())
            yield from (message for _, message in problems)
            if not {"url", "name"} & {field for field, _ in problems}:
                usable.append(endpoint)
        yield from replicas_problems(usable)


def host_problem(host: object) -> str | None:
    """What keeps `host` from being an address to listen on; it is not repeated where it may hold a
    password.
    """
    if not isinstance(host, str) or not host:
        return "should not be empty" if host == "" else f"should be text, not {host!r}"
    if "@" in host:
        return "should be a host name or an IP address, without a user name or a password before an @"
    return None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and not (name == "" or name.isspace())


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def _seconds_problem(name: str, seconds: float) -> str | None:
    if not _is_finite(seconds):
        return f"{name} must be a finite number above 0, not {seconds!r}"
    return None if seconds > 0 else f"{name} must be more than 0, not {seconds}"


def _schedule_problems(prefix: str, path: object, interval: float, timeout: float) -> Iterator[str]:
    if not isinstance(path, str) or UNPRINTABLE.search(path) or "#" in path or "://" in path:
        yield f"{prefix}path must be a path on the replica, as in /health, not {path!r}"
    for name, seconds in (("interval_seconds", interval), ("timeout_seconds", timeout)):
        if problem := _seconds_problem(f"{prefix}{name}", seconds):
            yield problem


def _threshold_problems(failure_threshold: int, recovery_threshold: int) -> Iterator[str]:
    for name, count in (("failure_threshold", failure_threshold), ("recovery_threshold", recovery_threshold)):
        if not (_is_whole(count) and count >= 1):
            yield f"{name} must be 1 or more, not {count!r}"


def _default_expect_body() -> Mapping[str, tuple[JsonScalar, ...]]:
    return {"status": ("ok", "ready")}


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """How replicas are probed and judged. Raises ValueError with every problem when it cannot be used."""

    path: str = "/health"
    interval_seconds: float = 5.0
    timeout_seconds: float = 2.0
    """Deadline of a whole probe, from connect to the last byte of the body."""
    failure_threshold: int = 3
    recovery_threshold: int = 2
    jitter: float = 0.1
    """Each wait is the interval, longer or shorter by up to this share of it."""
    expect_status: tuple[int, ...] = (200, 204)
    expect_body: Mapping[str, tuple[JsonScalar, ...]] = field(default_factory=_default_expect_body)
    """Where the body is a JSON object with one of these keys, its value must be one of those listed."""
    unhealthy_interval_seconds: float | None = None
    """The interval while a replica is unhealthy; None is the same interval."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        yield from _schedule_problems("", self.path, self.interval_seconds, self.timeout_seconds)
        yield from _threshold_problems(self.failure_threshold, self.recovery_threshold)
        slow = self.unhealthy_interval_seconds
        if slow is not None and (problem := _seconds_problem("unhealthy_interval_seconds", slow)):
            yield problem
        if not 0 <= self.jitter < 1:
            yield f"jitter must be a share from 0 to below 1, not {self.jitter}"
        if not self.expect_status or not all(200 <= status <= 599 for status in self.expect_status):
            yield f"expect_status must list HTTP statuses from 200 to 599, not {list(self.expect_status)}"

    @classmethod
    def from_config(cls, config: RouterConfig) -> HealthPolicy:
        """The policy of a `RouterConfig`, with the defaults for what it cannot say."""
        return cls(
            path=config.health_check_path,
            interval_seconds=config.health_check_interval_seconds,
            timeout_seconds=config.health_check_timeout_seconds,
            failure_threshold=config.failure_threshold,
            recovery_threshold=config.recovery_threshold,
        )


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


@dataclass(slots=True)
class Replica:
    """A live view of one replica. Only the registry changes it, and it replaces `health` as a whole."""

    endpoint: ReplicaEndpoint
    health: ReplicaHealth = field(default_factory=ReplicaHealth)
    draining: bool = False
    """Set by people: takes no new session."""
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
    def has_room(self) -> bool:
        """Below its own session limit."""
        limit = self.endpoint.max_sessions
        return limit is None or self.sessions < limit

    @property
    def takes_sessions(self) -> bool:
        """A new session may be placed here now."""
        return self.is_healthy and self.has_room and not (self.draining or self.removed)


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

    @property
    def usable(self) -> bool:
        """Sessions may be placed here, now or once there is room."""
        return self.healthy and not self.draining

    @property
    def has_room(self) -> bool:
        """Below its own limit, and not refusing."""
        return not self.refusing and (self.max_sessions is None or self.sessions < self.max_sessions)
