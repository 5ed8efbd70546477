"""Sessions that wait for places of a real registry, by a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.admission import Admission, QueueFull, QueueTimeout, Turn
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.lease import Lease
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import NoneHealthy, Policy
from tests.support.manual_clock import ManualClock, settle

Outcome = Lease | QueueFull | QueueTimeout | NoneHealthy

A, B, C = (f"http://127.0.0.1:{port}" for port in (9101, 9102, 9103))


@dataclass(eq=False)
class Session:
    """One that asked for a place."""

    task: asyncio.Task[Outcome]
    told: list[tuple[int, int]] = field(default_factory=list)
    """The positions and depths that it was told, in order."""

    @property
    def waits(self) -> bool:
        return not self.task.done()

    @property
    def outcome(self) -> Outcome | None:
        """None while it waits, and after it has left."""
        return self.task.result() if self.task.done() and not self.task.cancelled() else None

    @property
    def lease(self) -> Lease:
        assert isinstance(self.outcome, Lease)
        return self.outcome

    @property
    def url(self) -> str | None:
        return self.outcome.url if isinstance(self.outcome, Lease) else None


@dataclass
class WaitingRoom:
    registry: ReplicaRegistry
    admission: Admission
    clock: ManualClock
    keeper: asyncio.Task[None]
    """Runs `Admission.run`."""
    _tasks: asyncio.TaskGroup

    def asks(self, tried: Collection[str] = (), key: str | None = None, turn: Turn | None = None) -> Session:
        """A session that asks when its task runs for the first time."""
        told: list[tuple[int, int]] = []

        def on_position(position: int, depth: int) -> None:
            told.append((position, depth))

        waiting = self.admission.wait(tried, key=key, on_position=on_position, turn=turn)
        return Session(self._tasks.create_task(waiting), told)

    async def join(self, tried: Collection[str] = (), key: str | None = None) -> Session:
        session = self.asks(tried, key)
        await settle()
        return session

    async def joined(self, count: int) -> list[Session]:
        return [await self.join() for _ in range(count)]

    async def leave(self, session: Session) -> None:
        session.task.cancel()
        await settle()

    async def release(self, *leases: Lease) -> None:
        for lease in leases:
            lease.release()
        await settle()

    def turn_healthy(self, *urls: str) -> None:
        for url in urls:
            if (replica := self.registry.get(url)) is not None:
                self.registry.note_success(replica, recovery_threshold=1, latency_ms=1)

    def turn_unhealthy(self, *urls: str) -> None:
        for url in urls:
            if (replica := self.registry.get(url)) is not None:
                self.registry.note_failure(replica, failure_threshold=1, reason="test")

    def fill(self) -> list[Lease]:
        """Take every place that there is."""
        leases = []
        while isinstance(placed := self.admission.place(), Lease):
            leases.append(placed)
        return leases

    @property
    def sessions(self) -> int:
        """Leases on all replicas."""
        return sum(replica.sessions for replica in self.registry.all())


@asynccontextmanager
async def waiting_room(
    urls: Iterable[str] = (A,),
    *,
    limit: int | None = 1,
    queue_size: int = 2000,
    timeout_seconds: float = 30.0,
    policy: Policy = Policy.PRIORITY,
) -> AsyncIterator[WaitingRoom]:
    """Healthy replicas at `urls` that take `limit` sessions each. Who still waits at the end is sent away."""
    clock = ManualClock()
    registry = ReplicaRegistry([ReplicaEndpoint(url, max_sessions=limit) for url in urls], clock=clock)
    admission = Admission(
        registry, policy, queue_size=queue_size, queue_timeout_seconds=timeout_seconds, clock=clock
    )
    async with asyncio.TaskGroup() as tasks:
        keeper = tasks.create_task(admission.run())
        room = WaitingRoom(registry, admission, clock, keeper, tasks)
        room.turn_healthy(*urls)
        await settle()
        try:
            yield room
        finally:
            keeper.cancel()
