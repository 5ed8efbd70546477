"""Replicas that announce themselves in a fleet, which the gateway reads without being a member of it.

1. A member's report is its announcement (`gateway.fleet.announcement`). What is none is left out, and told
   of.
2. `serving` members get sessions. Those that are `starting` or `draining` are known and probed, and get
   none.
3. Of two members with one URL the one that joined last counts: the other is what a killed process left
   behind.
"""

from __future__ import annotations

from gateway.discovery.listing import Listed, Listing, Problem
from gateway.discovery.watch import Pace
from gateway.errors import FleetRefused, FleetUnavailable, SourceUnavailable
from gateway.fleet.announcement import read_announcement
from gateway.fleet.member import MemberState
from gateway.fleet.store import FleetStore
from gateway.fleet.view import FleetView


class FleetSource:
    """A `ReplicaSource` over the store of the streamers' fleet."""

    kind = "fleet"

    def __init__(self, store: FleetStore, pace: Pace) -> None:
        self._store = store
        self.pace = pace

    async def revision(self) -> str | None:
        """None: one call brings the whole list."""
        return None

    async def listing(self) -> Listing:
        try:
            return listing_of(await self._store.view())
        except FleetUnavailable as error:
            raise SourceUnavailable(str(error)) from error


def listing_of(view: FleetView) -> Listing:
    """The replicas among the members of `view`."""
    found: dict[str, Listed] = {}
    problems: list[Problem] = []
    for member in sorted(view.members, key=lambda member: (member.since, member.id)):
        try:
            announced = read_announcement(member)
        except FleetRefused as refused:
            problems.append(Problem(member.id, str(refused)))
            continue
        takes = member.state is MemberState.SERVING and announced.has_places
        listed = Listed(announced.endpoint, takes)
        found[listed.key] = listed
    return Listing(tuple(found.values()), tuple(problems))
