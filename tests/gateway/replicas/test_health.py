from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.replicas.health import after_failure, after_success
from gateway.replicas.model import ReplicaHealth, ReplicaStatus

UNKNOWN, HEALTHY, UNHEALTHY = ReplicaStatus.UNKNOWN, ReplicaStatus.HEALTHY, ReplicaStatus.UNHEALTHY


def judged(
    evidence: str, start: ReplicaHealth | None = None, *, failures: int = 3, successes: int = 2
) -> ReplicaHealth:
    """`start` after `evidence`: a `+` for each success, a `-` for each failure."""
    health = start or ReplicaHealth()
    for at, sign in enumerate(evidence, start=1):
        if sign == "+":
            health = after_success(health, at=float(at), latency_ms=at * 10.0, recovery_threshold=successes)
        else:
            health = after_failure(health, at=float(at), failure_threshold=failures)
    return health


def test_the_first_success_makes_an_unknown_replica_healthy() -> None:
    health = judged("+")
    assert health.status is HEALTHY
    assert health.consecutive_successes == 0
    assert (health.last_ok_at, health.last_latency_ms) == (1.0, 10.0)


def test_failures_in_a_row_make_an_unknown_replica_unhealthy() -> None:
    assert judged("--").status is UNKNOWN
    assert judged("---").status is UNHEALTHY


def test_a_success_between_failures_starts_the_count_again() -> None:
    assert judged("+--+--").status is HEALTHY
    assert judged("+--+---").status is UNHEALTHY


def test_recovery_is_gated_by_the_recovery_threshold() -> None:
    assert judged("---+").status is UNHEALTHY
    recovered = judged("---++")
    assert recovered.status is HEALTHY
    assert recovered.consecutive_successes == 0


def test_a_failure_resets_the_successes() -> None:
    health = judged("---+-")
    assert health.consecutive_successes == 0
    assert judged("---+-+").status is UNHEALTHY


def test_an_unknown_replica_that_failed_before_needs_one_success_only() -> None:
    assert judged("--+", successes=5).status is HEALTHY


def test_thresholds_of_one_act_at_once() -> None:
    assert judged("+-", failures=1, successes=1).status is UNHEALTHY
    assert judged("+-+", failures=1, successes=1).status is HEALTHY


def test_times_and_latency_are_those_of_the_last_evidence_of_their_kind() -> None:
    health = judged("+-+-")
    assert (health.last_ok_at, health.last_failure_at, health.last_latency_ms) == (3.0, 4.0, 30.0)


@given(st.text("+-", max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_status_follows_the_rule_whatever_the_evidence(evidence: str, failures: int, successes: int) -> None:
    status, row, last = UNKNOWN, 0, ""
    for sign in evidence:
        row = row + 1 if sign == last else 1
        last = sign
        if sign == "+" and (status is UNKNOWN or (status is UNHEALTHY and row >= successes)):
            status = HEALTHY
        if sign == "-" and row >= failures:
            status = UNHEALTHY
    health = judged(evidence, failures=failures, successes=successes)
    assert health.status is status
    assert health.consecutive_failures == (row if last == "-" else 0)
