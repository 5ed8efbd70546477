"""A gateway's sessions on a real registry, admission and roster; clients and replicas are the test's."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.admission import Admission
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.lease import Lease
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import Policy
from gateway.session import opening
from gateway.session.core import PassthroughCore, SessionCore
from gateway.session.downstream import OpeningRequest
from gateway.session.events import Closed, Event
from gateway.session.opening import Opener
from gateway.session.roster import Roster
from gateway.session.service import SessionService
from gateway.session.session import Parts
from gateway.session.upstream import Refused, Unreachable, Upstream
from gateway.session.watch import Limits
from tests.gateway.session.fakes import FakeDoor, FakeUpstream
from tests.gateway.session.requests import request
from tests.gateway.session.virtual_time import LoopClock
from tests.support.manual_clock import settle

A, B, C = (f"http://127.0.0.1:{port}" for port in (9101, 9102, 9103))
NAMES = {A: "a", B: "b", C: "c"}

NEVER = 1e6
LIMITS = Limits(
    idle_timeout_seconds=NEVER,
    ping_interval_seconds=NEVER,
    ping_timeout_seconds=10,
    slow_consumer_timeout_seconds=60,
)

QUEUE_SECONDS = 30.0
INIT_SECONDS = 5.0

UNREACHABLE = Unreachable("connection refused")

Outcome = Upstream | Unreachable | Refused | BaseException


class Connect:
    """Stands in for `opening.connect`: each replica answers as planned, else it takes the session."""

    def __init__(self) -> None:
        self.plans: dict[str, list[Outcome]] = defaultdict(list)
        """What each replica answers next, by its URL."""
        self.asked: list[str] = []
        """The replicas that were asked, by their URLs, in order."""
        self.urls: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.opened: list[tuple[str, FakeUpstream]] = []
        self.answers = asyncio.Event()
        """Cleared while no replica answers."""
        self.answers.set()
        self.asking = 0
        """How many wait for an answer."""

    async def __call__(
        self, url: str, headers: Sequence[tuple[str, str]], *, timeout_seconds: float, max_message_bytes: int
    ) -> Upstream | Unreachable | Refused:
        replica = next(known for known in NAMES if url.startswith(known.replace("http", "ws")))
        self.urls.append(url)
        self.asked.append(replica)
        self.headers.append(dict(headers))
        self.asking += 1
        try:
            await asyncio.sleep(0)
            await self.answers.wait()
            await asyncio.sleep(0)
        finally:
            self.asking -= 1
        plan = self.plans[replica]
        outcome = plan.pop(0) if plan else FakeUpstream()
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, FakeUpstream):
            self.opened.append((replica, outcome))
        return outcome


@dataclass
class Records:
    """Notes what sessions say of replicas, and passes it on."""

    registry: ReplicaRegistry
    calls: list[tuple[str, str]] = field(default_factory=list)

    def mark_full(self, url: str, seconds: float) -> None:
        self.calls.append(("full", url))
        self.registry.mark_full(url, seconds)

    def blame(self, url: str) -> None:
        self.calls.append(("blame", url))
        self.registry.blame(url)

    def praise(self, url: str) -> None:
        self.calls.append(("praise", url))
        self.registry.praise(url)


@dataclass
class Evidence:
    """Notes which replicas gave no answer, and which woke."""

    reports: list[tuple[str, str]] = field(default_factory=list)
    awake: list[str] = field(default_factory=list)

    def report_failure(self, url: str, reason: str) -> None:
        self.reports.append((url, reason))

    def report_awake(self, url: str, *, latency_ms: float) -> None:
        self.awake.append(url)


@dataclass
class Guest:
    """A client that has come in, as far as it got."""

    door: FakeDoor
    serving: asyncio.Task[None]

    async def says(self, event: Event) -> None:
        self.door.says(event)
        await settle()

    async def leaves(self) -> None:
        """It closes, and its session has ended."""
        self.door.says(Closed(1000))
        await self.serving

    async def is_cancelled(self) -> None:
        self.serving.cancel()
        await asyncio.wait([self.serving])
        assert self.serving.cancelled()


@dataclass
class House:
    registry: ReplicaRegistry
    admission: Admission
    roster: Roster
    connect: Connect
    records: Records
    evidence: Evidence
    cores: list[SessionCore]
    """Of the sessions, in the order of their beginning."""
    fresh: asyncio.Event
    """Cleared while the health of the replicas is not to be believed."""
    service: SessionService
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    taken: list[Lease] = field(default_factory=list)

    async def enters(self, door: FakeDoor | None = None) -> Guest:
        """A client comes in, and gets as far as it can without time passing."""
        guest = self.comes(door or FakeDoor())
        await settle()
        return guest

    def comes(self, door: FakeDoor) -> Guest:
        """A client comes in; its session's task has not run yet."""
        serving = asyncio.create_task(self.service.serve(door))
        self.tasks.add(serving)
        return Guest(door, serving)

    def at(self, url: str) -> FakeUpstream:
        """The newest connection to the replica at `url`."""
        return next(upstream for replica, upstream in reversed(self.connect.opened) if replica == url)

    def fills(self, *urls: str) -> list[Lease]:
        """Take a place of each replica at `urls`, until the end at the latest."""
        taken = [self.registry.lease(url) for url in urls]
        self.taken += taken
        return taken

    def turns_unhealthy(self, *urls: str) -> None:
        for url in urls:
            replica = self.registry.get(url)
            assert replica is not None
            self.registry.note_failure(replica, failure_threshold=1, reason="test")

    def turns_healthy(self, *urls: str) -> None:
        for url in urls:
            replica = self.registry.get(url)
            assert replica is not None
            self.registry.note_success(replica, recovery_threshold=1, latency_ms=1)

    @property
    def leases(self) -> int:
        return sum(replica.sessions for replica in self.registry.all())

    def assert_nobody_is_inside(self) -> None:
        """No session has a connection, waits for one, stands in the queue, or is in the roster."""
        assert len(self.roster) == 0
        assert self.admission.waiting == 0
        assert self.connect.asking == 0
        assert [url for url, upstream in self.connect.opened if not upstream.cut] == []

    def assert_empty(self) -> None:
        """Nothing is held for anybody: no lease, connection, place in the queue or line in the roster."""
        self.assert_nobody_is_inside()
        assert self.leases == 0
        assert sum(replica.pending for replica in self.registry.all()) == 0


@asynccontextmanager
async def open_house(
    *urls: str,
    limit: int | None = None,
    queue_size: int = 0,
    limits: Limits = LIMITS,
    attempts: int = 3,
    max_sessions: int | None = None,
    max_sessions_of_one: int | None = None,
    tokens: Sequence[str] = (),
    allowed_origins: Sequence[str] = ("*",),
    new_core: Callable[[], SessionCore] = lambda: PassthroughCore(1 << 24),
    key_of_init: Callable[[str | bytes], str | None] | None = None,
    key_of: Callable[[OpeningRequest, str], str | None] = lambda request, client: None,
    healthy: bool = True,
) -> AsyncIterator[House]:
    """Replicas at `urls` (A by default), healthy, with `limit` places each.

    At the end the sessions that are left are cancelled, and nothing may be left behind.
    """
    clock = LoopClock()
    registry = ReplicaRegistry(
        [ReplicaEndpoint(url, name=NAMES[url], max_sessions=limit) for url in urls or (A,)], clock=clock
    )
    admission = Admission(
        registry,
        Policy.PRIORITY,
        max_sessions=max_sessions,
        max_sessions_per_client=max_sessions_of_one,
        queue_size=queue_size,
        queue_timeout_seconds=QUEUE_SECONDS,
        clock=clock,
    )
    roster, connect, records, evidence = Roster(), Connect(), Records(registry), Evidence()
    cores: list[SessionCore] = []
    fresh = asyncio.Event()
    fresh.set()

    def core() -> SessionCore:
        cores.append(new_core())
        return cores[-1]

    async def wait_until_fresh() -> None:
        await fresh.wait()

    parts = Parts(
        opener=Opener(
            admission=admission,
            evidence=evidence,
            proxies=[],
            connect_timeout_seconds=5,
            connect_attempts=attempts,
            max_message_bytes=1 << 24,
        ),
        records=records,
        new_core=core,
        key_of_init=key_of_init,
        limits=limits,
        init_timeout_seconds=INIT_SECONDS,
        can_queue=queue_size > 0,
    )
    service = SessionService(
        roster=roster,
        parts=parts,
        fresh=wait_until_fresh,
        admission=admission,
        key_of=key_of,
        tokens=tokens,
        allowed_origins=allowed_origins,
        proxies=[],
    )
    house = House(registry, admission, roster, connect, records, evidence, cores, fresh, service)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "connect", connect)
        keeper = asyncio.create_task(admission.run())
        if healthy:
            house.turns_healthy(*(urls or (A,)))
        await settle()
        try:
            yield house
        finally:
            left = {task for task in house.tasks if not task.done()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
            keeper.cancel()
            await asyncio.wait([keeper])
            for lease in house.taken:
                lease.release()
    await settle()
    house.assert_empty()
    for task in house.tasks - left:
        assert task.cancelled() or task.exception() is None, "serve() raises nothing"
    assert asyncio.all_tasks() == {asyncio.current_task()}


def offering(*subprotocols: str, **named: str) -> FakeDoor:
    """A client that offers these."""
    return FakeDoor(request(("sec-websocket-protocol", ", ".join(subprotocols)), **named))
