"""deploy where AWS takes its time, fails or refuses: what moto does not play, over real HTTP from
tests/support/fake_stacks.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.conftest import (
    DATA_STACK,
    GIVEN,
    PUT_OUT,
    SERVICE_STACK,
    Infra,
    QuickClock,
    asked_of_stacks,
)
from tests.support.fake_aws import Answer, Failure, FakeAws
from tests.support.fake_stacks import Act, FakeStacks

DATA, SERVICE = DATA_STACK, SERVICE_STACK
FAILS = [
    Act(
        "CREATE_IN_PROGRESS",
        (
            "Cluster CREATE_IN_PROGRESS",
            "Service CREATE_FAILED image not found",
            "Alarm CREATE_FAILED Resource creation cancelled",
        ),
    ),
    Act("ROLLBACK_IN_PROGRESS", ("streamhold-service ROLLBACK_IN_PROGRESS the following failed: [Service]",)),
    Act("ROLLBACK_COMPLETE", ("streamhold-service ROLLBACK_COMPLETE",)),
]


def test_what_happens_is_told_once_each_and_in_order(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.creating[SERVICE] = [
        Act("CREATE_IN_PROGRESS", ("Cluster CREATE_IN_PROGRESS", "Cluster CREATE_COMPLETE")),
        Act("CREATE_IN_PROGRESS"),
        Act("CREATE_IN_PROGRESS", ("Service CREATE_IN_PROGRESS", "Service CREATE_COMPLETE")),
        Act("CREATE_COMPLETE", ("streamhold-service CREATE_COMPLETE",)),
    ]
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    told = [line.split("  ")[2:] for line in ended.out.splitlines() if line.startswith("  11:59")]
    words = [" ".join(" ".join(line).split()) for line in told][1:]
    assert words == [
        "create in progress the stack itself",
        "create in progress Cluster (AWS::ECS::Service)",
        "create complete Cluster (AWS::ECS::Service)",
        "create in progress Service (AWS::ECS::Service)",
        "create complete Service (AWS::ECS::Service)",
        "create complete the stack itself",
    ]
    service = stacks.found(SERVICE)
    assert service is not None
    assert service.parameters["RedisUrlSecretArn"] == "arn:secret"


def test_a_failure_shows_the_first_cause(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.creating[SERVICE] = FAILS
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "infra: streamhold-service is ROLLBACK_COMPLETE",
        "infra: first to fail: Service (AWS::ECS::Service): image not found",
        "infra: what had been created was removed again; the next deploy removes the rest",
    ]


def test_what_failed_at_its_creation_is_removed_only_when_that_is_agreed_to(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    stacks.creating[SERVICE] = FAILS
    assert infra(aws.url, "deploy", *GIVEN).status == 1
    del stacks.creating[SERVICE]

    refused = infra(aws.url, "deploy", *GIVEN)
    assert refused.status == 1
    assert "so it can only be deleted" in refused.out
    assert "image not found" in refused.out
    assert "add --yes" in refused.err
    assert asked_of_stacks(aws, "DeleteStack") == []

    agreed = infra(aws.url, "deploy", *GIVEN, "--yes")
    assert agreed.status == 0, agreed.err
    assert f"{SERVICE}: deleted" in agreed.out
    assert f"{SERVICE}: created" in agreed.out


@pytest.mark.parametrize("under_way", ["CREATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"])
def test_what_is_under_way_is_awaited_first(
    aws: FakeAws, stacks: FakeStacks, infra: Infra, under_way: str
) -> None:
    data = stacks.there(DATA, under_way, parameters={"VpcId": "vpc-0123456789abcdef0", "NodeType": "small"})
    stacks.happens(data, [f"{DATA} {under_way} User Initiated"])
    data.outputs = PUT_OUT
    data.acts = [
        Act(under_way),
        Act(under_way, ("UrlSecret UPDATE_COMPLETE",)),
        Act(under_way.replace("IN_PROGRESS", "COMPLETE")),
    ]
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    assert f"{DATA}: {under_way}, begun before this command; waiting for it" in ended.out
    assert "update complete       UrlSecret" in ended.out
    assert f"{DATA}: nothing to change" in ended.out
    assert f"{SERVICE}: created" in ended.out


def test_an_update_that_fails_leaves_what_was_there(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    assert infra(aws.url, "deploy", *GIVEN).status == 0
    stacks.updating[SERVICE] = [
        Act("UPDATE_IN_PROGRESS", ("Service UPDATE_FAILED circuit breaker",)),
        Act("UPDATE_ROLLBACK_COMPLETE"),
    ]
    ended = infra(aws.url, "deploy", "--parameter", "ImageUri=gateway:2")
    assert ended.status == 1
    assert "circuit breaker" in ended.err
    assert "it is again what it was before" in ended.err


def test_a_stack_that_only_a_person_can_help_is_explained(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    stuck = stacks.there(DATA, "UPDATE_ROLLBACK_FAILED", parameters={"VpcId": "vpc-0123456789abcdef0"})
    stacks.happens(stuck, [f"{DATA} UPDATE_IN_PROGRESS User Initiated", "Group UPDATE_FAILED in use"])
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 1
    assert "first to fail: Group (AWS::ECS::Service): in use" in ended.err
    assert f"continue-update-rollback --stack-name {DATA}" in ended.err
    assert asked_of_stacks(aws, "CreateStack", "UpdateStack", "DeleteStack") == []


def test_a_wait_ends_in_time_and_says_what_goes_on(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    data = stacks.there(DATA, "CREATE_IN_PROGRESS", parameters={"VpcId": "vpc-0123456789abcdef0"})
    stacks.happens(data, [f"{DATA} CREATE_IN_PROGRESS User Initiated", "Valkey CREATE_IN_PROGRESS"])
    ended = infra(aws.url, "deploy", *GIVEN, "--timeout", "300", "--every", "30")
    assert ended.status == 1
    assert "is not done after 5 min; --timeout gives it longer" in ended.err
    assert "what has begun goes on in AWS" in ended.err
    # A wait without news says that it goes on, so that a log shows life.
    assert ended.out.count("still CREATE_IN_PROGRESS, at Valkey") == 5


def test_a_rule_of_the_template_is_told_before_anything_is_done(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    ended = infra(aws.url, "deploy", *GIVEN, "--parameter", "MinCount=66")
    assert ended.status == 2
    assert ended.err == "infra: streamhold-service: sixty-six are too many\n"
    assert asked_of_stacks(aws, "CreateStack") == []


# -- throttled, lost


def test_throttling_in_the_middle_is_borne(
    aws: FakeAws, stacks: FakeStacks, infra: Infra, clock: QuickClock
) -> None:
    describe = aws.operations["DescribeStacks"]
    looks = 0

    def throttled(asked: object) -> Answer:
        nonlocal looks
        looks += 1
        assert isinstance(asked, dict)
        return Failure("Throttling", message="Rate exceeded") if 3 < looks < 24 else describe(asked)

    aws.operations["DescribeStacks"] = throttled
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    assert "AWS is asked too often" in ended.out
    assert clock.slept > 60


def test_throttled_without_an_end_it_gives_up(aws: FakeAws, infra: Infra, clock: QuickClock) -> None:
    aws.operations["DescribeStacks"] = lambda _: Failure("Throttling", message="Rate exceeded")
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("infra: AWS is asked too often (Throttling for cloudformation:DescribeStacks)")
    assert aws.count("DescribeStacks") == 6
    assert 15 < clock.slept < 31


def test_a_fault_of_awss_own_is_tried_again(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    describe = aws.operations["DescribeStacks"]
    failures = [Failure("InternalFailure", 500), Failure("ServiceUnavailable", 503)]
    aws.operations["DescribeStacks"] = lambda asked: failures.pop() if failures else describe(asked)
    assert infra(aws.url, "deploy", *GIVEN).status == 0


def test_a_creation_whose_answer_is_lost_is_found_again(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    create = aws.operations["CreateStack"]
    lost: list[Answer] = []

    def loses_the_first(asked: Mapping[str, Any]) -> Answer:
        answer = create(asked)
        if not lost:
            lost.append(answer)
            return Failure("InternalFailure", 500)
        return answer

    aws.operations["CreateStack"] = loses_the_first
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    assert f"{DATA}: is being made or changed already; looking again" in ended.out
    assert f"{SERVICE}: created" in ended.out
    tokens = [asked["ClientRequestToken"] for name, asked in aws.asked if name == "CreateStack"]
    # By its token AWS itself knows a repeated call.
    assert tokens[0] == tokens[1]


def test_a_stack_that_somebody_else_begins_to_change_is_awaited(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    assert infra(aws.url, "deploy", *GIVEN).status == 0
    stacks.updating[SERVICE] = None
    update = aws.operations["UpdateStack"]
    data = stacks.found(DATA)
    assert data is not None
    begun: list[str] = []

    def somebody_was_faster(asked: Mapping[str, Any]) -> Answer:
        if asked["StackName"] != DATA or begun:
            return update(asked)
        begun.append(DATA)
        stacks.happens(data, [f"{DATA} UPDATE_IN_PROGRESS User Initiated"])
        data.acts = [Act("UPDATE_IN_PROGRESS")] * 2 + [Act("UPDATE_COMPLETE")]
        told = f"Stack:{data.id} is in UPDATE_IN_PROGRESS state and can not be updated."
        return Failure("ValidationError", message=told)

    aws.operations["UpdateStack"] = somebody_was_faster
    ended = infra(aws.url, "deploy")
    assert ended.status == 0, ended.err
    assert f"{DATA}: is being made or changed already; looking again" in ended.out
    assert f"{DATA}: nothing to change" in ended.out


def test_a_failed_stack_keeps_nothing_for_the_one_that_replaces_it(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    stacks.there(DATA, "ROLLBACK_COMPLETE", parameters={"VpcId": "vpc-01234567", "NodeType": "small"})
    ended = infra(aws.url, "deploy", "--only", "data", "--yes")
    assert ended.status == 2
    assert "VpcId has to be given" in ended.err
    assert asked_of_stacks(aws, "DeleteStack") == []


def test_who_is_signed_out_in_the_middle_is_told_what_goes_on(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    describe = aws.operations["DescribeStackEvents"]
    looks = iter(range(100))
    aws.operations["DescribeStackEvents"] = lambda asked: (
        describe(asked) if next(looks) < 1 else Failure("ExpiredToken", 403)
    )
    ended = infra(aws.url, "deploy", *GIVEN)
    assert ended.status == 1
    assert "AWS refuses these credentials (ExpiredToken)" in ended.err
    assert "what has begun goes on in AWS" in ended.err
