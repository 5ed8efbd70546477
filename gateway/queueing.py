"""PURE. Who of those that wait gets a place now, as a function of a snapshot.

The rule: first come, first served. Those that wait are asked in their order, and each takes the replica that
a session of its own would get, with the places that went to those before it already taken. So a place goes to
the first for whom it fits, and nobody is overtaken: whoever comes later gets a place only where none of those
before could have used it. That is so where a replica could not be reached for an earlier one (`tried`), and
nowhere else: a key says which of several free replicas a waiter takes, never that it goes without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.replicas.model import Candidate
from gateway.selection import AllFull, Chosen, NoneHealthy, Policy, choose


@dataclass(frozen=True, slots=True)
class Waiter:
    """A session that waits for a place."""

    turn: int
    """Its number in the order of arrival; unique."""
    tried: frozenset[str] = frozenset()
    """URLs of replicas that it could not reach, spelled as the candidates spell them."""
    key: str | None = None
    """Its affinity, if it has one."""
    draw: float = 0.0
    """Its random number in [0, 1), for policies that draw."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The waiter gets a place on the replica at `url`."""

    waiter: Waiter
    url: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    """No replica that may be used is left for the waiter: waiting on does not help."""

    waiter: Waiter


def assign(
    waiting: Iterable[Waiter], candidates: Sequence[Candidate], policy: Policy, *, ticket: int
) -> tuple[Assignment | Hopeless, ...]:
    """What is decided now about `waiting`, who come in the order of their turns. The others wait on.

    `ticket` is the number that the next session takes under `choose`; each assignment of a waiter that has
    tried nothing yet takes one. The cost is one look at the replicas for each assignment, and for each waiter
    that gets none no more than one look-up.
    """
    decided: list[Assignment | Hopeless] = []
    left = {candidate.url: candidate for candidate in candidates}
    # Places only become fewer along the line, so what holds for one waiter holds for all behind that tried
    # the same.
    without: dict[frozenset[str], AllFull | NoneHealthy] = {}
    for waiter in waiting:
        choice = without.get(waiter.tried) or choose(
            policy,
            [candidate for candidate in left.values() if candidate.url not in waiter.tried],
            ticket=ticket,
            draw=waiter.draw,
            key=waiter.key,
        )
        match choice:
            case Chosen(candidate=chosen):
                decided.append(Assignment(waiter, chosen.url))
                left[chosen.url] = replace(chosen, sessions=chosen.sessions + 1)
                ticket += not waiter.tried
            case AllFull():
                without[waiter.tried] = choice
            case NoneHealthy():
                without[waiter.tried] = choice
                decided.append(Hopeless(waiter))
    return tuple(decided)
