"""This gateway as a member of the gateways' fleet: what it tells the others, and what it makes of them.

It is `starting` until its replicas have been probed once, then `serving`, and `draining` from the moment in
which a drain begins. The first beat must be answered, or the gateway does not start. After that nothing about
the fleet ends it or a session: while the store does not answer, what was known last goes on to hold.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admission import Admission
from gateway.fleet.counts import counts_report
from gateway.fleet.instance import instance_id
from gateway.fleet.member import NOTHING, MemberState, Report
from gateway.fleet.membership import FleetMembership, FleetStatus
from gateway.fleet.spec import FleetSpec
from gateway.fleet.step import fleet_membership_lifecycle_step
from gateway.fleet.store import FleetStore
from gateway.logs import log_line
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.registry import ReplicaRegistry
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
        worker: int = 1,
        more: Callable[[], Report] = lambda: NOTHING,
    ) -> None:
        """`worker` is the number of this process among those of one server: each is a member. `more` is
        reported beside the counts.
        """
        self._settings = settings
        self._store = store
        self._registry, self._admission = registry, admission
        self._roster, self._monitor = roster, monitor
        self._worker, self._more = worker, more
        self.membership: FleetMembership | None = None
        """Inside `joined`; None outside it."""
        self._told_of_left_out = False

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
            self.membership = membership
            try:
                yield membership
            finally:
                self.membership = None

    async def run(self) -> None:
        """Return once the fleet is about to be told that this gateway serves."""
        await self._monitor.first_round_done.wait()
        self.say_soon()

    def say_soon(self) -> None:
        """What has changed about this gateway is told before the next beat would be due."""
        if self.membership is not None:
            self.membership.beat_soon()

    def status(self) -> FleetStatus | None:
        """The fleet as it was seen last; None outside `joined`."""
        return self.membership.status() if self.membership is not None else None

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


def member_id(name: str | None, worker: int) -> str:
    """Who the server worker of that number is, in a gateway that is called `name` over its restarts."""
    if name is None:
        return instance_id()
    return name if worker == 1 else f"{name}:{worker}"
