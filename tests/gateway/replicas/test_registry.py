from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.events import (
    PlaceFreed,
    PlacesWithdrawn,
    RegistryEvent,
    ReplicaGone,
    ReplicaJoined,
    ReplicaRemoved,
    StatusChanged,
)
from gateway.replicas.lease import Lease
from gateway.replicas.model import Replica, ReplicaHealth, ReplicaStatus
from gateway.replicas.registry import ReplicaRegistry
from tests.support.manual_clock import ManualClock

A, B, C = (ReplicaEndpoint(f"http://{name}:8000", name) for name in "abc")
PRIMARY = ReplicaEndpoint("http://p:8000", "p", primary=True)


def known(registry: ReplicaRegistry, url: str) -> Replica:
    replica = registry.get(url)
    assert replica is not None
    return replica


def make_healthy(registry: ReplicaRegistry, *endpoints: ReplicaEndpoint) -> None:
    for endpoint in endpoints:
        registry.note_success(known(registry, endpoint.url), recovery_threshold=2, latency_ms=1.0)


def names(registry: ReplicaRegistry) -> list[str]:
    return [replica.name for replica in registry.all()]


def test_a_registry_may_begin_without_replicas() -> None:
    registry = ReplicaRegistry([])
    assert (registry.all(), registry.select(), registry.candidates()) == ([], None, ())
    registry.reconcile([A])
    assert names(registry) == ["a"]


def test_a_registry_with_a_replica_twice_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Duplicate"):
        ReplicaRegistry([A, ReplicaEndpoint("http://A:8000/")])


def test_an_unknown_registry_selects_none() -> None:
    registry = ReplicaRegistry([PRIMARY, A])
    assert registry.select() is None
    assert {replica.health.status for replica in registry.all()} == {ReplicaStatus.UNKNOWN}


def test_select_takes_the_first_healthy_primary_then_the_first_healthy_other() -> None:
    registry = ReplicaRegistry([A, B, PRIMARY])
    make_healthy(registry, B)
    assert registry.select() is registry.get(B.url)
    make_healthy(registry, A, PRIMARY)
    assert registry.select() is registry.get(PRIMARY.url)
    registry.note_failure(known(registry, PRIMARY.url), failure_threshold=1, reason="gone")
    assert registry.select() is registry.get(A.url)


def test_select_passes_over_what_takes_no_session() -> None:
    full = ReplicaEndpoint("http://full:1", max_sessions=1)
    registry = ReplicaRegistry([A, full, C])
    make_healthy(registry, A, full, C)
    registry.drain(A.url)
    registry.lease(full.url)
    assert registry.select() is registry.get(C.url)


async def test_the_first_success_makes_unknown_healthy_and_resets_successes() -> None:
    registry = ReplicaRegistry([A], clock=ManualClock(epoch=1000.0))
    replica = known(registry, A.url)
    await registry.record_success(replica, recovery_threshold=2, latency_ms=12.5)
    assert replica.is_healthy
    assert replica.health == ReplicaHealth(
        ReplicaStatus.HEALTHY, last_ok_at=1000.0, last_latency_ms=12.5, consecutive_successes=0
    )


async def test_recovery_is_gated_by_the_recovery_threshold() -> None:
    registry = ReplicaRegistry([A])
    replica = known(registry, A.url)
    for _ in range(3):
        await registry.record_failure(replica, failure_threshold=3, reason="down")
    assert replica.health.status is ReplicaStatus.UNHEALTHY
    await registry.record_success(replica, recovery_threshold=2, latency_ms=1.0)
    assert replica.health.status is ReplicaStatus.UNHEALTHY
    await registry.record_success(replica, recovery_threshold=2, latency_ms=1.0)
    assert replica.is_healthy


async def test_a_failure_resets_successes() -> None:
    registry = ReplicaRegistry([A])
    replica = known(registry, A.url)
    await registry.record_failure(replica, failure_threshold=1, reason="down")
    await registry.record_success(replica, recovery_threshold=2, latency_ms=1.0)
    assert replica.health.consecutive_successes == 1
    await registry.record_failure(replica, failure_threshold=1, reason="down")
    assert replica.health.consecutive_successes == 0


async def test_a_replica_is_a_live_view_whose_health_is_replaced_not_mutated() -> None:
    registry = ReplicaRegistry([A])
    replica = known(registry, A.url)
    before = replica.health
    await registry.record_success(replica, recovery_threshold=1, latency_ms=1.0)
    assert before.status is ReplicaStatus.UNKNOWN
    assert registry.all()[0] is replica
    with pytest.raises(FrozenInstanceError):
        replica.health.status = ReplicaStatus.UNKNOWN  # type: ignore[misc]


def test_primaries_and_all_keep_the_order_given() -> None:
    registry = ReplicaRegistry([B, PRIMARY, A])
    assert names(registry) == ["b", "p", "a"]
    assert [replica.name for replica in registry.primaries()] == ["p"]


@pytest.mark.parametrize("spelling", ["http://a:8000", "http://A:8000/", "HTTP://a:8000"])
def test_a_replica_is_found_under_any_spelling(spelling: str) -> None:
    assert known(ReplicaRegistry([A]), spelling).url == A.url


@pytest.mark.parametrize("url", ["http://z", "", "nonsense", "http://[::1"])
def test_an_unknown_url_is_none(url: str) -> None:
    assert ReplicaRegistry([A]).get(url) is None


def test_candidates_are_a_snapshot() -> None:
    registry = ReplicaRegistry([A, PRIMARY])
    make_healthy(registry, A)
    before = registry.candidates()
    registry.lease(A.url)
    registry.drain(PRIMARY.url)
    after = registry.candidates()
    assert [(one.name, one.healthy, one.draining, one.sessions) for one in before] == [
        ("a", True, False, 0),
        ("p", False, False, 0),
    ]
    assert [(one.name, one.draining, one.sessions) for one in after] == [("a", False, 1), ("p", True, 0)]


def test_candidates_leave_out_those_excluded_and_those_removed() -> None:
    registry = ReplicaRegistry([A, B, C])
    with registry.lease(C.url):
        registry.reconcile([A, B])
        assert [one.name for one in registry.candidates(exclude=["http://A:8000/"])] == ["b"]


def test_a_lease_counts_at_once_and_is_pending_until_opened() -> None:
    registry = ReplicaRegistry([A])
    replica = known(registry, A.url)
    with registry.lease(A.url) as lease:
        assert lease.replica is replica
        assert (replica.sessions, replica.pending) == (1, 1)
        lease.opened()
        lease.opened()
        assert (replica.sessions, replica.pending) == (1, 0)
    assert (replica.sessions, replica.pending) == (0, 0)


def test_releasing_twice_frees_one_place() -> None:
    registry = ReplicaRegistry([A])
    other = registry.lease(A.url)
    with registry.lease(A.url) as lease:
        lease.release()
        lease.opened()
    assert (other.replica.sessions, other.replica.pending) == (1, 1)


def test_a_lease_ends_with_its_block_whatever_ends_that() -> None:
    registry = ReplicaRegistry([A])
    with pytest.raises(RuntimeError), registry.lease(A.url):
        raise RuntimeError
    assert known(registry, A.url).sessions == 0


def test_a_lease_on_an_unknown_replica_is_a_key_error() -> None:
    registry = ReplicaRegistry([A])
    with pytest.raises(KeyError):
        registry.lease("http://z")
    with pytest.raises(KeyError):
        registry.drain("http://z")


def test_reconcile_touches_no_session_of_a_replica_that_stays() -> None:
    registry = ReplicaRegistry([A, B])
    make_healthy(registry, A)
    replica, lease = known(registry, A.url), registry.lease(A.url)
    registry.reconcile([C, ReplicaEndpoint("http://A:8000/", "renamed", weight=3.0, max_sessions=7)])
    assert known(registry, A.url) is replica
    assert (replica.is_healthy, replica.sessions, replica.url) == (True, 1, A.url)
    assert (replica.name, replica.endpoint.weight, replica.endpoint.max_sessions) == ("renamed", 3.0, 7)
    assert names(registry) == ["c", "renamed"]
    lease.release()
    assert replica.sessions == 0


def test_a_removed_replica_takes_no_session_and_goes_with_its_last_lease() -> None:
    registry = ReplicaRegistry([A, B])
    make_healthy(registry, A, B)
    first, second = registry.lease(A.url), registry.lease(A.url)
    registry.reconcile([B])
    assert known(registry, A.url).removed
    assert registry.select() is registry.get(B.url)
    first.release()
    assert registry.get(A.url) is not None
    second.release()
    assert registry.get(A.url) is None


def test_a_removed_replica_that_comes_back_is_taken_back() -> None:
    registry = ReplicaRegistry([A, B])
    make_healthy(registry, A)
    with registry.lease(A.url):
        registry.reconcile([B])
        registry.reconcile([A, B])
    replica = known(registry, A.url)
    assert (replica.removed, replica.is_healthy, replica.sessions) == (False, True, 0)


def test_a_replica_that_went_and_came_back_starts_as_unknown() -> None:
    registry = ReplicaRegistry([A, B])
    make_healthy(registry, A)
    old = known(registry, A.url)
    registry.reconcile([B])
    registry.reconcile([A, B])
    assert known(registry, A.url) is not old
    assert known(registry, A.url).health.status is ReplicaStatus.UNKNOWN


def test_reconciling_with_nothing_leaves_an_empty_registry() -> None:
    registry = ReplicaRegistry([A])
    registry.reconcile([])
    assert registry.all() == []
    assert registry.select() is None
    registry.reconcile([B])
    assert names(registry) == ["b"]


def test_a_withheld_replica_is_known_and_gets_no_session() -> None:
    registry = ReplicaRegistry([])
    registry.reconcile([A, B], withheld=["http://A:8000/"])
    make_healthy(registry, A, B)
    assert [(one.name, one.usable) for one in registry.candidates()] == [("a", False), ("b", True)]
    assert registry.select() is registry.get(B.url)
    assert not known(registry, A.url).takes_sessions
    registry.reconcile([A, B])
    assert registry.select() is registry.get(A.url)


def test_what_people_drain_stays_drained_whatever_discovery_says() -> None:
    registry = ReplicaRegistry([A])
    make_healthy(registry, A)
    registry.drain(A.url)
    registry.reconcile([A], withheld=[A.url])
    registry.reconcile([A])
    assert registry.select() is None
    registry.reconcile([A], withheld=[A.url])
    registry.drain(A.url, draining=False)
    assert registry.select() is None
    registry.reconcile([A])
    assert registry.select() is registry.get(A.url)


def test_withholding_withdraws_places_and_ending_it_frees_them() -> None:
    registry = ReplicaRegistry([A])
    make_healthy(registry, A)
    with registry.lease(A.url):
        heard: list[RegistryEvent] = []
        registry.subscribe(heard.append)
        registry.reconcile([A], withheld=[A.url])
        assert heard == [PlacesWithdrawn(A.url)]
        registry.reconcile([A])
        assert heard[1:] == [PlaceFreed(A.url)]
        assert known(registry, A.url).sessions == 1


def test_of_endpoints_with_one_url_the_first_counts() -> None:
    registry = ReplicaRegistry([A])
    registry.reconcile([B, ReplicaEndpoint("http://B:8000/", "again")])
    assert names(registry) == ["b"]


def test_listeners_hear_of_every_change_until_they_unsubscribe() -> None:
    registry = ReplicaRegistry([A])
    heard: list[RegistryEvent] = []
    unsubscribe = registry.subscribe(heard.append)
    make_healthy(registry, A)
    make_healthy(registry, A)
    registry.note_failure(known(registry, A.url), failure_threshold=1, reason="answered 500")
    registry.reconcile([B])
    assert heard == [
        StatusChanged(A.url, ReplicaStatus.UNKNOWN, ReplicaStatus.HEALTHY, "health check passed"),
        PlaceFreed(A.url),
        StatusChanged(A.url, ReplicaStatus.HEALTHY, ReplicaStatus.UNHEALTHY, "answered 500"),
        ReplicaJoined(B.url),
        PlacesWithdrawn(A.url),
        ReplicaRemoved(A.url),
        ReplicaGone(A.url),
    ]
    unsubscribe()
    unsubscribe()
    registry.reconcile([C])
    assert len(heard) == 7


def test_evidence_about_a_replica_that_is_gone_concerns_nobody() -> None:
    registry = ReplicaRegistry([A, B])
    gone = known(registry, A.url)
    registry.reconcile([B])
    heard: list[RegistryEvent] = []
    registry.subscribe(heard.append)
    registry.note_success(gone, recovery_threshold=1, latency_ms=1.0)
    assert heard == []


class Lines(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("streamhold.replicas")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_each_state_change_is_one_log_line(lines: Lines) -> None:
    registry = ReplicaRegistry([A])
    replica = known(registry, A.url)
    make_healthy(registry, A)
    make_healthy(registry, A)
    for _ in range(4):
        registry.note_failure(replica, failure_threshold=3, reason='said "no"\n2026 forged')
    registry.drain(A.url)
    registry.drain(A.url)
    registry.drain(A.url, draining=False)
    events = [line.split(" ")[0] for line in lines.told]
    assert events == ["replica_healthy", "replica_unhealthy", "replica_draining", "replica_undrained"]
    assert not any("\n" in line for line in lines.told)
    assert "was=healthy" in lines.told[1]
    assert "failures=3" in lines.told[1]


def test_joining_leaving_and_coming_back_are_one_log_line_each(lines: Lines) -> None:
    registry = ReplicaRegistry([A])
    with registry.lease(A.url):
        registry.reconcile([B])
        registry.reconcile([B])
        registry.reconcile([A, B])
        registry.reconcile([B])
    assert [line.split(" ")[0] for line in lines.told] == [
        "replica_joined",
        "replica_removed",
        "replica_returned",
        "replica_removed",
        "replica_gone",
    ]


class Counting(RuleBasedStateMachine):
    """Session counts are those of the leases held, whatever joins and leaves meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = ReplicaRegistry([A, B, C])
        self.held: list[Lease] = []

    @rule(endpoint=st.sampled_from([A, B, C]))
    def lease(self, endpoint: ReplicaEndpoint) -> None:
        if self.registry.get(endpoint.url):
            self.held.append(self.registry.lease(endpoint.url))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def open(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.held)).opened()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1))).release()

    @rule(endpoints=st.lists(st.sampled_from([A, B, C]), unique=True))
    def reconcile(self, endpoints: list[ReplicaEndpoint]) -> None:
        self.registry.reconcile(endpoints)

    @invariant()
    def counts_are_those_of_the_leases(self) -> None:
        for replica in self.registry.all():
            assert replica.sessions == sum(1 for lease in self.held if lease.replica is replica)
            assert 0 <= replica.pending <= replica.sessions
            assert not replica.removed or replica.sessions
        for lease in self.held:
            assert self.registry.get(lease.url) is lease.replica


test_counts_are_those_of_the_leases_whatever_happens = Counting.TestCase
