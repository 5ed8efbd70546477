"""PURE. The metrics of one moment, from a snapshot of the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.metrics import names
from gateway.replicas.model import Candidate


@dataclass(frozen=True, slots=True)
class Counters:
    """What has happened since the process began."""

    resumes: int = 0
    handed_back: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What is looked at."""

    candidates: Sequence[Candidate]
    """Every replica that has not been removed."""
    sessions: int
    """On replicas, those that were removed included."""
    waiting: int
    counters: Counters = Counters()


def metrics_of(moment: Moment, *, before: Counters, full_at_sessions: int) -> dict[str, float]:
    """The value of each metric, by its name. `before` is what the line before has told of."""
    seen = moment.candidates
    limited = [one for one in seen if one.usable and one.max_sessions]
    places = sum(one.max_sessions or 0 for one in limited)
    values: dict[str, float] = {
        names.SESSIONS: moment.sessions,
        names.WAITING_SESSIONS: moment.waiting,
        names.SESSION_UTILISATION: _percent(moment.sessions + moment.waiting, full_at_sessions),
        names.REPLICAS: len(seen),
        names.HEALTHY_REPLICAS: sum(one.healthy and not one.draining for one in seen),
        names.SLEEPING_REPLICAS: sum(one.sleeping for one in seen),
        names.RESUMES: moment.counters.resumes - before.resumes,
        names.HANDED_BACK: moment.counters.handed_back - before.handed_back,
    }
    if places:
        values[names.REPLICA_UTILISATION] = _percent(sum(one.all_sessions for one in limited), places)
    return values


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2)
