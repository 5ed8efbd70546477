"""PURE. Which replica a new session goes to, as a function of a snapshot.

1. A replica that is unhealthy or draining is never chosen, and one without room neither. One that is ejected
   is left out as long as another usable one is not, even where that one is full.
2. Every policy works inside a tier: first the primaries, then the others. A tier without room spills over to
   the next.
3. A session with an affinity key goes to the first in the key's rank (`gateway.rendezvous`) that has room in
   the tier, whatever the policy.
4. `priority` and `round_robin` look at no weight. To the others a replica of weight 0 is a spare: it is
   chosen when no other in any tier has room.
5. A replica that sleeps is chosen only where none that is awake has room, in whatever tier, and one that is
   being woken already before another one is woken.
6. A replica that starts slowly counts with a part of its weight, `ramp`, and under `round_robin` is passed
   over in the same part of its turns. `priority` and rendezvous take it at once: there it is the order, or
   the key's home, that counts.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.rendezvous import ranking
from gateway.replicas.model import Candidate


class Policy(enum.StrEnum):
    PRIORITY = "priority"
    """The first in order."""
    ROUND_ROBIN = "round_robin"
    """One after the other."""
    LEAST_SESSIONS = "least_sessions"
    """The one with the fewest sessions for its weight, the first in order among equals."""
    WEIGHTED = "weighted"
    """Each as often as its weight says."""
    P2C = "p2c"
    """Of two at random, the one with fewer sessions for its weight."""
    RENDEZVOUS = "rendezvous"
    """The one to which the session's key belongs; without a key, as `weighted`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class AllFull:
    """Healthy replicas exist, and none of them has room: waiting helps."""


@dataclass(frozen=True, slots=True)
class NoneHealthy:
    """No replica may be used: waiting does not help."""


Choice = Chosen | AllFull | NoneHealthy


def choose(
    policy: Policy, candidates: Sequence[Candidate], *, ticket: int, draw: float, key: str | None = None
) -> Choice:
    """The replica that the next session gets by `policy`, or by its affinity `key` where it has one.

    `ticket` is a number that the caller raises by one for each session; `draw` is random for each session,
    from 0 to below 1. The same arguments always give the same answer.
    """
    usable = [candidate for candidate in candidates if candidate.usable]
    if not usable:
        return NoneHealthy()
    trusted = [candidate for candidate in usable if not candidate.ejected] or usable
    for tier in _tiers(_readiest([candidate for candidate in trusted if candidate.has_room]), policy, key):
        if key is not None:
            return Chosen(ranking(key, tier)[0])
        return Chosen(_PICK[policy](tier, ticket, draw))
    return AllFull()


def _readiest(taking: Sequence[Candidate]) -> Sequence[Candidate]:
    """Those that are awake, or else those that will be soon, or else all."""
    awake = [candidate for candidate in taking if not candidate.sleeping]
    return awake or [candidate for candidate in taking if candidate.waking] or taking


def _tiers(taking: Sequence[Candidate], policy: Policy, key: str | None) -> Sequence[Sequence[Candidate]]:
    """Those that can take the session in groups, of which each goes before the next; none is empty."""
    if key is None and policy in (Policy.PRIORITY, Policy.ROUND_ROBIN):
        groups = [taking]
    else:
        groups = [[one for one in taking if one.weight > 0], [one for one in taking if not one.weight > 0]]
    tiers = [
        [one for one in group if one.primary is primary] for group in groups for primary in (True, False)
    ]
    return [tier for tier in tiers if tier]


def _first(tier: Sequence[Candidate], ticket: int, draw: float) -> Candidate:
    return tier[0]


def _by_turn(tier: Sequence[Candidate], ticket: int, draw: float) -> Candidate:
    turns = [tier[(ticket + offset) % len(tier)] for offset in range(len(tier))]
    return next((candidate for candidate in turns if draw < candidate.ramp), turns[0])


def _least_sessions(tier: Sequence[Candidate], ticket: int, draw: float) -> Candidate:
    return min(tier, key=_load)


def _weighted(tier: Sequence[Candidate], ticket: int, draw: float) -> Candidate:
    """The replicas lie side by side on a line, each as long as its share, and the ticket is a point on it.

    Smooth weighted round robin, the usual way, keeps a count for each replica, which does not fit replicas
    and weights that change, and is not a function of a snapshot. Independent draws are, but stray by the
    square root of the number of sessions, which shows with sessions that are few and long. The multiples of
    the golden ratio, less their whole part, do neither: of n sessions each replica gets its share to within a
    few, whatever n is and from whichever ticket on (three-distance theorem), and the sessions of one replica
    are spread out.
    """
    largest = max(map(_share, tier))
    shares = [_share(candidate) / largest for candidate in tier]  # so that no sum is infinite
    point = ticket * _GOLDEN % 2**64 / 2**64 * sum(shares)
    for candidate, share in zip(tier, shares, strict=True):
        point -= share
        if point < 0:
            return candidate
    return tier[-1]  # the sum was rounded up


def _two_choices(tier: Sequence[Candidate], ticket: int, draw: float) -> Candidate:
    """The draw is one of the n(n - 1) ordered pairs of different replicas; among equals its first one
    wins."""
    count = len(tier)
    if count == 1:
        return tier[0]
    first, second = divmod(int(draw * count * (count - 1)), count - 1)
    second += second >= first
    return min(tier[first], tier[second], key=_load)


def _share(candidate: Candidate) -> float:
    """How much it takes beside the others of its tier, all of which have a weight or none of which has."""
    return max((candidate.weight or 1.0) * candidate.ramp, sys.float_info.min)


def _load(candidate: Candidate) -> float:
    """Sessions for its share, those of all gateways with the one that is to be placed."""
    return (candidate.all_sessions + 1) / _share(candidate)


_GOLDEN = 0x9E3779B97F4A7C15
"""The golden ratio's fraction times 2 to the 64th, odd."""

_PICK: dict[Policy, Callable[[Sequence[Candidate], int, float], Candidate]] = {
    Policy.PRIORITY: _first,
    Policy.ROUND_ROBIN: _by_turn,
    Policy.LEAST_SESSIONS: _least_sessions,
    Policy.WEIGHTED: _weighted,
    Policy.P2C: _two_choices,
    Policy.RENDEZVOUS: _weighted,
}
