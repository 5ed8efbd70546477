"""Each way of ending a session is told completely and legally; the configuration's problems are all told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from gateway import errors
from gateway.errors import Problem, RuntimeRefused, SessionEnded, SettingsInvalid, StreamholdError
from gateway.session.core import message_for, replica_close
from gateway.session.events import MAX_REASON_BYTES, wire_code

PROTOCOL_CODES = {
    "session_rejected",
    "invalid_message",
    "preset_mismatch",
    "gpu_unavailable",
    "worker_failed",
    "upstream_timeout",
    "internal_error",
}


def causes(parent: type[SessionEnded] = SessionEnded) -> Iterator[type[SessionEnded]]:
    """The classes that are raised or told: those without children."""
    children = parent.__subclasses__()
    if not children:
        yield parent
    for child in children:
        yield from causes(child)


def made(cause: type[SessionEnded]) -> SessionEnded:
    return errors.UpgradeRefused(401) if cause is errors.UpgradeRefused else cause()


@pytest.mark.parametrize("cause", list(causes()), ids=lambda cause: cause.__name__)
def test_a_cause_is_complete_and_legal(cause: type[SessionEnded]) -> None:
    assert wire_code(cause.close_code) == cause.close_code
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", cause.close_reason)
    assert len(cause.close_reason.encode()) <= MAX_REASON_BYTES
    assert 400 <= cause.http_status <= 599
    assert cause.retryable in (True, False)
    assert cause.message
    assert cause.code is None or cause.code in PROTOCOL_CODES
    assert "ReplicaFault" not in str(made(cause))


@pytest.mark.parametrize("cause", list(causes()), ids=lambda cause: cause.__name__)
def test_a_replica_is_told_by_a_code_that_a_client_may_send(cause: type[SessionEnded]) -> None:
    closed = replica_close(made(cause))
    assert closed.code in (1001, 1008, 1009)
    assert closed.reason == cause.close_reason


@pytest.mark.parametrize("cause", list(causes()), ids=lambda cause: cause.__name__)
def test_the_message_of_a_cause_is_one_of_the_protocol(cause: type[SessionEnded]) -> None:
    text = message_for(made(cause))
    if text is None:
        assert cause.code is None
        return
    message = json.loads(text)
    assert message["message"] == cause.message
    assert message["retryable"] is cause.retryable
    if message["type"] == "error":
        assert message["code"] == cause.code
    else:
        assert message["type"] == "going_away"


@pytest.mark.parametrize(
    ("cause", "close_code", "close_reason", "code"),
    [
        (errors.NoHealthyReplica, 1013, "no_healthy_replica", "gpu_unavailable"),
        (errors.ReplicasFull, 1013, "queue_full", "gpu_unavailable"),
        (errors.UpgradeRefused, 1008, "upstream_refused", "gpu_unavailable"),
        (errors.ReplicaLost, 1011, "replica_lost", "worker_failed"),
        (errors.MessageTooBig, 1009, "message_too_big", None),
        (errors.IdleTimeout, 1001, "idle_timeout", None),
        (errors.PingTimeout, 1011, "ping_timeout", None),
        (errors.SlowConsumer, 1008, "slow_consumer", None),
        (errors.GatewayRestarting, 1012, "gateway_restarting", None),
        (errors.InternalError, 1011, "internal_error", "internal_error"),
    ],
)
def test_clients_are_told_what_they_were_promised(
    cause: type[SessionEnded], close_code: int, close_reason: str, code: str | None
) -> None:
    assert (cause.close_code, cause.close_reason, cause.code) == (close_code, close_reason, code)


def test_a_draining_gateway_is_told_by_503() -> None:
    assert errors.GatewayDraining.http_status == 503


def test_every_class_hangs_on_the_tree_and_is_drawn_in_it() -> None:
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    raised = [item for item in classes if issubclass(item, Exception)]
    assert raised
    for item in raised:
        assert issubclass(item, StreamholdError)
        assert item.__name__ in (errors.__doc__ or "")


def test_the_peers_fault_is_never_the_gateways() -> None:
    kinds = (errors.ReplicaFault, errors.UpgradeRefused, errors.ClientFault, errors.GatewayFault)
    for cause in causes():
        assert sum(issubclass(cause, kind) for kind in kinds) == 1


def test_all_problems_are_told_each_on_its_line() -> None:
    problems = [
        Problem("gateway.yaml", "router.port", "must be a port"),
        Problem("gateway.yaml", "", "is empty"),
    ]
    invalid = SettingsInvalid(iter(problems))
    assert invalid.problems == tuple(problems)
    assert str(invalid) == "gateway.yaml: router.port: must be a port\ngateway.yaml: is empty"


def test_a_refused_upgrade_keeps_its_status() -> None:
    refused = errors.UpgradeRefused(401)
    assert refused.status == 401
    assert "401" in str(refused)


def test_a_refused_runtime_is_no_session_matter() -> None:
    assert not issubclass(RuntimeRefused, SessionEnded)
