"""The close-code table as tests hold sessions to it."""

from __future__ import annotations

from tests.support.streaming_client import Attempt

GATEWAYS: dict[int, set[str]] = {
    1001: {"idle_timeout"},
    1008: {"slow_consumer", "upstream_refused", "client_refused"},
    1009: {"message_too_big"},
    1011: {"replica_lost", "ping_timeout", "internal_error"},
    1012: {"gateway_restarting"},
    1013: {"no_healthy_replica", "queue_full", "queue_timeout"},
}
"""What the gateway itself ends a session with."""

REPLICAS: dict[int, set[str]] = {1011: {"flaky"}, 1013: {"session_rejected"}}
"""What the emulated replicas close with, which passes unchanged."""


def assert_in_table(attempt: Attempt) -> None:
    """A try that did not complete ended as the table says: by a status, or by a close that it names."""
    if attempt.status is not None:
        assert attempt.status in (401, 403, 429, 500, 502, 503), attempt
        return
    assert attempt.fault is None, attempt
    assert attempt.close_code is not None, attempt
    allowed = GATEWAYS.get(attempt.close_code, set()) | REPLICAS.get(attempt.close_code, set())
    assert attempt.close_reason in allowed, attempt
