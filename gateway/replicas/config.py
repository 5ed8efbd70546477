"""PURE. How replicas are probed and judged, and the `router:` block: what may be asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gateway.replicas.endpoint import ReplicaEndpoint, is_finite, is_whole, replicas_problems
from gateway.replicas.urls import UNPRINTABLE

JsonScalar = str | int | float | bool | None


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
        if not (is_whole(self.port) and 0 <= self.port <= 65535):
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


def _seconds_problem(name: str, seconds: float) -> str | None:
    if not is_finite(seconds):
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
        if not (is_whole(count) and count >= 1):
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
