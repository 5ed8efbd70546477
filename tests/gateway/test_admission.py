"""A place on a replica: chosen by the policy, counted at once, given back with its lease."""

from __future__ import annotations

import pytest

from gateway.admission import Admission
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.lease import Lease
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, NoneHealthy, Policy

A, B, C = (f"http://127.0.0.1:{port}" for port in (9101, 9102, 9103))


def healthy(*urls: str, max_sessions: int | None = None) -> ReplicaRegistry:
    registry = ReplicaRegistry([ReplicaEndpoint(url, max_sessions=max_sessions) for url in urls])
    for replica in registry.all():
        registry.note_success(replica, recovery_threshold=1, latency_ms=1)
    return registry


def placed(admission: Admission, *tried: str) -> str:
    lease = admission.place(tried)
    assert isinstance(lease, Lease)
    return lease.url


def test_a_place_counts_until_its_lease_ends() -> None:
    registry = healthy(A, max_sessions=1)
    admission = Admission(registry, Policy.PRIORITY)
    lease = admission.place()
    assert isinstance(lease, Lease)
    assert [(replica.sessions, replica.pending) for replica in registry.all()] == [(1, 1)]
    assert admission.place() == AllFull()
    lease.release()
    assert placed(admission) == A


def test_replicas_that_were_tried_are_left_out() -> None:
    admission = Admission(healthy(A, B), Policy.PRIORITY)
    assert placed(admission) == A
    assert placed(admission, A) == B
    assert admission.place((A, B)) == NoneHealthy()


def test_without_a_healthy_replica_there_is_no_place() -> None:
    admission = Admission(ReplicaRegistry([ReplicaEndpoint(A)]), Policy.PRIORITY)
    assert admission.place() == NoneHealthy()


def test_a_draining_replica_takes_nobody() -> None:
    registry = healthy(A, B)
    registry.drain(A)
    assert placed(Admission(registry, Policy.PRIORITY)) == B


def test_round_robin_goes_round_by_sessions() -> None:
    admission = Admission(healthy(A, B, C), Policy.ROUND_ROBIN)
    assert [placed(admission) for _ in range(6)] == [A, B, C, A, B, C]


def test_a_retry_takes_no_turn_away() -> None:
    admission = Admission(healthy(A, B, C), Policy.ROUND_ROBIN)
    assert placed(admission) == A
    assert placed(admission, A) in (B, C)
    assert placed(admission) == B


def test_least_sessions_counts_the_sessions_that_are_still_opening() -> None:
    registry = healthy(A, B)
    admission = Admission(registry, Policy.LEAST_SESSIONS)
    assert [placed(admission) for _ in range(4)] == [A, B, A, B]


@pytest.mark.parametrize("policy", list(Policy))
def test_every_policy_leaves_nobody_over_the_limit(policy: Policy) -> None:
    registry = healthy(A, B, C, max_sessions=2)
    admission = Admission(registry, policy)
    assert sorted(placed(admission) for _ in range(6)) == sorted([A, B, C] * 2)
    assert admission.place() == AllFull()
