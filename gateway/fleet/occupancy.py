"""PURE. What the gateways of a fleet leave to each other, as a function of the views that one of them sees.

1. On a replica are the sessions of all members, as each said last. So what another gateway has opened or
   ended is known a beat of its own and a beat of one's own later, and two that see the last place within that
   time may both take it: the replica itself refuses one of them.
2. While clients wait at other gateways, free places are dealt out among those gateways and this one, in the
   order of `rank`, begun at another one for each replica: so not everyone takes the same place. A gateway
   that had a place when it last reported may fill it again, whoever waits elsewhere. The order is a new one
   each half ttl: whoever cannot use a place keeps it from others for no longer than that.
3. Who is gone from a view is gone, with all that it had. But where this member's own entry was gone as well,
   the store has lost them all: those who are missing are believed to be there, as they were, for a ttl. By
   then whoever is alive has said so again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from gateway.fleet.counts import counted_sessions, replica_key, waiting_in
from gateway.fleet.view import FleetView
from gateway.replicas.model import Elsewhere

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Belief:
    """Who is there, as one member believes after its newest view."""

    view: FleetView
    """The newest one, and in it the members that are missing there and believed in all the same."""
    emptied_at: datetime | None = None
    """When the store was last seen to have lost its entries, by its own clock."""

    def next(self, view: FleetView, me: str, ttl: timedelta) -> Belief:
        """What the member `me` believes once `view` has followed."""
        before, after = self.view.member(me), view.member(me)
        was_lost = before is not None and after is not None and before.since != after.since
        emptied_at = view.at if was_lost else self.emptied_at
        if emptied_at is None or not timedelta(0) <= view.at - emptied_at < ttl:
            return Belief(view)
        there = {member.id for member in view.members}
        missing = (member for member in self.view.members if member.id not in there)
        return Belief(FleetView(view.at, (*view.members, *missing)), emptied_at)


def elsewhere(
    view: FleetView, me: str, limits: Mapping[str, int | None], ttl: timedelta
) -> dict[str, Elsewhere]:
    """What the others have and want of each replica, by its normalised URL; nothing of those left out.

    `limits` are the replicas' session limits by normalised URL.
    """
    taken: Counter[str] = Counter()
    for member in view.members:
        if member.id != me:
            taken.update(counted_sessions(member.report))
    mine = view.member(me)
    held = counted_sessions(mine.report) if mine is not None else {}
    takers = _takers(view, me, ttl)
    found: dict[str, Elsewhere] = {}
    for url, limit in limits.items():
        key = replica_key(url)
        free = limit - taken[key] - held.get(key, 0) if limit is not None else 0
        reserved = free - _part(takers, me, free, key) if free > 0 else 0
        if taken[key] or reserved:
            found[url] = Elsewhere(taken[key], reserved)
    return found


def _takers(view: FleetView, me: str, ttl: timedelta) -> Sequence[str]:
    """Those among whom free places are dealt out, in their order."""
    wanting = tuple(one for one in view.serving() if one.id == me or waiting_in(one.report))
    half_ttl = (view.at - _EPOCH) // (ttl / 2)
    return [member.id for member in FleetView(view.at, wanting).rank(str(half_ttl))]


def _part(takers: Sequence[str], me: str, free: int, key: str) -> int:
    """How many of a replica's `free` places fall to `me`; all where nobody else wants one."""
    if not takers or takers == [me]:
        return free
    if me not in takers:
        return 0
    first = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    each, left = divmod(free, len(takers))
    return each + ((takers.index(me) - first) % len(takers) < left)
