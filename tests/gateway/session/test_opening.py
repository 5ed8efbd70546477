"""From a request to an open replica: what is tried, in which order, and what is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.admission import Admission
from gateway.replicas.model import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, NoneHealthy, Policy
from gateway.session import opening
from gateway.session.opening import NotOpened, Opened, Opener
from gateway.session.upstream import Refused, Unreachable, Upstream
from tests.gateway.session.fakes import FakeUpstream
from tests.gateway.session.requests import request

URLS = [f"http://127.0.0.1:{port}" for port in (9101, 9102, 9103, 9104)]
REFUSED = Unreachable("connection refused")


def status(code: int) -> Refused:
    return Refused(code, ((b"retry-after", b"7"),))


class Evidence:
    def __init__(self) -> None:
        self.reports: list[tuple[str, str]] = []

    def report_failure(self, url: str, reason: str) -> None:
        self.reports.append((url, reason))


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
    opened = await opener(registry).open(asked, "id-1")
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
    scripted: type[Connect], failure: Unreachable | Refused
) -> None:
    registry, upstream = replicas(), FakeUpstream()
    connect = scripted(registry, failure, failure, upstream)
    opened = await opener(registry).open(request(), "id-1")
    assert isinstance(opened, Opened)
    assert opened.lease.url == URLS[2]
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9101, 9102, 9103)]
    assert connect.counts == [(1, 1)] * 3, "one place at a time"
    assert counts(registry) == (1, 0)


@pytest.mark.parametrize(("attempts", "tries"), [(1, 1), (2, 2), (4, 4), (9, 4)])
async def test_attempts_are_bounded_and_no_replica_is_tried_twice(
    scripted: type[Connect], attempts: int, tries: int
) -> None:
    registry = replicas(4)
    connect = scripted(registry, *[REFUSED] * 9)
    assert await opener(registry, attempts=attempts).open(request(), "id-1") == NotOpened(NoneHealthy())
    assert len(connect.urls) == len(set(connect.urls)) == tries
    assert counts(registry) == (0, 0)


@pytest.mark.parametrize("code", [401, 403])
async def test_what_concerns_the_client_is_told_at_once(scripted: type[Connect], code: int) -> None:
    registry, evidence = replicas(), Evidence()
    connect = scripted(registry, status(code), FakeUpstream())
    assert await opener(registry, evidence).open(request(), "id-1") == NotOpened(status(code))
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
    assert await opener(registry).open(request(), "id-1") == NotOpened(cause)
    assert counts(registry) == (0, 0)


async def test_only_a_replica_without_an_answer_is_reported(scripted: type[Connect]) -> None:
    registry, evidence = replicas(), Evidence()
    scripted(registry, REFUSED, status(503), FakeUpstream())
    await opener(registry, evidence).open(request(), "id-1")
    assert evidence.reports == [(URLS[0], "connection refused")]


async def test_full_replicas_are_told_from_none_at_all(scripted: type[Connect]) -> None:
    registry = replicas(2, max_sessions=1)
    scripted(registry)
    leases = [registry.lease(url) for url in URLS[:2]]
    assert await opener(registry).open(request(), "id-1") == NotOpened(AllFull())
    for lease in leases:
        lease.release()
    unknown = ReplicaRegistry([ReplicaEndpoint(URLS[0])])
    assert await opener(unknown).open(request(), "id-1") == NotOpened(NoneHealthy())
    assert counts(registry) == (0, 0)


async def test_a_status_outweighs_that_the_others_are_full(scripted: type[Connect]) -> None:
    registry = replicas(2, max_sessions=1)
    scripted(registry, status(503))
    with registry.lease(URLS[1]):
        assert await opener(registry).open(request(), "id-1") == NotOpened(status(503))
    assert counts(registry) == (0, 0)


async def test_a_replica_that_was_ejected_meanwhile_is_not_tried(scripted: type[Connect]) -> None:
    registry = replicas()
    connect = scripted(registry, REFUSED, FakeUpstream())

    class Ejects(Evidence):
        def report_failure(self, url: str, reason: str) -> None:
            for replica in registry.all()[:2]:
                registry.note_failure(replica, failure_threshold=1, reason=reason)

    opened = await opener(registry, Ejects()).open(request(), "id-1")
    assert isinstance(opened, Opened)
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9101, 9103)]


@pytest.mark.parametrize("attempt", [1, 2, 3])
async def test_a_cancelled_opening_leaves_no_lease(scripted: type[Connect], attempt: int) -> None:
    registry = replicas()
    connect = scripted(registry, *[REFUSED] * 3)
    connect.hangs_at = attempt
    opening_ = asyncio.create_task(opener(registry).open(request(), "id-1"))
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
        await opener(registry).open(request(), "id-1")
    assert counts(registry) == (0, 0)
