"""Whether all is well with the gateways, and how they are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from infra.service import (
    UNREGISTERED,
    Deployment,
    Service,
    Target,
    Task,
    service_lines,
    target_words,
    troubles,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEALTHY = Target("healthy")
DONE = Deployment("PRIMARY", "COMPLETED", definition="gateway:7", desired=2, running=2)


def task(name: str = "aaaaaaaaaa", status: str = "RUNNING", target: Target = HEALTHY, **more: object) -> Task:
    return replace(Task(name, status, target=target), **more)  # type: ignore[arg-type]


def service(*tasks: Task, **more: object) -> Service:
    whole = Service("gateway", "gateways", "ACTIVE", 2, 2, 0, deployments=[DONE], tasks=tasks)
    return replace(whole, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "serves"),
    [
        (task(), True),
        (task(container_health="HEALTHY"), True),
        (task(container_health="UNHEALTHY"), False),
        (task(target=Target("initial")), False),
        (task(target=UNREGISTERED), False),
        (task(status="PENDING"), False),
        (task(desired_status="STOPPED"), False),
    ],
)
def test_who_serves(one: Task, serves: bool) -> None:
    assert one.serves is serves


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (task(), ""),
        (task(status="PENDING"), "aaaaaaaa is PENDING"),
        (task(container_health="UNHEALTHY"), "aaaaaaaa fails its container's health check"),
        (task(target=Target("unhealthy", "503")), "not healthy behind the load balancer: unhealthy (503)"),
        (task(target=UNREGISTERED), "not healthy behind the load balancer: not registered"),
        # Whoever is on the way out may be as it likes.
        (task(status="DEACTIVATING", target=Target("draining"), desired_status="STOPPED"), ""),
        (task(status="STOPPED", target=UNREGISTERED, desired_status="STOPPED"), ""),
    ],
)
def test_what_is_wrong_with_a_task(one: Task, told: str) -> None:
    found = troubles(service(one))
    assert [line for line in found if told not in line] == []
    assert bool(found) is bool(told)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"status": "DRAINING"}, ["the service is DRAINING"]),
        ({"desired": 0, "running": 0}, ["no gateway is wanted: the desired count is 0"]),
        ({"running": 1}, ["1 of 2 gateways running"]),
        ({"running": 1, "pending": 1}, ["1 of 2 gateways running, 1 pending"]),
        ({"desired": 1, "running": 2}, ["2 of 1 gateway running"]),
        (
            {"deployments": [replace(DONE, rollout="FAILED", reason="circuit breaker")]},
            ["the deployment of gateway:7 is FAILED: circuit breaker"],
        ),
        ({"deployments": [replace(DONE, rollout="")]}, []),
        ({"deployments": [DONE, Deployment("ACTIVE", "FAILED")]}, []),
    ],
)
def test_what_is_wrong_with_the_service(more: dict[str, object], told: list[str]) -> None:
    assert troubles(service(**more)) == told


@pytest.mark.parametrize(
    ("deployments", "rolling"),
    [
        ([], False),
        ([DONE], False),
        ([replace(DONE, rollout="IN_PROGRESS")], True),
        ([DONE, Deployment("ACTIVE", "COMPLETED")], True),
    ],
)
def test_whether_one_version_replaces_another(deployments: list[Deployment], rolling: bool) -> None:
    assert service(deployments=deployments).rolling is rolling


def test_a_line_for_each_task_that_has_not_ended() -> None:
    lines = service_lines(
        service(
            task("a", definition="gateway:7", since=NOW - timedelta(minutes=5)),
            task("b", "DEACTIVATING", Target("draining"), desired_status="STOPPED"),
            task("c", "STOPPED", desired_status="STOPPED"),
            task("d", container_health="UNHEALTHY"),
            deployments=[replace(DONE, failed=2)],
        ),
        NOW,
    )
    assert lines == [
        "service gateway: 2 desired, 2 running, 0 pending",
        "  PRIMARY gateway:7 COMPLETED: 2 desired, 2 running, 0 pending, 2 failed",
        "  TASK  STATE                   LOAD BALANCER  AGE    DEFINITION",
        "  a     RUNNING                 healthy        5 min  gateway:7",
        "  b     DEACTIVATING, stopping  draining       -",
        "  d     RUNNING, unhealthy      healthy        -",
    ]


def test_without_a_task_there_is_no_table() -> None:
    assert len(service_lines(service(), NOW)) == 2


def test_a_reason_is_told_where_something_is_wrong() -> None:
    assert target_words(Target("healthy", "fine")) == "healthy"
    assert target_words(Target("initial", "just registered")) == "initial (just registered)"
