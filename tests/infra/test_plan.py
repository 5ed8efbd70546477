"""plan where AWS takes its time or refuses, and change sets with what moto leaves out, over real HTTP from
tests/support/fake_stacks.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.conftest import DATA_STACK, GIVEN, PUT_OUT, SERVICE_STACK, Infra, asked_of_stacks
from tests.support.fake_aws import Answer, Failure, FakeAws
from tests.support.fake_stacks import FakeStacks

DATA, SERVICE = DATA_STACK, SERVICE_STACK


def test_a_plan_says_what_is_replaced_and_why_on_however_many_pages(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    stacks.there(DATA, "CREATE_COMPLETE", parameters={"VpcId": "vpc-0123456789abcdef0"}, outputs=PUT_OUT)
    service = stacks.there(
        SERVICE,
        "UPDATE_COMPLETE",
        parameters={"VpcId": "vpc-01234567", "SubnetIds": "subnet-01234567", "ImageUri": "gateway:1"},
    )
    detail = {
        "Target": {"Attribute": "Properties", "Name": "Image", "RequiresRecreation": "Always"},
        "ChangeSource": "ParameterReference",
        "CausingEntity": "ImageUri",
    }
    stacks.changes = [
        {"Type": "Resource", "ResourceChange": {"LogicalResourceId": name, "ResourceType": "AWS::X", **more}}
        for name, more in (
            ("New", {"Action": "Add"}),
            ("Old", {"Action": "Remove", "PolicyAction": "Retain"}),
            ("Task", {"Action": "Modify", "Replacement": "True", "Details": [detail]}),
        )
    ]
    ended = infra(aws.url, "plan", "--parameter", "ImageUri=gateway:2", "--only", "service")
    assert ended.status == 0, ended.err
    assert "would be updated: 1 to create, 1 to replace, 1 to remove" in ended.out
    assert "  ! replace      Task  AWS::X: Image needs a new one (parameter ImageUri)" in ended.out
    assert "  - remove       Old   AWS::X: it stays, outside the stack" in ended.out
    assert service.change_sets == []
    assert service.status == "UPDATE_COMPLETE"


def test_a_plan_that_aws_refuses_leaves_nothing(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.change_set_states = ["CREATE_IN_PROGRESS", "FAILED"]
    stacks.change_set_reason = "Template error: no such attribute"
    ended = infra(aws.url, "plan", *GIVEN)
    assert ended.status == 1
    assert "AWS refuses this change" in ended.err
    assert "no such attribute" in ended.err
    (left,) = stacks.stacks.values()
    assert left.change_sets == []
    assert asked_of_stacks(aws, "DeleteStack") == [("DeleteStack", left.id)]


def test_an_empty_change_set_is_no_change(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.there(DATA, "CREATE_COMPLETE", parameters={"VpcId": "vpc-0123456789abcdef0", "NodeType": "small"})
    stacks.change_set_states = ["FAILED"]
    stacks.change_set_reason = "The submitted information didn't contain changes."
    ended = infra(aws.url, "plan", "--only", "data")
    assert ended.status == 0, ended.err
    assert f"{DATA}: nothing to change" in ended.out


@pytest.mark.parametrize(
    ("state", "status", "told"),
    [
        ("UPDATE_IN_PROGRESS", 1, "can be told once that has ended"),
        ("UPDATE_ROLLBACK_FAILED", 1, "continue-update-rollback"),
        ("ROLLBACK_COMPLETE", 0, "a deployment would ask, delete it, and create it anew"),
    ],
)
def test_a_plan_where_no_change_set_can_be_made(
    aws: FakeAws, stacks: FakeStacks, infra: Infra, state: str, status: int, told: str
) -> None:
    stacks.there(DATA, state, parameters={"VpcId": "vpc-0123456789abcdef0"})
    ended = infra(aws.url, "plan", *GIVEN, "--only", "data")
    assert ended.status == status, ended.err
    assert told in ended.out
    assert aws.count("CreateChangeSet") == 0


def test_a_plan_leaves_somebody_elses_change_set(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    review = stacks.there(DATA, "REVIEW_IN_PROGRESS", change_sets=["by-hand"])
    ended = infra(aws.url, "plan", *GIVEN, "--only", "data")
    assert ended.status == 0, ended.err
    assert "change sets that are not ours (by-hand)" in ended.out
    assert review.change_sets == ["by-hand"]
    assert review.status == "REVIEW_IN_PROGRESS"


def test_a_change_set_whose_answer_is_lost_is_found_again_and_removed(
    aws: FakeAws, stacks: FakeStacks, infra: Infra
) -> None:
    create = aws.operations["CreateChangeSet"]
    lost: list[Answer] = []

    def loses_the_first(asked: Mapping[str, Any]) -> Answer:
        answer = create(asked)
        if not lost:
            lost.append(answer)
            return Failure("InternalFailure", 500)
        return answer

    aws.operations["CreateChangeSet"] = loses_the_first
    ended = infra(aws.url, "plan", *GIVEN, "--only", "data")
    assert ended.status == 0, ended.err
    (left,) = stacks.stacks.values()
    assert left.change_sets == []
    assert asked_of_stacks(aws, "DeleteStack") == [("DeleteStack", left.id)]
