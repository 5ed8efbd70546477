"""From a request to an open replica: what is tried, in which order, and what is left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from gateway.admission import Admission, QueueFull, QueueTimeout
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, NoneHealthy, Policy
from gateway.session import opening
from gateway.session.downstream import OpeningRequest
from gateway.session.opening import NotOpened, Opened, Opener, Wanted
from gateway.session.upstream import Refused, Unreachable, Upstream
from tests.gateway.session.fakes import FakeUpstream
from tests.gateway.session.requests import request
from tests.support.manual_clock import settle
from tests.support.waiting_room import WaitingRoom, waiting_room

URLS = [f"http://127.0.0.1:{port}" for port in (9101, 9102, 9103, 9104)]
REFUSED = Unreachable("connection refused")


def status(code: int) -> Refused:
    return Refused(code, ((b"retry-after", b"7"),))


class Evidence:
    def __init__(self) -> None:
        self.reports: list[tuple[str, str]] = []
        self.awake: list[str] = []

    def report_failure(self, url: str, reason: str) -> None:
        self.reports.append((url, reason))

    def report_awake(self, url: str, *, latency_ms: float) -> None:
        assert latency_ms >= 0
        self.awake.append(url)


class Connect:
    """Answers one attempt after the other, and notes what each was for."""

    def __init__(
        self, registry: ReplicaRegistry, *outcomes: Upstream | Unreachable | Refused | BaseException
    ) -> None:
        self.urls: list[str] = []
        self.headers: list[Sequence[tuple[str, str]]] = []
        self.limits: set[tuple[float, int]] = set()
        self.counts: list[tuple[int, int]] = []
        """Sessions and pending ones in all, during each attempt."""
        self.hangs_at: int | None = None
        """The number of the attempt that gets no answer."""
        self.hanging = asyncio.Event()
        self._registry = registry
        self._outcomes = list(outcomes)

    async def __call__(
        self, url: str, headers: Sequence[tuple[str, str]], *, timeout_seconds: float, max_message_bytes: int
    ) -> Upstream | Unreachable | Refused:
        self.urls.append(url)
        self.headers.append(headers)
        self.limits.add((timeout_seconds, max_message_bytes))
        self.counts.append(counts(self._registry))
        if len(self.urls) == self.hangs_at:
            self.hanging.set()
            await asyncio.Event().wait()
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def counts(registry: ReplicaRegistry) -> tuple[int, int]:
    replicas = registry.all()
    return sum(replica.sessions for replica in replicas), sum(replica.pending for replica in replicas)


def replicas(count: int = 3, *, max_sessions: int | None = None) -> ReplicaRegistry:
    registry = ReplicaRegistry([ReplicaEndpoint(url, max_sessions=max_sessions) for url in URLS[:count]])
    for replica in registry.all():
        registry.note_success(replica, recovery_threshold=1, latency_ms=1)
    return registry


def wanted(
    asked: OpeningRequest | None = None,
    *,
    key: str | None = None,
    subprotocols: Sequence[str] | None = None,
    tried: set[str] | None = None,
) -> Wanted:
    return Wanted(
        asked or request(), "id-1", "192.0.2.7", key=key, subprotocols=subprotocols, tried=tried or set()
    )


def opener(registry: ReplicaRegistry, evidence: Evidence | None = None, *, attempts: int = 3) -> Opener:
    return Opener(
        admission=Admission(registry, Policy.PRIORITY),
        evidence=evidence or Evidence(),
        proxies=[],
        connect_timeout_seconds=5,
        connect_attempts=attempts,
        max_message_bytes=1000,
    )


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Connect]:
    """`Connect`, which puts itself into place when it is made."""

    class Installed(Connect):
        def __init__(
            self, registry: ReplicaRegistry, *outcomes: Upstream | Unreachable | Refused | BaseException
        ) -> None:
            super().__init__(registry, *outcomes)
            monkeypatch.setattr(opening, "connect", self)

    return Installed


async def test_the_first_choice_gets_the_request(scripted: type[Connect]) -> None:
    registry, upstream = replicas(), FakeUpstream()
    connect = scripted(registry, upstream)
    asked = request(("x-custom", "1"), raw_path="/v1/str%65am", query="t=a%2Fb")
    opened = await opener(registry).open(wanted(asked))
    assert isinstance(opened, Opened)
    assert opened.upstream is upstream
    assert opened.lease.url == URLS[0]
    assert connect.urls == ["ws://127.0.0.1:9101/v1/str%65am?t=a%2Fb"]
    assert {("x-custom", "1"), ("X-Request-Id", "id-1")} <= set(connect.headers[0])
    assert connect.limits == {(5, 1000)}
    assert connect.counts == [(1, 1)], "counted, and pending, while it opens"
    assert counts(registry) == (1, 0), "counted while it is open"
    opened.lease.release()
    assert counts(registry) == (0, 0)


@pytest.mark.parametrize("failure", [REFUSED, status(503)])
async def test_a_failure_takes_the_next_replica(
    scripted: type[Connect],
    failure: Unreachable | Refused,
    lines: Callable[[str], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, upstream = replicas(), FakeUpstream()
    connect = scripted(registry, failure, failure, upstream)
    opened = await opener(registry).open(wanted())
    assert isinstance(opened, Opened)
    assert opened.lease.url == URLS[2]
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9101, 9102, 9103)]
    assert connect.counts == [(1, 1)] * 3, "one place at a time"
    assert counts(registry) == (1, 0)
    assert len(lines("connect_failed")) == 2
    told = [record for record in caplog.records if record.name == "streamhold.session"]
    assert {record.levelno for record in told} == {logging.WARNING}


@pytest.mark.parametrize(("attempts", "tries"), [(1, 1), (2, 2), (4, 4), (9, 4)])
async def test_attempts_are_bounded_and_no_replica_is_tried_twice(
    scripted: type[Connect], attempts: int, tries: int
) -> None:
    registry = replicas(4)
    connect = scripted(registry, *[REFUSED] * 9)
    assert await opener(registry, attempts=attempts).open(wanted()) == NotOpened(NoneHealthy())
    assert len(connect.urls) == len(set(connect.urls)) == tries
    assert counts(registry) == (0, 0)


@pytest.mark.parametrize("code", [401, 403])
async def test_what_concerns_the_client_is_told_at_once(scripted: type[Connect], code: int) -> None:
    registry, evidence = replicas(), Evidence()
    connect = scripted(registry, status(code), FakeUpstream())
    assert await opener(registry, evidence).open(wanted()) == NotOpened(status(code))
    assert len(connect.urls) == 1
    assert evidence.reports == []
    assert counts(registry) == (0, 0)


@pytest.mark.parametrize(
    ("outcomes", "cause"),
    [
        ([status(503), status(429), status(500)], status(500)),
        ([status(302), status(503), status(302)], status(302)),
        ([status(429), REFUSED, REFUSED], status(429)),
        ([REFUSED, status(503), REFUSED], status(503)),
        ([REFUSED, REFUSED, status(404)], status(404)),
        ([status(503), status(401)], status(401)),
        ([REFUSED, REFUSED, REFUSED], NoneHealthy()),
    ],
)
async def test_the_last_status_is_told_and_without_one_that_none_was_healthy(
    scripted: type[Connect], outcomes: list[Unreachable | Refused], cause: Refused | NoneHealthy
) -> None:
    registry = replicas()
    scripted(registry, *outcomes)
    assert await opener(registry).open(wanted()) == NotOpened(cause)
    assert counts(registry) == (0, 0)


async def test_only_a_replica_without_an_answer_is_reported(scripted: type[Connect]) -> None:
    registry, evidence = replicas(), Evidence()
    scripted(registry, REFUSED, status(503), FakeUpstream())
    await opener(registry, evidence).open(wanted())
    assert evidence.reports == [(URLS[0], "connection refused")]


async def test_full_replicas_are_told_from_none_at_all(scripted: type[Connect]) -> None:
    registry = replicas(2, max_sessions=1)
    scripted(registry)
    leases = [registry.lease(url) for url in URLS[:2]]
    assert await opener(registry).open(wanted()) == NotOpened(AllFull())
    for lease in leases:
        lease.release()
    unknown = ReplicaRegistry([ReplicaEndpoint(URLS[0])])
    assert await opener(unknown).open(wanted()) == NotOpened(NoneHealthy())
    assert counts(registry) == (0, 0)


async def test_a_status_outweighs_that_the_others_are_full(scripted: type[Connect]) -> None:
    registry = replicas(2, max_sessions=1)
    scripted(registry, status(503))
    with registry.lease(URLS[1]):
        assert await opener(registry).open(wanted()) == NotOpened(status(503))
    assert counts(registry) == (0, 0)


async def test_a_replica_that_was_ejected_meanwhile_is_not_tried(scripted: type[Connect]) -> None:
    registry = replicas()
    connect = scripted(registry, REFUSED, FakeUpstream())

    class Ejects(Evidence):
        def report_failure(self, url: str, reason: str) -> None:
            for replica in registry.all()[:2]:
                registry.note_failure(replica, failure_threshold=1, reason=reason)

    opened = await opener(registry, Ejects()).open(wanted())
    assert isinstance(opened, Opened)
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9101, 9103)]


@pytest.mark.parametrize("attempt", [1, 2, 3])
async def test_a_cancelled_opening_leaves_no_lease(scripted: type[Connect], attempt: int) -> None:
    registry = replicas()
    connect = scripted(registry, *[REFUSED] * 3)
    connect.hangs_at = attempt
    opening_ = asyncio.create_task(opener(registry).open(wanted()))
    await connect.hanging.wait()
    assert counts(registry) == (1, 1)
    opening_.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening_
    assert counts(registry) == (0, 0)


async def test_a_defect_in_an_attempt_leaves_no_lease(scripted: type[Connect]) -> None:
    registry = replicas()
    scripted(registry, ZeroDivisionError("a defect"))
    with pytest.raises(ZeroDivisionError):
        await opener(registry).open(wanted())
    assert counts(registry) == (0, 0)


async def test_what_was_tried_is_noted_and_left_out(scripted: type[Connect]) -> None:
    registry = replicas()
    connect = scripted(registry, REFUSED, FakeUpstream())
    asked = wanted(tried={URLS[0]})
    opened = await opener(registry).open(asked)
    assert isinstance(opened, Opened)
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9102, 9103)]
    assert asked.tried == set(URLS[:3])


@pytest.mark.parametrize(
    ("promised", "offered"), [(None, "a, b"), (["a"], "a"), ([], None)], ids=["none yet", "one", "none"]
)
async def test_what_was_promised_to_the_client_is_all_that_is_offered(
    scripted: type[Connect], promised: list[str] | None, offered: str | None
) -> None:
    registry = replicas()
    connect = scripted(registry, FakeUpstream())
    asked = wanted(request(("sec-websocket-protocol", "a, b")), subprotocols=promised)
    await opener(registry).open(asked)
    (headers,) = connect.headers
    assert dict(headers).get("Sec-WebSocket-Protocol") == offered


async def test_a_key_chooses_the_replica_before_the_policy(scripted: type[Connect]) -> None:
    chosen = set()
    for key in "abcdefgh":
        urls = set()
        for _ in range(2):
            registry = replicas()
            scripted(registry, FakeUpstream())
            opened = await opener(registry).open(wanted(key=key))
            assert isinstance(opened, Opened)
            urls.add(opened.lease.url)
        assert len(urls) == 1
        chosen |= urls
    assert len(chosen) > 1


# -- where every replica is full


def waits_in(room: WaitingRoom, evidence: Evidence | None = None) -> Opener:
    return replace(opener(room.registry, evidence), admission=room.admission)


class Positions(list[tuple[int, int]]):
    def told(self, position: int, depth: int) -> None:
        self.append((position, depth))


async def test_a_session_waits_where_its_client_can_be_told(scripted: type[Connect]) -> None:
    async with waiting_room(URLS[:2]) as room:
        upstream = FakeUpstream()
        connect = scripted(room.registry, upstream)
        on_first, on_second = room.fill()
        positions = Positions()
        waiting = asyncio.create_task(waits_in(room).open(wanted(), on_position=positions.told))
        await settle()
        assert (positions, connect.urls, waiting.done()) == ([(0, 1)], [], False)
        on_second.release()
        opened = await waiting
        assert isinstance(opened, Opened)
        assert (opened.upstream, opened.lease.url) == (upstream, URLS[1])
        opened.lease.release()
        on_first.release()
        assert counts(room.registry) == (0, 0)


async def test_a_session_without_a_way_to_tell_does_not_wait(scripted: type[Connect]) -> None:
    async with waiting_room() as room:
        scripted(room.registry)
        room.fill()
        assert await waits_in(room).open(wanted()) == NotOpened(AllFull())
        assert room.admission.waiting == 0


async def test_after_a_failure_a_session_waits_for_the_next(scripted: type[Connect]) -> None:
    async with waiting_room(URLS[:2]) as room:
        on_first, on_second = room.fill()
        connect, evidence = scripted(room.registry, REFUSED, FakeUpstream()), Evidence()
        on_first.release()
        positions = Positions()
        waiting = asyncio.create_task(waits_in(room, evidence).open(wanted(), on_position=positions.told))
        await settle()
        assert connect.urls == ["ws://127.0.0.1:9101/v1/stream"]
        assert evidence.reports == [(URLS[0], "connection refused")]
        assert positions == [(0, 1)]
        on_second.release()
        assert isinstance(await waiting, Opened)


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        (lambda room: room.clock.advance(31), QueueTimeout()),
        (lambda room: turns_unhealthy(room), NoneHealthy()),
    ],
    ids=["too long", "no replica is left"],
)
async def test_one_may_wait_in_vain(
    scripted: type[Connect],
    how: Callable[[WaitingRoom], Awaitable[None]],
    cause: QueueTimeout | NoneHealthy,
) -> None:
    async with waiting_room() as room:
        scripted(room.registry)
        room.fill()
        waiting = asyncio.create_task(waits_in(room).open(wanted(), on_position=Positions().told))
        await settle()
        await how(room)
        assert await waiting == NotOpened(cause)


async def turns_unhealthy(room: WaitingRoom) -> None:
    room.turn_unhealthy(URLS[0])


async def test_a_full_queue_is_told(scripted: type[Connect]) -> None:
    async with waiting_room(queue_size=0) as room:
        scripted(room.registry)
        room.fill()
        assert await waits_in(room).open(wanted(), on_position=Positions().told) == NotOpened(QueueFull())


async def test_a_known_turn_keeps_its_place_in_the_queue(scripted: type[Connect]) -> None:
    async with waiting_room() as room:
        scripted(room.registry)
        room.fill()
        served = wanted()
        served.turn = room.admission.turn(room.admission.turn())
        await room.joined(2)
        positions = Positions()
        waiting = asyncio.create_task(waits_in(room).open(served, on_position=positions.told))
        await settle()
        assert positions == [(0, 3)]
        waiting.cancel()
        await asyncio.wait([waiting])
        assert room.admission.waiting == 2


@pytest.mark.parametrize("cancelled_first", [True, False])
@pytest.mark.parametrize("between", range(4))
async def test_one_that_leaves_around_the_moment_of_its_place_leaves_nothing(
    scripted: type[Connect], between: int, cancelled_first: bool
) -> None:
    async with waiting_room() as room:
        connect = scripted(room.registry, FakeUpstream())
        connect.hangs_at = 1
        (lease,) = room.fill()
        waiting = asyncio.create_task(waits_in(room).open(wanted(), on_position=Positions().told))
        await settle()
        for cancels in (cancelled_first, not cancelled_first):
            if cancels:
                waiting.cancel()
            else:
                lease.release()
            for _ in range(between):
                await asyncio.sleep(0)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert (room.admission.waiting, counts(room.registry)) == (0, (0, 0))
