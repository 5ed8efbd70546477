"""The only owner of what changes about replicas: their health, their session counts, draining and removal.

Everyone else reads: a live `Replica` view, or a snapshot of `Candidate` values to choose from. All changes
happen between two awaits of one event loop, so that choosing a replica and leasing it is one step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from types import TracebackType

from gateway.clock import Clock, SystemClock
from gateway.logs import log_line
from gateway.replicas.health import after_failure, after_success
from gateway.replicas.model import (
    Candidate,
    Replica,
    ReplicaEndpoint,
    ReplicaHealth,
    ReplicaStatus,
    normalised_url,
    replicas_problems,
)

logger = logging.getLogger("streamhold.replicas")


@dataclass(frozen=True, slots=True)
class ReplicaJoined:
    url: str


@dataclass(frozen=True, slots=True)
class ReplicaGone:
    """The replica was removed, and its last lease has ended."""

    url: str


@dataclass(frozen=True, slots=True)
class StatusChanged:
    url: str
    before: ReplicaStatus
    after: ReplicaStatus
    reason: str


RegistryEvent = ReplicaJoined | ReplicaGone | StatusChanged
Listener = Callable[[RegistryEvent], None]


class Lease:
    """One session's place on a replica, held until `release()` or the end of its `with`."""

    __slots__ = ("_held", "_pending", "_registry", "_replica")

    def __init__(self, registry: ReplicaRegistry, replica: Replica) -> None:
        self._registry = registry
        self._replica = replica
        self._held = True
        self._pending = True
        replica.sessions += 1
        replica.pending += 1

    @property
    def replica(self) -> Replica:
        return self._replica

    @property
    def url(self) -> str:
        return self._replica.url

    def opened(self) -> None:
        """The upstream handshake has finished: the lease is no longer pending. Idempotent."""
        if self._pending:
            self._pending = False
            self._replica.pending -= 1

    def release(self) -> None:
        """The place is free again. Idempotent."""
        if not self._held:
            return
        self.opened()
        self._held = False
        self._replica.sessions -= 1
        self._registry._lease_ended(self._replica)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class ReplicaRegistry:
    """Every replica known, in the order in which it was given.

    A replica is found under any spelling of its URL, and keeps the spelling under which it first came.
    """

    def __init__(self, replicas: list[ReplicaEndpoint], *, clock: Clock | None = None) -> None:
        """Raises ValueError when there is no replica, or one of them comes twice."""
        if not replicas:
            raise ValueError("a registry needs at least one replica to begin with")
        for problem in replicas_problems(replicas):
            if problem.startswith("Duplicate"):
                raise ValueError(problem)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._replicas = {normalised_url(endpoint.url): Replica(endpoint) for endpoint in replicas}
        self._listeners: list[Listener] = []

    def all(self) -> list[Replica]:
        return list(self._replicas.values())

    def get(self, url: str) -> Replica | None:
        return self._replicas.get(normalised_url(url))

    def primaries(self) -> list[Replica]:
        return [replica for replica in self._replicas.values() if replica.primary]

    def select(self) -> Replica | None:
        """The first primary that takes a session, else the first replica that does, else None.

        To take a session a replica must be healthy, neither draining nor removed, and below its own limit.
        """
        taking = [replica for replica in self._replicas.values() if replica.takes_sessions]
        return next((replica for replica in taking if replica.primary), next(iter(taking), None))

    def candidates(self, exclude: Collection[str] = ()) -> tuple[Candidate, ...]:
        """A snapshot of every replica that has not been removed, without those at the URLs of `exclude`."""
        excluded = {normalised_url(url) for url in exclude}
        return tuple(
            Candidate(
                url=replica.url,
                name=replica.name,
                primary=replica.primary,
                weight=replica.endpoint.weight,
                healthy=replica.is_healthy,
                draining=replica.draining,
                sessions=replica.sessions,
                max_sessions=replica.endpoint.max_sessions,
            )
            for key, replica in self._replicas.items()
            if not replica.removed and key not in excluded
        )

    def lease(self, url: str) -> Lease:
        """A place on the replica at `url`, counted at once. Raises KeyError when there is none.

        Limits are selection's matter: a lease is granted on a full or draining replica as well.
        """
        return Lease(self, self._replicas[normalised_url(url)])

    def drain(self, url: str, draining: bool = True) -> None:
        """The replica takes no new session, or takes them again. Raises KeyError for an unknown URL."""
        replica = self._replicas[normalised_url(url)]
        if replica.draining is not draining:
            replica.draining = draining
            event = "replica_draining" if draining else "replica_undrained"
            logger.info(log_line(event, replica=replica.name, url=replica.url, sessions=replica.sessions))

    def reconcile(self, endpoints: Iterable[ReplicaEndpoint]) -> None:
        """Afterwards `endpoints` are the replicas, in their order; no session is touched.

        New ones join as unknown. Those that stay keep health, sessions and draining, and take over name,
        weight, primary and limit. Missing ones are removed: they go when their last lease ends, at once
        without one, and are taken back when they come again before that. Of endpoints with the same URL the
        first counts.
        """
        wanted: dict[str, ReplicaEndpoint] = {}
        for endpoint in endpoints:
            if wanted.setdefault(normalised_url(endpoint.url), endpoint) is not endpoint:
                logger.warning(log_line("replica_duplicate_ignored", url=endpoint.url))
        before = self._replicas
        self._replicas = {
            key: self._kept(before[key], endpoint) if key in before else Replica(endpoint)
            for key, endpoint in wanted.items()
        }
        missing = {key: replica for key, replica in before.items() if key not in wanted}
        self._replicas |= missing
        for key in wanted.keys() - before.keys():
            self._joined(self._replicas[key])
        for replica in missing.values():
            self._remove(replica)

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
        """One success counts for `replica`."""
        health = after_success(
            replica.health,
            at=self._clock.time(),
            latency_ms=latency_ms,
            recovery_threshold=recovery_threshold,
        )
        self._judge(replica, health, reason="health check passed")

    def note_failure(self, replica: Replica, *, failure_threshold: int, reason: str) -> None:
        """One failure counts against `replica`."""
        health = after_failure(replica.health, at=self._clock.time(), failure_threshold=failure_threshold)
        self._judge(replica, health, reason=reason)

    def _judge(self, replica: Replica, health: ReplicaHealth, *, reason: str) -> None:
        before, replica.health = replica.health.status, health
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
        self._tell(StatusChanged(replica.url, before, health.status, reason))

    def _kept(self, replica: Replica, endpoint: ReplicaEndpoint) -> Replica:
        replica.endpoint = replace(endpoint, url=replica.url)
        if replica.removed:
            replica.removed = False
            logger.info(log_line("replica_returned", replica=replica.name, url=replica.url))
        return replica

    def _joined(self, replica: Replica) -> None:
        logger.info(log_line("replica_joined", replica=replica.name, url=replica.url))
        self._tell(ReplicaJoined(replica.url))

    def _remove(self, replica: Replica) -> None:
        if not replica.removed:
            replica.removed = True
            logger.info(
                log_line("replica_removed", replica=replica.name, url=replica.url, sessions=replica.sessions)
            )
        self._lease_ended(replica)

    def _lease_ended(self, replica: Replica) -> None:
        key = normalised_url(replica.url)
        if replica.removed and not replica.sessions and self._replicas.get(key) is replica:
            del self._replicas[key]
            logger.info(log_line("replica_gone", replica=replica.name, url=replica.url))
            self._tell(ReplicaGone(replica.url))

    def _tell(self, event: RegistryEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
