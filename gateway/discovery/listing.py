"""PURE. What a source of replicas answers, and what is made of it together with those that are configured."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.urls import normalised_url


@dataclass(frozen=True, slots=True)
class Listed:
    """One replica as a source has it."""

    endpoint: ReplicaEndpoint
    """Where it is, and what it may be given."""
    takes_sessions: bool = True
    """False for one that is only starting, or on its way out: it is known and probed, and gets no new
    session.
    """

    @property
    def key(self) -> str:
        """Its URL in the one spelling."""
        return normalised_url(self.endpoint.url)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a source that is no replica."""

    who: str
    """What the source calls it."""
    reason: str
    """Why it is left out, in the reader's words."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of a source."""

    replicas: tuple[Listed, ...] = ()
    """No two at one URL."""
    problems: tuple[Problem, ...] = ()
    """What was left out."""
