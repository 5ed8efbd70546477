"""PURE. Which replica a new session goes to, as a function of a snapshot.

Every policy works inside a tier: first the primaries, then the others. A tier whose healthy replicas are all
full spills over to the next. A replica that is unhealthy or draining is never chosen, and a full one neither.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.replicas.model import Candidate


class Policy(enum.StrEnum):
    PRIORITY = "priority"
    """The first in order."""
    ROUND_ROBIN = "round_robin"
    """One after the other."""
    LEAST_SESSIONS = "least_sessions"
    """The one with the fewest sessions, the first in order among equals."""


@dataclass(frozen=True, slots=True)
class Chosen:
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class AllFull:
    """Healthy replicas exist, and each is at its limit: waiting helps."""


@dataclass(frozen=True, slots=True)
class NoneHealthy:
    """No replica may be used: waiting does not help."""


Choice = Chosen | AllFull | NoneHealthy


def choose(policy: Policy, candidates: Sequence[Candidate], *, ticket: int) -> Choice:
    """The replica that `policy` gives the next session.

    `ticket` is a number that the caller raises by one for each session; only `round_robin` looks at it.
    """
    usable = [candidate for candidate in candidates if candidate.healthy and not candidate.draining]
    if not usable:
        return NoneHealthy()
    for primary in (True, False):
        tier = [candidate for candidate in usable if candidate.primary is primary and _has_room(candidate)]
        if tier:
            return Chosen(_PICK[policy](tier, ticket))
    return AllFull()


def _has_room(candidate: Candidate) -> bool:
    return candidate.max_sessions is None or candidate.sessions < candidate.max_sessions


def _first(tier: Sequence[Candidate], ticket: int) -> Candidate:
    return tier[0]


def _by_turn(tier: Sequence[Candidate], ticket: int) -> Candidate:
    return tier[ticket % len(tier)]


def _least_sessions(tier: Sequence[Candidate], ticket: int) -> Candidate:
    return min(tier, key=lambda candidate: candidate.sessions)


_PICK: dict[Policy, Callable[[Sequence[Candidate], int], Candidate]] = {
    Policy.PRIORITY: _first,
    Policy.ROUND_ROBIN: _by_turn,
    Policy.LEAST_SESSIONS: _least_sessions,
}
