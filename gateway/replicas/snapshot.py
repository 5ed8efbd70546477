"""PURE. A replica as it is at one moment, from its live view and the time."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.replicas.model import Candidate, Replica

LOWEST_RAMP = 0.1
"""Share of its weight with which a slow start begins: at nothing, nothing would ever warm up."""


def snapshot(replica: Replica, *, now: float, slow_start_seconds: float) -> Candidate:
    """`replica` at `now`, by the registry's monotonic clock."""
    return Candidate(
        url=replica.url,
        name=replica.name,
        primary=replica.primary,
        weight=replica.endpoint.weight,
        healthy=replica.is_healthy,
        draining=replica.leaving,
        sessions=replica.sessions,
        max_sessions=replica.endpoint.max_sessions,
        refusing=replica.refusing_until is not None and now < replica.refusing_until,
        ejected=replica.outlier.ejected(now),
        ramp=_ramp(replica, now, slow_start_seconds),
        sleeping=replica.sleeping,
        elsewhere=replica.elsewhere,
    )


def first_choice(seen: Sequence[Candidate]) -> Candidate | None:
    """The first primary of `seen` that takes a session, else the first one that does, else None.

    One that is ejected takes some only where no other is usable, and one that sleeps only where no other has
    room.
    """
    usable = [candidate for candidate in seen if candidate.usable]
    trusted = [candidate for candidate in usable if not candidate.ejected] or usable
    free = [candidate for candidate in trusted if candidate.has_room]
    taking = [candidate for candidate in free if not candidate.sleeping] or free
    return next((candidate for candidate in taking if candidate.primary), next(iter(taking), None))


def _ramp(replica: Replica, now: float, slow_start_seconds: float) -> float:
    starts = (replica.serving_since, replica.outlier.ejected_until)
    since = max((start for start in starts if start is not None and start <= now), default=None)
    if since is None or not slow_start_seconds:
        return 1.0
    return min(max((now - since) / slow_start_seconds, LOWEST_RAMP), 1.0)
