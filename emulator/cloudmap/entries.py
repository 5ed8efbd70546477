"""PURE. What Cloud Map has of a replica: an instance for each of its lives, as AWS's health checks see them.

1. A replica that runs is registered, and healthy.
2. One that falls silent (killed, or standing still) is noticed after a while only: until then it is listed as
   if nothing had happened. Then it is deregistered, or unhealthy, as is wanted.
3. One that comes back is a new instance, as a new task would be; one that only stood still is the same.
4. One that ends in order is deregistered at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal

Fate = Literal["running", "paused", "killed", "gone"]
Verdict = Literal["deregister", "unhealthy"]


@dataclass(frozen=True, slots=True)
class Notice:
    """How the end of a replica is noticed that said nothing of it."""

    after_seconds: float = 5.0
    then: Verdict = "deregister"


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a replica, seen from outside."""

    name: str
    """The replica's."""
    number: int = 0
    """Counts its lives from 1; 0 is before the first."""
    fate: Fate = "gone"
    since: float = 0.0
    """Seconds of a steady clock."""

    @property
    def id(self) -> str:
        """Of its instance."""
        return f"{self.name}-{self.number}"

    @property
    def is_silent(self) -> bool:
        """Whether it ended, or stands still, without a word."""
        return self.fate in ("paused", "killed")

    def turned(self, fate: Fate, at: float) -> Life:
        """What it is from `at` on: another life, where one that had ended runs."""
        if fate == self.fate:
            return self
        another = fate == "running" and self.fate in ("killed", "gone")
        return replace(self, number=self.number + another, fate=fate, since=at)


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of the service."""

    id: str
    attributes: Mapping[str, str]
    healthy: bool = True


def instance_of(life: Life, attributes: Mapping[str, str], notice: Notice, now: float) -> Instance | None:
    """What there is of it in Cloud Map; None for nothing."""
    noticed = life.is_silent and now >= life.since + notice.after_seconds
    if life.fate == "gone" or (noticed and notice.then == "deregister"):
        return None
    return Instance(life.id, attributes, healthy=not noticed)


def next_notice(lives: Iterable[Life], notice: Notice, now: float) -> float | None:
    """When the next silent one is noticed; None where no such time comes."""
    times = (life.since + notice.after_seconds for life in lives if life.is_silent)
    return min((at for at in times if at > now), default=None)


def attributes_of(
    name: str, host: str, port: int, *, capacity: int, cold_start: bool, given: Mapping[str, str]
) -> Mapping[str, str]:
    """As a gateway reads them; `given` wins."""
    said = {
        _address_key(host): host,
        "AWS_INSTANCE_PORT": str(port),
        "name": name,
        "capacity": str(capacity),
    }
    if cold_start:
        said["cold_start"] = "true"
    return {**said, **given}


def _address_key(host: str) -> str:
    try:
        return f"AWS_INSTANCE_IPV{ip_address(host).version}"
    except ValueError:
        return "AWS_INSTANCE_CNAME"
