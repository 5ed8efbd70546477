"""This gateway as a member of the gateways' fleet: what it tells the others, and what it makes of them.

It is `starting` until its replicas have been probed once, then `serving`, and `draining` from the moment in
which a drain begins. From each view it takes two things, by `gateway.fleet.occupancy`: how many sessions the
others have on each replica, and its own share of `admission.max_sessions`, which is for the whole fleet.

The first beat must be answered, or the gateway does not start; and it takes no session before the fleet knows
that it serves. After that nothing about the fleet ends it or a session: while the store does not answer, what
was known last goes on to hold.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admission import Admission
from gateway.clock import Clock, SystemClock
from gateway.fleet.counts import counts_report
from gateway.fleet.instance import instance_id
from gateway.fleet.member import NOTHING, MemberState, Report
from gateway.fleet.membership import FleetMembership, FleetStatus
from gateway.fleet.occupancy import Belief, elsewhere
from gateway.fleet.sighting import Sighting
from gateway.fleet.spec import FleetSpec
from gateway.fleet.step import fleet_membership_lifecycle_step
from gateway.fleet.store import FleetStore
from gateway.fleet.view import FleetView
from gateway.logs import log_line
from gateway.replicas.model import Elsewhere
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.registry import ReplicaRegistry
from gateway.replicas.urls import normalised_url
from gateway.session.roster import Roster
from gateway.settings.meeting import FleetSettings

logger = logging.getLogger("streamhold.fleet")


class InFleet:
    """One gateway's part in its fleet. One membership for each time that the gateway runs."""

    def __init__(
        self,
        settings: FleetSettings,
        store: Callable[[FleetSpec], FleetStore],
        *,
        registry: ReplicaRegistry,
        admission: Admission,
        roster: Roster,
        monitor: HealthMonitor,
        max_sessions: int,
        worker: int = 1,
        more: Callable[[], Report] = lambda: NOTHING,
        clock: Clock | None = None,
    ) -> None:
        """`max_sessions` are for the whole fleet. `worker` is the number of this process among those of one
        server: each is a member. `more` is reported beside the counts.
        """
        self._settings = settings
        self._store = store
        self._registry, self._admission = registry, admission
        self._roster, self._monitor = roster, monitor
        self._max_sessions = max_sessions
        self._worker, self._more = worker, more
        self._clock: Clock = clock if clock is not None else SystemClock()
        self.membership: FleetMembership | None = None
        """Inside `joined`; None outside it."""
        self.joining = True
        """The fleet does not know yet that this gateway serves: it takes no session."""
        self._share = 0
        self._belief: Belief | None = None
        self._told_of_left_out = False
        self._without_share = False

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[FleetMembership]:
        """Inside, the fleet has this gateway. Raises what kept the first beat from its answer."""
        cadence = self._settings.cadence()
        spec = self._settings.spec()
        membership = fleet_membership_lifecycle_step(
            spec,
            store=self._store(spec),
            every=cadence.every,
            report=self._report,
            state=self._state,
            member_id=member_id(self._settings.member_id, self._worker),
            on_stop=cadence.on_stop,
            linger_for=cadence.linger_for,
        )
        async with membership:
            self.membership, self._belief, self.joining = membership, None, True
            self._see(membership.sighting)
            unsubscribe = membership.subscribe(self._see)
            try:
                yield membership
            finally:
                unsubscribe()
                self.membership = None

    async def run(self) -> None:
        """Until cancelled, say soon what cannot wait for the next beat, and see to it that nobody waits for a
        store that does not answer.
        """
        await self._monitor.first_round_done.wait()
        self.say_soon()
        while True:
            await self._clock.sleep(self._settings.every_seconds)
            if self.membership is not None and not self.membership.fresh:
                self._leave_nothing_to_others()

    def say_soon(self) -> None:
        """What has changed about this gateway is told before the next beat would be due."""
        if self.membership is not None:
            self.membership.beat_soon()

    @property
    def share(self) -> int:
        """This gateway's part of the sessions that the fleet may have."""
        return self._share

    def status(self) -> FleetStatus | None:
        """The fleet as it was seen last; None outside `joined`."""
        return self.membership.status() if self.membership is not None else None

    def _see(self, sighting: Sighting) -> None:
        """What the newest view says holds from now on."""
        assert self.membership is not None
        me, ttl = self.membership.id, self.membership.spec.ttl
        before = self._belief
        self._belief = before.next(sighting.view, me, ttl) if before is not None else Belief(sighting.view)
        view = self._belief.view
        self.joining = self.joining and not _serves(view, me)
        self._share = view.share(self._max_sessions, me)
        self._admission.admit_at_most(self._share)
        self._tell_without_share(not self._share and _serves(view, me), len(view.serving()))
        limits = {normalised_url(one.url): one.endpoint.max_sessions for one in self._registry.all()}
        self._registry.note_elsewhere(elsewhere(view, me, limits, ttl))

    def _tell_without_share(self, without: bool, gateways: int) -> None:
        """One warning where it serves and none of the fleet's sessions is its part, once until it has one."""
        if without and not self._without_share:
            advice = "every client is refused here: admission.max_sessions is below the number of gateways"
            line = log_line(
                "fleet_share_none", max_sessions=self._max_sessions, gateways=gateways, message=advice
            )
            logger.warning(line)
        self._without_share = without

    def _leave_nothing_to_others(self) -> None:
        """Their sessions count as before. What they wished is long ago."""
        counts = {
            normalised_url(one.url): Elsewhere(one.elsewhere.sessions)
            for one in self._registry.all()
            if one.elsewhere.places
        }
        self._registry.note_elsewhere(counts)

    def _state(self) -> MemberState:
        if self._roster.draining:
            return MemberState.DRAINING
        return MemberState.SERVING if self._monitor.first_round_done.is_set() else MemberState.STARTING

    def _report(self) -> Report:
        held = {replica.url: replica.sessions for replica in self._registry.all()}
        most = self._settings.report_max_bytes
        report, left_out = counts_report(held, self._admission.waiting, most, self._more())
        if left_out and not self._told_of_left_out:
            self._told_of_left_out = True
            advice = "their sessions here are not seen by other gateways: raise fleet.report_max_bytes"
            logger.warning(
                log_line("fleet_report_full", left_out=left_out, report_max_bytes=most, message=advice)
            )
        return report


def _serves(view: FleetView, me: str) -> bool:
    return any(member.id == me for member in view.serving())


def member_id(name: str | None, worker: int) -> str:
    """Who the server worker of that number is, in a gateway that is called `name` over its restarts."""
    if name is None:
        return instance_id()
    return name if worker == 1 else f"{name}:{worker}"
