"""status and replace against a service of gateways that starts, drains and stops tasks as ECS does, over real
HTTP from tests/support/fake_gateways.py: moto starts no task of a service, and stops one at once.
"""

from __future__ import annotations

import pytest

from tests.infra.conftest import Infra
from tests.support.fake_aws import Failure, FakeAws
from tests.support.fake_gateways import BREAKS, OUTPUTS, FakeGateways
from tests.support.fake_stacks import Act, FakeStacks

PRIMARY = {"status": "PRIMARY", "rolloutState": "COMPLETED"}


@pytest.fixture
def stacks(aws: FakeAws) -> FakeStacks:
    made = FakeStacks(aws)
    made.there("streamhold-data", "CREATE_COMPLETE")
    outputs = {**OUTPUTS, "LoadBalancerDnsName": "lb.example"}
    made.there("streamhold-service", "UPDATE_COMPLETE", outputs=outputs)
    return made


@pytest.fixture
def gateways(aws: FakeAws, stacks: FakeStacks) -> FakeGateways:
    return FakeGateways(aws)


# -- status


def test_all_is_well(aws: FakeAws, gateways: FakeGateways, infra: Infra) -> None:
    first, second = gateways.tasks
    ended = infra(aws.url, "status")
    assert ended.status == 0, ended.err
    assert ended.out.splitlines() == [
        "streamhold in eu-central-1",
        "streamhold-data: CREATE_COMPLETE",
        "streamhold-service: UPDATE_COMPLETE",
        "load balancer: lb.example",
        "service gateways-service: 2 desired, 2 running, 0 pending",
        "  PRIMARY gateway:7 COMPLETED: 2 desired, 2 running, 0 pending",
        "  TASK                              STATE    LOAD BALANCER  AGE         DEFINITION",
        f"  {first.id}  RUNNING  healthy        2 h 45 min  gateway:7",
        f"  {second.id}  RUNNING  healthy        2 h 45 min  gateway:7",
        "all is well",
    ]


def test_what_is_not_well_is_told_and_the_status_is_1(
    aws: FakeAws, stacks: FakeStacks, gateways: FakeGateways, infra: Infra
) -> None:
    sick, _ = gateways.tasks
    sick.steps = ["RUNNING unhealthy"]
    gateways.desired = 3
    gateways.starts = [("PENDING",)]
    service = stacks.found("streamhold-service")
    assert service is not None
    service.status = "UPDATE_ROLLBACK_COMPLETE"
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "infra: streamhold-service is UPDATE_ROLLBACK_COMPLETE",
        "infra: 2 of 3 gateways running, 1 pending",
        f"infra: {sick.id[:8]} is not healthy behind the load balancer: "
        "unhealthy (Health checks failed with codes: [503])",
        f"infra: {gateways.tasks[2].id[:8]} is PENDING",
    ]
    assert "ECS: (service) was unable to place a task" in ended.out


def test_a_task_on_its_way_out_is_shown_and_no_trouble(
    aws: FakeAws, gateways: FakeGateways, infra: Infra
) -> None:
    leaving = gateways.runs("DEACTIVATING draining")
    leaving.desired = "STOPPED"
    over = gateways.runs("STOPPED")
    over.desired = "STOPPED"
    ended = infra(aws.url, "status")
    assert ended.status == 0, ended.err
    assert f"{leaving.id}  DEACTIVATING, stopping  draining" in ended.out
    assert over.id not in ended.out


def test_however_many_tasks_there_are(aws: FakeAws, stacks: FakeStacks, infra: Infra) -> None:
    gateways = FakeGateways(aws, 230)
    ended = infra(aws.url, "status")
    assert ended.status == 0, ended.err
    assert all(task.id in ended.out for task in gateways.tasks)
    assert aws.count("ListTasks") == 4
    assert aws.count("DescribeTasks") == 3


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        ({}, "has no output ClusterName, ServiceName and TargetGroupArn"),
        ({**OUTPUTS, "ServiceName": "other"}, "there is no service other in the cluster gateways"),
        ({**OUTPUTS, "ClusterName": "other"}, "there is no service gateways-service in the cluster other"),
    ],
)
def test_a_service_that_is_not_there(
    aws: FakeAws, stacks: FakeStacks, gateways: FakeGateways, infra: Infra, outputs: dict[str, str], told: str
) -> None:
    service = stacks.found("streamhold-service")
    assert service is not None
    service.outputs = outputs
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert told in ended.err


def test_nothing_there_is_not_well(aws: FakeAws, infra: Infra) -> None:
    FakeStacks(aws)
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert ended.err == "infra: there is no streamhold-service in eu-central-1\n"


# -- replace


def test_a_task_drains_and_another_takes_its_place(
    aws: FakeAws, gateways: FakeGateways, infra: Infra
) -> None:
    old, stays = gateways.tasks
    ended = infra(aws.url, "replace", old.id[:8])
    assert ended.status == 0, ended.err
    new = gateways.tasks[2]
    told = [line.split("  ", 2)[2] for line in ended.out.splitlines() if line.startswith("  12:")]
    assert [line for line in told if line.startswith("old")] == [
        f"old {old.id[:8]}: out of the load balancer, sessions go on for up to 300 s",
        f"old {old.id[:8]}: told to stop (SIGTERM): it drains what is left",
        f"old {old.id[:8]}: has stopped",
    ]
    assert [line for line in told if line.startswith("new")] == [
        f"new {new.id[:8]}: provisioning",
        f"new {new.id[:8]}: pending",
        f"new {new.id[:8]}: running; behind the load balancer: initial",
        f"new {new.id[:8]}: serves",
    ]
    assert "until a new one serves there are 1, below the 2 that deployments keep to" in ended.out
    assert f"{old.id} is replaced: 2 of 2 serve" in ended.out
    assert stays.status == "RUNNING"
    assert aws.count("StopTask") == 1


def test_a_rerun_waits_for_what_has_begun(aws: FakeAws, gateways: FakeGateways, infra: Infra) -> None:
    old, _ = gateways.tasks
    assert infra(aws.url, "replace", old.id, "--timeout", "5").status == 1
    again = infra(aws.url, "replace", old.id)
    assert again.status == 0, again.err
    assert "is being stopped, or has been; waiting" in again.out
    # Once more, when all is over.
    assert infra(aws.url, "replace", old.id).status == 0
    assert aws.count("StopTask") == 1


def test_the_only_one_that_serves_is_not_stopped_unasked(
    aws: FakeAws, gateways: FakeGateways, infra: Infra
) -> None:
    old, other = gateways.tasks
    other.steps = ["RUNNING unhealthy"]
    refused = infra(aws.url, "replace", old.id)
    assert refused.status == 1
    assert f"no gateway but {old.id[:8]} serves" in refused.err
    assert "--yes does it all the same" in refused.err
    assert aws.count("StopTask") == 0

    other.steps = ["RUNNING unhealthy"] * 8 + ["RUNNING healthy"]
    agreed = infra(aws.url, "replace", old.id, "--yes")
    assert agreed.status == 0, agreed.err
    assert aws.count("StopTask") == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"deployments": [PRIMARY, {"status": "ACTIVE"}]}, "a deployment is under way"),
        ({"deployments": [{**PRIMARY, "rolloutState": "IN_PROGRESS"}]}, "a deployment is under way"),
        ({"desiredCount": 3}, "only 2 of 3 gateways are running"),
    ],
)
def test_what_speaks_against_it(
    aws: FakeAws, gateways: FakeGateways, infra: Infra, more: dict[str, object], told: str
) -> None:
    gateways.more = more
    ended = infra(aws.url, "replace", gateways.tasks[0].id)
    assert ended.status == 1
    assert told in ended.err
    assert aws.count("StopTask") == 0


def test_not_while_the_stack_is_being_changed(
    aws: FakeAws, stacks: FakeStacks, gateways: FakeGateways, infra: Infra
) -> None:
    service = stacks.found("streamhold-service")
    assert service is not None
    service.acts = [Act("UPDATE_IN_PROGRESS")]
    ended = infra(aws.url, "replace", gateways.tasks[0].id)
    assert ended.status == 1
    assert "streamhold-service is UPDATE_IN_PROGRESS" in ended.err


@pytest.mark.parametrize(
    ("wanted", "told"),
    [("ffff", "has no task ffff"), ("000", "has no task 000"), ("arn:x/cluster/ffff", "has no task ffff")],
)
def test_a_task_that_is_not_there(
    aws: FakeAws, gateways: FakeGateways, infra: Infra, wanted: str, told: str
) -> None:
    ended = infra(aws.url, "replace", wanted)
    assert ended.status == 1
    assert told in ended.err
    assert gateways.tasks[0].id in ended.err


def test_new_ones_that_stop_again_end_the_wait_with_their_reason(
    aws: FakeAws, gateways: FakeGateways, infra: Infra
) -> None:
    gateways.starts = [BREAKS] * 5
    ended = infra(aws.url, "replace", gateways.tasks[0].id)
    assert ended.status == 1
    assert "3 new gateways stopped again" in ended.err
    assert "CannotPullContainerError" in ended.err
    assert "stopped again: CannotPullContainerError" in ended.out


def test_throttling_while_it_waits_is_borne(aws: FakeAws, gateways: FakeGateways, infra: Infra) -> None:
    describe = aws.operations["DescribeServices"]
    looks = iter(range(100))

    def throttled(asked: object) -> object:
        return Failure("ThrottlingException") if 2 < next(looks) < 12 else describe(asked)  # type: ignore[arg-type]

    aws.operations["DescribeServices"] = throttled  # type: ignore[assignment]
    ended = infra(aws.url, "replace", gateways.tasks[0].id)
    assert ended.status == 0, ended.err
