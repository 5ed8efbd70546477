"""destroy where something stands in the way, over real HTTP from tests/support/fake_stacks.py."""

from __future__ import annotations

from tests.infra.conftest import DATA_STACK, SERVICE_STACK, Infra, asked_of_stacks
from tests.support.fake_aws import FakeAws
from tests.support.fake_stacks import Act, FakeStacks

DATA, SERVICE = DATA_STACK, SERVICE_STACK


def test_nothing_is_deleted_while_one_is_protected(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.there(DATA, "CREATE_COMPLETE", protected=True)
    stacks.there(SERVICE, "CREATE_COMPLETE")
    ended = infra(aws.url, "destroy", "--yes")
    assert ended.status == 1
    assert f"{DATA}: protected against deletion" in ended.err
    assert asked_of_stacks(aws, "DeleteStack") == []


def test_what_keeps_a_stack_is_told(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    stacks.there(DATA, "CREATE_COMPLETE")
    stacks.there(SERVICE, "CREATE_COMPLETE")
    stacks.deleting[SERVICE] = [
        Act("DELETE_IN_PROGRESS", ("GatewayGroup DELETE_FAILED it is in use",)),
        Act("DELETE_FAILED"),
    ]
    ended = infra(aws.url, "destroy", "--yes")
    assert ended.status == 1
    assert "first to fail: GatewayGroup (AWS::ECS::Service): it is in use" in ended.err
    assert stacks.found(DATA) is not None

    # And a rerun goes on.
    again = infra(aws.url, "destroy", "--yes")
    assert again.status == 0, again.err
    assert stacks.found(DATA) is None
    assert stacks.found(SERVICE) is None


def test_a_deletion_that_is_under_way_is_awaited(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    service = stacks.there(SERVICE, "DELETE_IN_PROGRESS")
    service.acts = [Act("DELETE_IN_PROGRESS")] * 4 + [Act("DELETE_COMPLETE")]
    ended = infra(aws.url, "destroy", "--yes")
    assert ended.status == 0, ended.err
    assert "begun before; waiting for it" in ended.out
    assert asked_of_stacks(aws, "DeleteStack") == []
