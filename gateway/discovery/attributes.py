"""PURE. A replica from where AWS says it runs and what is written beside it: attributes or tags.

    name         what people call it; without it, host:port
    scheme       http or https; without it, `discovery.scheme`
    port         without it, the port that AWS knows, or else `discovery.port`
    capacity     sessions that it takes at once; 0 takes none now, without it there is no limit
    weight       its share beside the others' under a weighted policy; without it, 1
    primary      true for one that gets sessions before the others
    cold_start   true for one that sleeps until somebody needs it

Other keys are other people's. A host that is an IPv6 address needs no brackets.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.discovery.listing import Listed
from gateway.replicas.endpoint import ReplicaEndpoint

YES, NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0", ""})


class NoReplica(ValueError):
    """What is listed there is no replica, for the reason that the text gives."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that AWS lists, read so far that it could be a replica."""

    id: str
    """AWS's own name for it."""
    listed: Listed
    healthy: bool = True
    """False where AWS's own health checks say that it is not."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a replica that does not say it itself."""

    port: int | None = None
    scheme: str = "http"


def listed_from(
    host: str, port: str | int | None, said: Mapping[str, str], defaults: Defaults, *, takes_sessions: bool
) -> Listed:
    """The replica at `host`. Raises NoReplica where it cannot be one."""
    scheme = said.get("scheme", defaults.scheme).lower()
    if scheme not in ("http", "https"):
        raise NoReplica(f"scheme should be http or https, not {scheme!r}")
    endpoint = ReplicaEndpoint(
        f"{scheme}://{_bracketed(host)}:{_port(said.get('port', port), defaults)}",
        said.get("name") or None,
        primary=_truth("primary", said),
        weight=_weight(said),
        max_sessions=(capacity := _capacity(said)) or None,
        cold_start=_truth("cold_start", said),
    )
    for _, message in endpoint.problems():
        raise NoReplica(message)
    return Listed(endpoint, takes_sessions and capacity != 0)


def distinct(found: Iterable[Found]) -> tuple[Listed, ...]:
    """One replica an id, and one a URL; of several the last one with that id, and at one URL a healthy one
    before an unhealthy one, then the last by id. An id that registers again, or one that a dead task left
    behind at an address that has a new owner, is no second replica.

    AWS's health checks only tell which of them take sessions, and where they fail all of them, none: then
    these checks are what is broken, and the gateway's own probes decide.
    """
    by_id = {one.id: one for one in found}
    by_url: dict[str, Found] = {}
    for one in sorted(by_id.values(), key=lambda one: (one.healthy, one.id)):
        by_url[one.listed.key] = one
    any_healthy = any(one.healthy for one in by_url.values())
    return tuple(
        Listed(one.listed.endpoint, one.listed.takes_sessions and (one.healthy or not any_healthy))
        for one in sorted(by_url.values(), key=lambda one: one.id)
    )


def _bracketed(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"[{address.compressed}]" if address.version == 6 else host


def _port(given: str | int | None, defaults: Defaults) -> int:
    value = given if given not in (None, "") else defaults.port
    if value is None:
        raise NoReplica("it has no port: give its port there, or set discovery.port")
    number = int(value) if str(value).isascii() and str(value).isdecimal() and len(str(value)) < 6 else 0
    if not 1 <= number <= 65535:
        raise NoReplica(f"port should be a number from 1 to 65535, not {value!r}")
    return number


def _capacity(said: Mapping[str, str]) -> int | None:
    capacity = said.get("capacity", "")
    if not capacity:
        return None
    if not (capacity.isascii() and capacity.isdecimal() and len(capacity) < 10):
        raise NoReplica(f"capacity should be a whole number of 0 or more, not {capacity!r}")
    return int(capacity)


def _weight(said: Mapping[str, str]) -> float:
    weight = said.get("weight", "")
    try:
        return float(weight) if weight else 1.0
    except ValueError:
        raise NoReplica(f"weight should be a number of 0 or more, not {weight!r}") from None


def _truth(key: str, said: Mapping[str, str]) -> bool:
    value = said.get(key, "").lower()
    if value not in YES | NO:
        raise NoReplica(f"{key} should be true or false, not {value!r}")
    return value in YES
