"""PURE. The replicas under `router.replicas`, and how a source's are added to them.

1. The configured ones come first, in their order, and are never removed. One that a source lists as well
   keeps what is configured, and gets new sessions only while the source says so, too.
2. The source's follow by their names, so that every gateway has the same order, whenever it looked.
3. No two have one name: the later one is called host:port instead. Where that is taken as well, it is left
   out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.discovery.listing import Listed, Problem
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.urls import host_and_port_of, normalised_url


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas that a gateway is to have."""

    endpoints: tuple[ReplicaEndpoint, ...]
    """In the order in which they are preferred."""
    withheld: frozenset[str]
    """URLs, in the one spelling, of those that get no new session."""
    problems: tuple[Problem, ...] = ()
    """What was left out."""


def with_configured(configured: Sequence[ReplicaEndpoint], listed: Iterable[Listed]) -> Replicas:
    """`configured`, and after them what a source lists beside them."""
    endpoints = {normalised_url(endpoint.url): endpoint for endpoint in configured}
    names = {endpoint.display_name for endpoint in configured}
    withheld: set[str] = set()
    problems: list[Problem] = []
    for one in sorted(listed, key=lambda one: (one.endpoint.display_name, one.key)):
        if one.key not in endpoints:
            endpoint = _with_free_name(one.endpoint, names)
            if endpoint is None:
                reason = f"its name and {host_and_port_of(one.endpoint.url)} are those of other replicas"
                problems.append(Problem(one.endpoint.url, reason))
                continue
            names.add(endpoint.display_name)
            endpoints[one.key] = endpoint
        if not one.takes_sessions:
            withheld.add(one.key)
    return Replicas(tuple(endpoints.values()), frozenset(withheld), tuple(problems))


def _with_free_name(endpoint: ReplicaEndpoint, taken: set[str]) -> ReplicaEndpoint | None:
    for candidate in (endpoint, replace(endpoint, name=None)):
        if candidate.display_name not in taken:
            return candidate
    return None
