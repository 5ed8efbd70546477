"""PURE. A fleet at one moment, and the policies by which its members divide work.

Every policy is a function of the view alone, so all who hold the same view get the same answer: in every
process, on every machine, whatever the order in which members were read.

**The hash of `rank`.** BLAKE2b (RFC 7693) with 8 bytes of digest and no key, over

    the member's id, UTF-8 | one byte 0x00 | the key, UTF-8

read as a big-endian number. The member with the highest number is first (rendezvous hashing); equal numbers
are ordered by id. No id holds a zero byte, so two pairs never make one message. `gateway.rendezvous` hashes
replicas by the same function.

A view is no consensus: two processes that read at different moments may hold different ones for up to a beat.
What is divided by a view must be safe to be taken twice, and to be taken by nobody for a while.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from hashlib import blake2b

from gateway.fleet.member import FleetMember, MemberState, number_in

LOAD = "load"
"""The report's key that `excess` looks at."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """The members that were alive at `at`."""

    at: datetime
    """The store's clock when this was read."""
    members: tuple[FleetMember, ...] = ()
    """Sorted by id."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.members, key=lambda member: member.id))
        object.__setattr__(self, "members", ordered)
        if len({member.id for member in ordered}) != len(ordered):
            raise ValueError("two members of a view have the same id")

    def member(self, member_id: str) -> FleetMember | None:
        """The member with that id; None where it is not in this view."""
        return next((member for member in self.members if member.id == member_id), None)

    def serving(self) -> tuple[FleetMember, ...]:
        """The members that take work, sorted by id."""
        return tuple(self._in(("serving",)))

    def _in(self, states: Iterable[MemberState | str]) -> Iterator[FleetMember]:
        wanted = frozenset(map(MemberState, states))
        return (member for member in self.members if member.state in wanted)

    @property
    def hash(self) -> str:
        """16 hex digits, the same for all views whose members have the same ids, states and `since`.

        Reports and `at` do not count: two members that show the same hash divide work alike.
        """
        lines = (f"{member.id}\t{member.state}\t{member.since.isoformat()}\n" for member in self.members)
        return blake2b("".join(lines).encode(), digest_size=8).hexdigest()

    def rank(self, key: str, states: Iterable[MemberState | str] = ("serving",)) -> tuple[FleetMember, ...]:
        """The members in one of `states`, in the order in which they are to own `key`; the first one owns it.

        Without a member, only what it owned moves, each key to the next in its rank.
        """
        return tuple(
            sorted(self._in(states), key=lambda member: (-_digest(member.id, key), member.id)),
        )

    def share(self, total: int, me: str) -> int:
        """The part of `total` that falls to the member `me`; the parts of all serving members add up to it.

        What does not divide goes to the lowest ids, one each. 0 for one that is not serving.
        """
        if total < 0:
            raise ValueError(f"a total to share should be 0 or more, not {total}")
        serving = [member.id for member in self.serving()]
        if me not in serving:
            return 0
        each, left = divmod(total, len(serving))
        return each + (serving.index(me) < left)

    def settled(self, settle: timedelta) -> bool:
        """Whether every serving member has been there for `settle` or longer. True without any."""
        return all(self.at - member.since >= settle for member in self.serving())

    def loads(self) -> dict[str, Fraction]:
        """The load of each serving member that reports one of 0 or more, by id."""
        reported = {member.id: number_in(member.report, LOAD) for member in self.serving()}
        return {member_id: exact(load) for member_id, load in reported.items() if load is not None}

    def excess(
        self, me: str, tolerance: float, settle: timedelta, movable: str | None = None, smallest: int = 1
    ) -> int:
        """How many units of load the member `me` should hand over to the others.

        1. 0 for one that is not serving or reports no load, and until the view is settled for `settle`.
        2. The mean is that of the serving members that report a `load` of 0 or more.
        3. 0 unless the load is above mean x (1 + tolerance); then ceil(load - mean).
        4. With `movable`, a key of the report, at most the floor of what `me` reports there (nothing: 0).
        5. 0 where the result is below `smallest`.

        Numbers are taken as they are written in decimal: 13 is not above 10 x (1 + 0.3).
        """
        if not tolerance >= 0:
            raise ValueError(f"a tolerance should be 0 or more, not {tolerance}")
        loads = self.loads()
        if me not in loads or not self.settled(settle):
            return 0
        load, mean = loads[me], sum(loads.values(), Fraction()) / len(loads)
        if math.isinf(tolerance) or load <= mean * (1 + exact(tolerance)):
            return 0
        excess = math.ceil(load - mean)
        if movable is not None:
            mine = self.member(me)
            most = number_in(mine.report, movable) if mine is not None else None
            excess = min(excess, math.floor(most or 0))
        return excess if excess >= smallest else 0


def _digest(member_id: str, key: str) -> int:
    message = b"\x00".join((member_id.encode(), key.encode("utf-8", "surrogatepass")))
    return int.from_bytes(blake2b(message, digest_size=8).digest(), "big")


def exact(number: float) -> Fraction:
    """The number as its shortest decimal reads, so that no sum depends on rounding."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(float(number)))
