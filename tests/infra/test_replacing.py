"""Replacing one gateway: what speaks against it, what is told, when it is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.errors import Unfinished
from infra.replacing import Replacement, beforehand, find_task, objections
from infra.service import Deployment, Service, Target
from tests.infra.test_service import service, task

A, B = task("aaaaaaaa1111"), task("bbbbbbbb2222")
LEAVING = replace(A, desired_status="STOPPED", last_status="DEACTIVATING", target=Target("draining"))
GONE = replace(A, desired_status="STOPPED", last_status="STOPPED", target=Target(""))
NEW = task("cccccccc3333")


@pytest.mark.parametrize("text", ["aaaaaaaa1111", "aaaa", "arn:aws:ecs:eu:1:task/gateways/aaaaaaaa1111"])
def test_a_task_by_its_id_or_the_beginning_of_it(text: str) -> None:
    assert find_task(service(A, B), text) is A


def test_a_whole_id_wins_over_a_beginning() -> None:
    longer = task("aaaaaaaa11112222")
    assert find_task(service(longer, A), "aaaaaaaa1111") is A


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("aaa", "has no task aaa"),
        ("", "has no task"),
        ("dddd", "there is aaaaaaaa1111, aaaaaaaa2222 and bbbbbbbb2222"),
        ("aaaa", "several tasks begin with aaaa: aaaaaaaa1111 and aaaaaaaa2222"),
    ],
)
def test_a_text_that_means_no_single_task(text: str, told: str) -> None:
    with pytest.raises(Unfinished, match=told):
        find_task(service(A, task("aaaaaaaa2222"), B), text)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (service(A, B), []),
        # A sick one may go while another serves.
        (service(replace(A, target=Target("unhealthy")), B), []),
        (service(A, B, replace(NEW, desired_status="STOPPED", last_status="STOPPING")), []),
        (service(A, desired=1, running=1), ["no gateway but aaaaaaaa serves"]),
        (service(A, replace(B, target=Target("initial"))), ["no gateway but", "bbbbbbbb does not serve"]),
        (service(A, B, desired=3), ["only 2 of 3 gateways are running"]),
        (service(A, B, deployments=[Deployment("PRIMARY", "IN_PROGRESS")]), ["a deployment is under way"]),
    ],
)
def test_what_speaks_against_it(now: Service, told: list[str]) -> None:
    found = objections(now, now.tasks[0])
    assert len(found) == len(told)
    assert all(one in line for one, line in zip(told, found, strict=True))


def test_it_is_said_when_fewer_serve_than_deployments_keep_to() -> None:
    assert len(beforehand(service(A, B), A, "300")) == 2
    assert len(beforehand(service(A, B, minimum_percent=50), A, "300")) == 1
    assert "up to 300 s" in beforehand(service(A, B), A, "300")[0]


UNDER_WAY = Replacement(A.id, "300", frozenset({B.id, "dddd"}))


@pytest.mark.parametrize(
    ("now", "done"),
    [
        (service(A, B), False),
        (service(LEAVING, B, NEW), False),
        (service(replace(LEAVING, last_status="STOPPING"), B, NEW), False),
        (service(GONE, B), False),
        (service(GONE, B, replace(NEW, target=Target("initial"))), False),
        (service(GONE, B, NEW), True),
        (service(B, NEW), True),
        # The autoscaling went down meanwhile.
        (service(GONE, B, desired=1), True),
    ],
)
def test_when_it_is_done(now: Service, done: bool) -> None:
    assert UNDER_WAY.done(now) is done


def test_only_what_has_changed_is_told() -> None:
    looks = [
        service(A, B),
        service(LEAVING, B),
        service(LEAVING, B, replace(NEW, last_status="PENDING")),
        service(replace(LEAVING, last_status="STOPPING"), B, replace(NEW, target=Target("initial"))),
        service(GONE, B, NEW),
        service(B, NEW),
    ]
    told: list[list[str]] = []
    before: dict[str, str] = {}
    for look in looks:
        now = UNDER_WAY.states(look)
        told.append(UNDER_WAY.news(before, now))
        before = now
    assert told == [
        ["old aaaaaaaa: runs"],
        ["old aaaaaaaa: out of the load balancer, sessions go on for up to 300 s"],
        ["new cccccccc: pending"],
        [
            "old aaaaaaaa: told to stop (SIGTERM): it drains what is left",
            "new cccccccc: running; behind the load balancer: initial",
        ],
        ["old aaaaaaaa: has stopped", "new cccccccc: serves"],
        [],
    ]


def test_new_ones_that_stopped_again_are_told_from_those_that_were_to_go() -> None:
    broken = replace(NEW, desired_status="STOPPED", last_status="STOPPED", stopped_reason="no image")
    now = service(GONE, B, replace(GONE, id="dddd"), broken)
    assert UNDER_WAY.failed_starts(now) == [broken]
    assert UNDER_WAY.states(now)[broken.id] == "stopped again: no image"
