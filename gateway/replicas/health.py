"""PURE. The rule by which evidence moves a replica between unknown, healthy and unhealthy.

    UNKNOWN   --first success-->                              HEALTHY
    UNKNOWN   --failure_threshold failures in a row-->        UNHEALTHY
    HEALTHY   --failure_threshold failures in a row-->        UNHEALTHY
    UNHEALTHY --recovery_threshold successes in a row-->      HEALTHY

A success ends the row of failures, a failure ends the row of successes, and a replica that turns healthy
starts a new row of successes.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.replicas.model import ReplicaHealth, ReplicaStatus


def after_success(
    health: ReplicaHealth, *, at: float, latency_ms: float, recovery_threshold: int
) -> ReplicaHealth:
    """What `health` becomes by one success at `at` (seconds since the epoch)."""
    successes = health.consecutive_successes + 1
    needed = {ReplicaStatus.UNKNOWN: 1, ReplicaStatus.UNHEALTHY: recovery_threshold}.get(health.status)
    turns_healthy = needed is not None and successes >= needed
    return replace(
        health,
        status=ReplicaStatus.HEALTHY if turns_healthy else health.status,
        last_ok_at=at,
        last_latency_ms=latency_ms,
        consecutive_failures=0,
        consecutive_successes=0 if turns_healthy else successes,
    )


def after_failure(health: ReplicaHealth, *, at: float, failure_threshold: int) -> ReplicaHealth:
    """What `health` becomes by one failure at `at` (seconds since the epoch)."""
    failures = health.consecutive_failures + 1
    return replace(
        health,
        status=ReplicaStatus.UNHEALTHY if failures >= failure_threshold else health.status,
        last_failure_at=at,
        consecutive_failures=failures,
        consecutive_successes=0,
    )
