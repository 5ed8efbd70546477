"""The only owner of what changes about replicas: their health, their session counts, draining and removal.

Everyone else reads: a live `Replica` view, or a snapshot of `Candidate` values to choose from. All changes
happen between two awaits of one event loop, so that choosing a replica and leasing it is one step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from gateway.clock import Clock, SystemClock
from gateway.logs import log_line
from gateway.replicas.endpoint import ReplicaEndpoint, replicas_problems
from gateway.replicas.events import (
    PlaceFreed,
    PlacesWithdrawn,
    RegistryEvent,
    ReplicaGone,
    ReplicaJoined,
    ReplicaRemoved,
    ReplicaSlept,
    ReplicaWoke,
    StatusChanged,
)
from gateway.replicas.health import after_failure, after_success
from gateway.replicas.lease import Lease
from gateway.replicas.model import NOWHERE, Candidate, Elsewhere, Replica, ReplicaHealth, ReplicaStatus
from gateway.replicas.outlier import OutlierPolicy, after_loss, after_progress, may_eject
from gateway.replicas.snapshot import first_choice, snapshot
from gateway.replicas.urls import normalised_url

logger = logging.getLogger("streamhold.replicas")

Listener = Callable[[RegistryEvent], None]


class ReplicaRegistry:
    """Every replica known, in the order in which it was given.

    A replica is found under any spelling of its URL, and keeps the spelling under which it first came.
    """

    def __init__(
        self,
        replicas: list[ReplicaEndpoint],
        *,
        clock: Clock | None = None,
        slow_start_seconds: float = 0.0,
        outlier: OutlierPolicy | None = None,
    ) -> None:
        """Raises ValueError when one of the replicas comes twice. There may be none: discovery brings some.

        `slow_start_seconds` is how long a replica that joins or comes back takes to its whole share; 0 is at
        once.
        """
        for problem in replicas_problems(replicas):
            if problem.startswith("Duplicate"):
                raise ValueError(problem)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._elsewhere: Mapping[str, Elsewhere] = {}
        self._replicas = {normalised_url(endpoint.url): self._new(endpoint) for endpoint in replicas}
        self._slow_start_seconds = slow_start_seconds
        self._outlier = outlier if outlier is not None else OutlierPolicy()
        self._listeners: list[Listener] = []

    def all(self) -> list[Replica]:
        return list(self._replicas.values())

    def get(self, url: str) -> Replica | None:
        return self._replicas.get(normalised_url(url))

    def primaries(self) -> list[Replica]:
        return [replica for replica in self._replicas.values() if replica.primary]

    def select(self) -> Replica | None:
        """The first primary that takes a session, else the first replica that does, else None.

        To take a session a replica must be healthy, neither draining nor removed, and have room; one that is
        ejected takes some only where no other is usable, and one that sleeps only where no other has room.
        """
        first = first_choice(self.candidates())
        return self.get(first.url) if first is not None else None

    def candidates(self, exclude: Collection[str] = ()) -> tuple[Candidate, ...]:
        """A snapshot of every replica that has not been removed, without those at the URLs of `exclude`."""
        excluded = {normalised_url(url) for url in exclude}
        now = self._clock.monotonic()
        return tuple(
            self._seen(replica, now)
            for key, replica in self._replicas.items()
            if not replica.removed and key not in excluded
        )

    def snapshot(self, replica: Replica) -> Candidate:
        """`replica` as it is at this moment."""
        return self._seen(replica, self._clock.monotonic())

    def _seen(self, replica: Replica, now: float) -> Candidate:
        return snapshot(replica, now=now, slow_start_seconds=self._slow_start_seconds)

    def lease(self, url: str) -> Lease:
        """A place on the replica at `url`, counted at once. Raises KeyError when there is none.

        Limits are selection's matter: a lease is granted on a full or draining replica as well.
        """
        return Lease(self._replicas[normalised_url(url)], self._lease_ended)

    def drain(self, url: str, draining: bool = True) -> None:
        """The replica takes no new session, or takes them again. Raises KeyError for an unknown URL."""
        replica = self._replicas[normalised_url(url)]
        if replica.draining is not draining:
            replica.draining = draining
            self._leaving_changed(replica, leaving=draining, by=None)
            self._tell_freed(replica)

    def note_elsewhere(self, elsewhere: Mapping[str, Elsewhere]) -> None:
        """Afterwards this is what other gateways have and want of each replica, by its normalised URL, and
        nothing of those that are not in it. It also holds for replicas that join later.
        """
        self._elsewhere = elsewhere
        freed: list[Replica] = []
        for key, replica in self._replicas.items():
            before, replica.elsewhere = replica.elsewhere, elsewhere.get(key, NOWHERE)
            self._mind_idleness(replica)
            if replica.elsewhere.places < before.places:
                freed.append(replica)
        for replica in freed:
            self._tell_freed(replica)

    def mark_full(self, url: str, seconds: float) -> None:
        """The replica counts as full for `seconds`, or longer where it already did. Its health is untouched.

        For one that took the connection and then said that it has no room: only it knows of its other
        sessions.
        """
        if (replica := self.get(url)) is not None:
            self._end_moments(replica)
            until = self._clock.monotonic() + seconds
            replica.refusing_until = max(until, replica.refusing_until or until)

    def blame(self, url: str) -> None:
        """A session was lost by the fault of the replica at `url`; too many in a row eject it."""
        if (replica := self.get(url)) is None:
            return
        self._end_moments(replica)
        now = self._clock.monotonic()
        usable = [other for other in self.candidates() if other.usable]
        permitted = replica.url in {other.url for other in usable} and may_eject(
            self._outlier, usable=len(usable), ejected=sum(other.ejected for other in usable)
        )
        before = replica.outlier
        replica.outlier = after_loss(self._outlier, before, at=now, permitted=permitted)
        if replica.outlier.ejected(now) and not before.ejected(now):
            self._eject(replica, losses=before.losses + 1)

    def praise(self, url: str) -> None:
        """A session got on at the replica at `url`: its losses until now are no row."""
        if (replica := self.get(url)) is not None:
            replica.outlier = after_progress(replica.outlier)

    def next_place_seconds(self) -> float | None:
        """In how many seconds the first replica stops refusing or being ejected; None when none does either.

        `PlaceFreed` is told of it only by `settle`, and by probes: there is no timer here.
        """
        now = self._clock.monotonic()
        ends = [
            end
            for replica in self._replicas.values()
            for end in (replica.refusing_until, replica.outlier.ejected_until)
            if end is not None and end > now
        ]
        return min(ends) - now if ends else None

    def settle(self) -> None:
        """Tell `PlaceFreed` of every replica that has stopped refusing or being ejected, once each."""
        for replica in self.all():
            self._end_moments(replica)

    def reconcile(self, endpoints: Iterable[ReplicaEndpoint], *, withheld: Collection[str] = ()) -> None:
        """Afterwards `endpoints` are the replicas, in their order; no session is touched.

        New ones join as unknown. Those that stay keep health, sessions and draining, and take over name,
        weight, primary and limit. Missing ones are removed: they go when their last lease ends, at once
        without one, and are taken back when they come again before that. Of endpoints with the same URL the
        first counts. Those at the URLs of `withheld` take no new session, whatever people say of them.
        """
        held = {normalised_url(url) for url in withheld}
        wanted: dict[str, ReplicaEndpoint] = {}
        for endpoint in endpoints:
            if wanted.setdefault(normalised_url(endpoint.url), endpoint) is not endpoint:
                logger.warning(log_line("replica_duplicate_ignored", url=endpoint.url))
        before = self._replicas
        self._replicas = {
            key: self._kept(before[key], endpoint) if key in before else self._new(endpoint)
            for key, endpoint in wanted.items()
        }
        missing = {key: replica for key, replica in before.items() if key not in wanted}
        self._replicas |= missing
        for key in wanted:
            if key in before:
                self._withhold(self._replicas[key], key in held)
                self._rouse(self._replicas[key])
                self._tell_freed(self._replicas[key])  # its limit may have risen, or it was taken back
            else:
                self._joined(self._replicas[key], withheld=key in held)
        for replica in missing.values():
            self._remove(replica)

    def let_sleep(self, replica: Replica, *, idle_seconds: float) -> None:
        """Afterwards `replica` sleeps, if it is one for that and has had no session, of any gateway, for so
        long. Whatever was known of its health is of another life.
        """
        since = replica.idle_since
        if not replica.endpoint.cold_start or replica.sleeping or since is None:
            return
        if self._clock.monotonic() - since < idle_seconds or self.get(replica.url) is not replica:
            return
        was = replica.health.status
        replica.sleeping = True
        replica.health = replace(
            replica.health,
            status=ReplicaStatus.UNKNOWN,
            consecutive_failures=0,
            consecutive_successes=0,
        )
        logger.info(log_line("replica_sleeps", replica=replica.name, url=replica.url, was=was.value))
        self._tell(ReplicaSlept(replica.url))
        self._tell_freed(replica)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, in the step that caused it; the result ends that.

        A listener must not raise, and finds the registry already changed.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def record_success(self, replica: Replica, *, recovery_threshold: int, latency_ms: float) -> None:
        """`note_success`, for callers that await."""
        self.note_success(replica, recovery_threshold=recovery_threshold, latency_ms=latency_ms)

    async def record_failure(self, replica: Replica, *, failure_threshold: int, reason: str) -> None:
        """`note_failure`, for callers that await."""
        self.note_failure(replica, failure_threshold=failure_threshold, reason=reason)

    def note_success(self, replica: Replica, *, recovery_threshold: int, latency_ms: float) -> None:
        """One success counts for `replica`; one that slept is awake and healthy."""
        self._end_moments(replica)
        health = after_success(
            replica.health,
            at=self._clock.time(),
            latency_ms=latency_ms,
            recovery_threshold=recovery_threshold,
        )
        self._judge(replica, health, reason="health check passed")

    def note_failure(self, replica: Replica, *, failure_threshold: int, reason: str) -> None:
        """One failure counts against `replica`; one that slept could not be woken, and is unhealthy."""
        self._end_moments(replica)
        if replica.sleeping:
            failure_threshold = 1  # there was time enough
        health = after_failure(replica.health, at=self._clock.time(), failure_threshold=failure_threshold)
        self._judge(replica, health, reason=reason)

    def _judge(self, replica: Replica, health: ReplicaHealth, *, reason: str) -> None:
        before, replica.health = replica.health.status, health
        slept, replica.sleeping = replica.sleeping, False
        self._tell_judgement(replica, before, reason)
        if slept:
            self._tell(ReplicaWoke(replica.url))

    def _tell_judgement(self, replica: Replica, before: ReplicaStatus, reason: str) -> None:
        health = replica.health
        if before is health.status or self.get(replica.url) is not replica:
            return  # nothing new, or a replica that is gone: late evidence concerns nobody
        line = log_line(
            f"replica_{health.status.value}",
            replica=replica.name,
            url=replica.url,
            was=before.value,
            reason=reason,
            failures=health.consecutive_failures or None,
            sessions=replica.sessions,
        )
        logger.log(logging.WARNING if health.status is ReplicaStatus.UNHEALTHY else logging.INFO, line)
        comes_back = before is ReplicaStatus.UNHEALTHY or replica.serving_since is not None
        if health.status is ReplicaStatus.HEALTHY and comes_back:
            replica.serving_since = self._clock.monotonic()
            replica.outlier = after_progress(replica.outlier)  # what it lost before it went is another story
        self._tell(StatusChanged(replica.url, before, health.status, reason))
        if health.status is ReplicaStatus.HEALTHY:
            self._tell_freed(replica)

    def _end_moments(self, replica: Replica) -> None:
        """Note what has ended by itself since somebody last looked."""
        now = self._clock.monotonic()
        refused = replica.refusing_until is not None and replica.refusing_until <= now
        returned = replica.ejected and not replica.outlier.ejected(now)
        if refused:
            replica.refusing_until = None
        if returned:
            replica.ejected = False
            logger.info(log_line("replica_unejected", replica=replica.name, url=replica.url))
        if refused or returned:
            self._tell_freed(replica)

    def _eject(self, replica: Replica, *, losses: int) -> None:
        replica.ejected = True
        seconds = (replica.outlier.ejected_until or 0.0) - self._clock.monotonic()
        line = log_line(
            "replica_ejected",
            replica=replica.name,
            url=replica.url,
            losses=losses,
            for_seconds=round(seconds, 3),
        )
        logger.warning(line)

    def _tell_freed(self, replica: Replica) -> None:
        if (replica.is_healthy or replica.sleeping) and not (replica.leaving or replica.removed):
            self._tell(PlaceFreed(replica.url))

    def _withhold(self, replica: Replica, withheld: bool) -> None:
        if replica.withheld is not withheld:
            replica.withheld = withheld
            self._leaving_changed(replica, leaving=withheld, by="discovery")

    def _rouse(self, replica: Replica) -> None:
        """One that may no longer sleep is awake."""
        if replica.sleeping and not replica.endpoint.cold_start:
            replica.sleeping = False
            self._tell(ReplicaWoke(replica.url))

    def _leaving_changed(self, replica: Replica, *, leaving: bool, by: str | None) -> None:
        event = "replica_draining" if leaving else "replica_undrained"
        line = log_line(event, replica=replica.name, url=replica.url, by=by, sessions=replica.sessions)
        logger.info(line)
        if leaving:
            self._tell(PlacesWithdrawn(replica.url))

    def _new(self, endpoint: ReplicaEndpoint) -> Replica:
        elsewhere = self._elsewhere.get(normalised_url(endpoint.url), NOWHERE)
        idle_since = None if elsewhere.sessions else self._clock.monotonic()
        return Replica(endpoint, sleeping=endpoint.cold_start, idle_since=idle_since, elsewhere=elsewhere)

    def _kept(self, replica: Replica, endpoint: ReplicaEndpoint) -> Replica:
        replica.endpoint = replace(endpoint, url=replica.url)
        if replica.removed:
            replica.removed = False
            logger.info(log_line("replica_returned", replica=replica.name, url=replica.url))
        return replica

    def _joined(self, replica: Replica, *, withheld: bool) -> None:
        replica.serving_since = self._clock.monotonic()
        replica.withheld = withheld
        draining = withheld or None
        logger.info(log_line("replica_joined", replica=replica.name, url=replica.url, draining=draining))
        self._tell(ReplicaJoined(replica.url))

    def _remove(self, replica: Replica) -> None:
        if not replica.removed:
            replica.removed = True
            logger.info(
                log_line("replica_removed", replica=replica.name, url=replica.url, sessions=replica.sessions)
            )
            self._tell(PlacesWithdrawn(replica.url))
            self._tell(ReplicaRemoved(replica.url))
        self._lease_ended(replica)

    def _mind_idleness(self, replica: Replica) -> None:
        if replica.sessions or replica.elsewhere.sessions:
            replica.idle_since = None
        elif replica.idle_since is None:
            replica.idle_since = self._clock.monotonic()

    def _lease_ended(self, replica: Replica) -> None:
        key = normalised_url(replica.url)
        self._mind_idleness(replica)
        if replica.removed and not replica.sessions and self._replicas.get(key) is replica:
            del self._replicas[key]
            logger.info(log_line("replica_gone", replica=replica.name, url=replica.url))
            self._tell(ReplicaGone(replica.url))
        else:
            self._tell_freed(replica)

    def _tell(self, event: RegistryEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
