"""What holds for a while only: refusing, being ejected, starting slowly; and who hears of a free place."""

from __future__ import annotations

import pytest

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
from gateway.replicas.model import Candidate, Replica
from gateway.replicas.outlier import OutlierPolicy
from gateway.replicas.registry import ReplicaRegistry
from tests.support.manual_clock import ManualClock

A, B, C, D = (ReplicaEndpoint(f"http://{name}:8000", name) for name in "abcd")
OUTLIER = OutlierPolicy(consecutive_losses=2, base_seconds=30.0, max_seconds=100.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def healthy(
    clock: ManualClock, *endpoints: ReplicaEndpoint, slow_start_seconds: float = 0.0
) -> ReplicaRegistry:
    registry = ReplicaRegistry(
        list(endpoints), clock=clock, slow_start_seconds=slow_start_seconds, outlier=OUTLIER
    )
    for replica in registry.all():
        succeed(registry, replica)
    return registry


def succeed(registry: ReplicaRegistry, replica: Replica) -> None:
    registry.note_success(replica, recovery_threshold=1, latency_ms=1.0)


def fail(registry: ReplicaRegistry, endpoint: ReplicaEndpoint) -> Replica:
    replica = registry.get(endpoint.url)
    assert replica is not None
    registry.note_failure(replica, failure_threshold=1, reason="down")
    return replica


def seen(registry: ReplicaRegistry, endpoint: ReplicaEndpoint) -> Candidate:
    return next(one for one in registry.candidates() if one.url == endpoint.url)


def told(registry: ReplicaRegistry) -> list[RegistryEvent]:
    heard: list[RegistryEvent] = []
    registry.subscribe(heard.append)
    return heard


def lose(registry: ReplicaRegistry, endpoint: ReplicaEndpoint, count: int = 2) -> None:
    for _ in range(count):
        registry.blame(endpoint.url)


def ejected(registry: ReplicaRegistry) -> str:
    return "".join(one.name for one in registry.candidates() if one.ejected)


def test_a_refusing_replica_has_no_room_for_a_moment_and_keeps_its_health(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    registry.mark_full("http://A:8000/", 2.0)
    assert not seen(registry, A).has_room
    assert seen(registry, A).usable
    assert registry.select() is registry.get(B.url)
    clock.jump(2.0)
    assert seen(registry, A).has_room
    assert registry.select() is registry.get(A.url)


def test_a_shorter_moment_does_not_shorten_a_longer_one(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    registry.mark_full(A.url, 5.0)
    registry.mark_full(A.url, 1.0)
    clock.jump(4.0)
    assert not seen(registry, A).has_room
    registry.mark_full(A.url, 2.0)
    clock.jump(1.5)
    assert not seen(registry, A).has_room


def test_losses_in_a_row_eject_and_time_brings_back(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    lose(registry, A)
    assert ejected(registry) == "a"
    assert registry.select() is registry.get(B.url)
    clock.jump(30.0)
    assert ejected(registry) == ""
    lose(registry, A)
    clock.jump(59.0)
    assert ejected(registry) == "a"


def test_praise_breaks_the_row(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    registry.blame(A.url)
    registry.praise(A.url)
    registry.blame(A.url)
    assert ejected(registry) == ""


def test_a_recovery_breaks_the_row(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    registry.blame(A.url)
    succeed(registry, fail(registry, A))
    registry.blame(A.url)
    assert ejected(registry) == ""


@pytest.mark.parametrize(
    ("replicas", "most"), [([A], ""), ([A, B], "a"), ([A, B, C], "a"), ([A, B, C, D], "ab")]
)
def test_at_most_half_of_the_set_is_out(
    clock: ManualClock, replicas: list[ReplicaEndpoint], most: str
) -> None:
    registry = healthy(clock, *replicas)
    for endpoint in replicas:
        lose(registry, endpoint, 5)
    assert ejected(registry) == most


def test_replicas_that_take_no_session_do_not_count_as_the_other_half(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, C, D)
    fail(registry, C)
    registry.drain(D.url)
    lose(registry, A)
    lose(registry, B)
    assert ejected(registry) == "a"


def test_an_unhealthy_or_removed_replica_is_not_ejected(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, C)
    fail(registry, A)
    registry.lease(B.url)
    registry.reconcile([A, C, D])
    lose(registry, A)
    lose(registry, B)
    assert [replica.ejected for replica in registry.all()] == [False] * 4


def test_the_last_usable_replica_is_used_although_it_is_ejected(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    lose(registry, A)
    fail(registry, B)
    assert registry.select() is registry.get(A.url)


def test_what_concerns_a_replica_that_is_gone_concerns_nobody(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    heard = told(registry)
    registry.blame("http://z:1")
    registry.praise("http://z:1")
    registry.mark_full("http://z:1", 1.0)
    registry.settle()
    assert heard == []


def test_a_lease_that_ends_frees_a_place(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    heard = told(registry)
    lease = registry.lease(A.url)
    lease.opened()
    assert heard == []
    lease.release()
    lease.release()
    assert heard == [PlaceFreed(A.url)]


def test_a_lease_that_ends_where_no_session_may_go_frees_none(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, C)
    leases = [registry.lease(endpoint.url) for endpoint in (A, B, C)]
    registry.drain(A.url)
    fail(registry, B)
    registry.reconcile([A, B])
    heard = told(registry)
    for lease in leases:
        lease.release()
    assert heard == [ReplicaGone(C.url)]


def test_listeners_find_the_place_already_free(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    counted: list[int] = []
    registry.subscribe(lambda event: counted.append(seen(registry, A).sessions))
    registry.lease(A.url).release()
    assert counted == [0]


def test_draining_withdraws_places_and_undraining_frees_them(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    heard = told(registry)
    registry.drain(A.url)
    registry.drain(A.url)
    registry.drain(A.url, draining=False)
    assert heard == [PlacesWithdrawn(A.url), PlaceFreed(A.url)]


def test_a_recovery_frees_places_after_its_status_is_told(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    replica = fail(registry, A)
    heard = told(registry)
    succeed(registry, replica)
    assert [type(event) for event in heard] == [StatusChanged, PlaceFreed]


def test_a_raised_limit_and_coming_back_free_places(clock: ManualClock) -> None:
    registry = healthy(clock, A, B)
    registry.lease(B.url)
    heard = told(registry)
    registry.reconcile([ReplicaEndpoint(A.url, "a", max_sessions=9), D])
    removed = [PlacesWithdrawn(B.url), ReplicaRemoved(B.url)]
    assert heard == [PlaceFreed(A.url), ReplicaJoined(D.url), *removed]
    heard.clear()
    registry.reconcile([B, D])
    assert PlaceFreed(B.url) in heard


def test_moments_that_end_are_told_once_by_whoever_looks(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, C, D)
    assert registry.next_place_seconds() is None
    registry.mark_full(A.url, 2.0)
    lose(registry, B)
    assert registry.next_place_seconds() == 2.0
    heard = told(registry)
    clock.jump(2.0)
    registry.settle()
    registry.settle()
    assert heard == [PlaceFreed(A.url)]
    assert registry.next_place_seconds() == 28.0
    clock.jump(28.0)
    succeed(registry, registry.all()[1])
    registry.settle()
    assert heard == [PlaceFreed(A.url), PlaceFreed(B.url)]
    assert registry.next_place_seconds() is None


def test_a_recovered_replica_starts_slowly(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, slow_start_seconds=20.0)
    assert [one.ramp for one in registry.candidates()] == [1.0, 1.0]
    clock.jump(100.0)
    succeed(registry, fail(registry, A))
    ramps = []
    for _ in range(5):
        ramps.append(seen(registry, A).ramp)
        clock.jump(5.0)
    assert ramps == [0.1, 0.25, 0.5, 0.75, 1.0]
    assert seen(registry, B).ramp == 1.0


def test_a_replica_that_joins_starts_slowly_from_its_first_success(clock: ManualClock) -> None:
    registry = healthy(clock, A, slow_start_seconds=20.0)
    registry.reconcile([A, B])
    clock.jump(60.0)
    succeed(registry, registry.all()[1])
    clock.jump(10.0)
    assert (seen(registry, A).ramp, seen(registry, B).ramp) == (1.0, 0.5)


def test_an_ejected_replica_comes_back_slowly(clock: ManualClock) -> None:
    registry = healthy(clock, A, B, slow_start_seconds=20.0)
    lose(registry, A)
    assert seen(registry, A).ramp == 1.0
    clock.jump(40.0)
    assert seen(registry, A).ramp == 0.5


def test_without_a_slow_start_nothing_ramps(clock: ManualClock) -> None:
    registry = healthy(clock, A)
    succeed(registry, fail(registry, A))
    assert seen(registry, A).ramp == 1.0
