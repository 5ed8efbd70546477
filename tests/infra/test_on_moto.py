"""All commands against moto over real HTTP. moto does everything at once and tells nothing of
single resources: what takes time or goes wrong is in test_deploy.py, test_plan.py and test_destroy.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.moto_api import state_manager

from tests.infra.conftest import GIVEN, REGION, Infra, QuickClock
from tests.support.processes import ROOT


def cloudformation(url: str) -> Any:
    return boto3.client("cloudformation", region_name=REGION, endpoint_url=url)


def stacks(url: str) -> dict[str, str]:
    """The state of every stack that is there."""
    found = cloudformation(url).describe_stacks()["Stacks"]
    return {one["StackName"]: one["StackStatus"] for one in found}


def value_of(url: str, stack: str, parameter: str) -> str:
    (one,) = cloudformation(url).describe_stacks(StackName=stack)["Stacks"]
    return str({p["ParameterKey"]: p["ParameterValue"] for p in one["Parameters"]}[parameter])


def test_a_plan_tells_what_would_be_created_and_leaves_nothing_behind(moto: str, infra: Infra) -> None:
    ended = infra(moto, "plan", *GIVEN)
    assert ended.status == 0, ended.err
    assert "streamhold-data: would be created: 1 to create" in ended.out
    assert "+ create       UrlSecret  AWS::Logs::LogGroup" in ended.out
    # The service takes what the data stack puts out, which is not there yet.
    assert "streamhold-service: would be created: 3 to create, by the template. AWS itself" in ended.out
    assert "before streamhold-data is there, which puts out its RedisUrlSecretArn" in ended.out
    assert "+ create       TaskRole  AWS::IAM::Role" in ended.out
    assert stacks(moto) == {}


def test_a_deployment_creates_both_stacks_and_feeds_one_from_the_other(moto: str, infra: Infra) -> None:
    ended = infra(moto, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    assert stacks(moto) == {"streamhold-data": "CREATE_COMPLETE", "streamhold-service": "CREATE_COMPLETE"}
    assert value_of(moto, "streamhold-service", "RedisUrlSecretArn") == "secret-small"
    assert "streamhold-data: created" in ended.out
    assert "  ClusterName: streamhold-service" in ended.out


def test_a_deployment_again_changes_nothing_and_a_plan_says_so(moto: str, infra: Infra) -> None:
    assert infra(moto, "deploy", *GIVEN).status == 0
    again = infra(moto, "deploy")
    assert again.status == 0, again.err
    assert "streamhold-data: nothing to change" in again.out
    assert "streamhold-service: nothing to change" in again.out
    assert stacks(moto) == {"streamhold-data": "CREATE_COMPLETE", "streamhold-service": "CREATE_COMPLETE"}
    plan = infra(moto, "plan")
    assert plan.out.count("nothing to change") == 2


def test_an_update_keeps_what_is_not_given(moto: str, infra: Infra) -> None:
    given = (*GIVEN, "--parameter", "MinCount=3", "--parameter", "DesiredCount=4")
    assert infra(moto, "deploy", *given).status == 0
    plan = infra(moto, "plan", "--parameter", "ImageUri=gateway:2")
    assert "streamhold-service: would be updated" in plan.out
    assert "ImageUri: gateway:1 -> gateway:2" in plan.out
    # How many there are to be at once is the autoscaling's business from then on.
    assert "DesiredCount: 4 -> (empty)" in plan.out
    assert value_of(moto, "streamhold-service", "ImageUri") == "gateway:1"

    ended = infra(moto, "deploy", "--parameter", "ImageUri=gateway:2")
    assert ended.status == 0, ended.err
    assert "streamhold-service: updated" in ended.out
    assert value_of(moto, "streamhold-service", "ImageUri") == "gateway:2"
    assert value_of(moto, "streamhold-service", "MinCount") == "3"
    assert value_of(moto, "streamhold-service", "DesiredCount") == ""


def test_what_the_data_stack_newly_puts_out_reaches_the_service(moto: str, infra: Infra) -> None:
    assert infra(moto, "deploy", *GIVEN).status == 0
    assert infra(moto, "deploy", "--parameter", "NodeType=large").status == 0
    assert value_of(moto, "streamhold-service", "RedisUrlSecretArn") == "secret-large"


def test_a_plan_of_an_update_names_the_resources(moto: str, infra: Infra, templates: Path) -> None:
    assert infra(moto, "deploy", *GIVEN).status == 0
    service = (templates / "service.yaml").read_text()
    more = '  More: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: "/more"}}\nOutputs:'
    (templates / "service.yaml").write_text(service.replace("Outputs:", more))
    plan = infra(moto, "plan")
    assert plan.status == 0, plan.err
    assert "+ create       More" in plan.out
    assert cloudformation(moto).list_change_sets(StackName="streamhold-service")["Summaries"] == []


def test_an_interrupted_plan_is_cleared_away_by_the_next(moto: str, infra: Infra) -> None:
    client = cloudformation(moto)
    client.create_change_set(
        StackName="streamhold-data",
        ChangeSetName="streamhold-plan-0",
        ChangeSetType="CREATE",
        TemplateBody="Resources: {A: {Type: AWS::Logs::LogGroup}}",
    )
    assert stacks(moto) == {"streamhold-data": "REVIEW_IN_PROGRESS"}
    ended = infra(moto, "deploy", *GIVEN)
    assert ended.status == 0, ended.err
    assert "removing what an interrupted plan left" in ended.out
    assert stacks(moto)["streamhold-data"] == "CREATE_COMPLETE"


def test_somebody_elses_change_set_is_not_removed_unasked(moto: str, infra: Infra) -> None:
    cloudformation(moto).create_change_set(
        StackName="streamhold-data",
        ChangeSetName="by-hand",
        ChangeSetType="CREATE",
        TemplateBody="Resources: {A: {Type: AWS::Logs::LogGroup}}",
    )
    ended = infra(moto, "deploy", *GIVEN)
    assert ended.status == 1
    assert "not ours (by-hand)" in ended.err
    assert "add --yes" in ended.err
    assert stacks(moto) == {"streamhold-data": "REVIEW_IN_PROGRESS"}


def test_destroy_removes_the_service_first_and_names_what_stays(moto: str, infra: Infra) -> None:
    assert infra(moto, "deploy", *GIVEN).status == 0
    refused = infra(moto, "destroy")
    assert refused.status == 1
    assert "add --yes" in refused.err
    assert len(stacks(moto)) == 2

    ended = infra(moto, "destroy", "--yes")
    assert ended.status == 0, ended.err
    assert ended.out.index("streamhold-service: deleted") < ended.out.index("streamhold-data: deleting")
    assert "UrlSecret (AWS::Logs::LogGroup) stays" in ended.out
    assert stacks(moto) == {}


def test_destroy_again_is_success(moto: str, infra: Infra) -> None:
    ended = infra(moto, "destroy")
    assert ended.status == 0, ended.err
    assert "streamhold-service: not there" in ended.out


@pytest.mark.parametrize("part", ["data", "service"])
def test_one_stack_alone(moto: str, infra: Infra, part: str) -> None:
    given = GIVEN if part == "service" else GIVEN[:2]
    assert infra(moto, "deploy", *given, "--only", part).status == 0
    assert list(stacks(moto)) == [f"streamhold-{part}"]
    assert infra(moto, "destroy", "--only", part, "--yes").status == 0
    assert stacks(moto) == {}


def test_names_keep_fleets_apart(moto: str, infra: Infra) -> None:
    assert infra(moto, "deploy", *GIVEN, "--name", "blue").status == 0
    assert infra(moto, "deploy", *GIVEN, "--name", "green").status == 0
    assert infra(moto, "destroy", "--name", "blue", "--yes").status == 0
    assert sorted(stacks(moto)) == ["green-data", "green-service"]


class ServiceInMoto:
    """What ECS does of itself and moto does not: it runs the service's tasks, and registers them."""

    def __init__(self, url: str, subnet: str) -> None:
        self._ecs: Any = boto3.client("ecs", region_name=REGION, endpoint_url=url)
        self._balancer: Any = boto3.client("elbv2", region_name=REGION, endpoint_url=url)
        (stack,) = cloudformation(url).describe_stacks(StackName="streamhold-service")["Stacks"]
        self._outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
        self._subnet = subnet
        # Of the template's own moto runs no task: memory is the task's there, and moto wants the container's.
        self._ecs.register_task_definition(
            family="for-moto",
            networkMode="awsvpc",
            containerDefinitions=[{"name": "gateway", "image": "gateway:1", "memory": 512}],
        )

    def wants(self, count: int) -> None:
        """The desired count; that many count as running, whatever tasks there are."""
        self._ecs.update_service(cluster=self._cluster, service="gateway", desiredCount=count)

    def starts_one(self) -> str:
        """A task that serves: its id."""
        group = self._outputs["GatewaySecurityGroupId"]
        network = {"awsvpcConfiguration": {"subnets": [self._subnet], "securityGroups": [group]}}
        (task,) = self._ecs.run_task(
            cluster=self._cluster,
            taskDefinition="for-moto",
            launchType="FARGATE",
            group="service:gateway",
            networkConfiguration=network,
        )["tasks"]
        details = {one["name"]: one["value"] for one in task["attachments"][0]["details"]}
        self._balancer.register_targets(
            TargetGroupArn=self._outputs["TargetGroupArn"],
            Targets=[{"Id": details["privateIPv4Address"], "Port": 8000}],
        )
        return str(task["taskArn"].rpartition("/")[2])

    def stopped(self) -> list[str]:
        """The tasks that somebody has stopped."""
        asked = {"cluster": self._cluster, "serviceName": "gateway", "desiredStatus": "STOPPED"}
        return [str(arn.rpartition("/")[2]) for arn in self._ecs.list_tasks(**asked)["taskArns"]]

    @property
    def _cluster(self) -> str:
        return str(self._outputs["ClusterName"])


@pytest.fixture
def slow_states() -> Iterator[None]:
    """A task in moto is what it was last said to be, instead of another thing at each look."""
    state_manager.set_transition("ecs::task", {"progression": "manual", "times": 1000})
    yield
    state_manager.unset_transition("ecs::task")


@pytest.mark.usefixtures("slow_states")
def test_the_stacks_that_come_along_from_their_plan_to_their_end(
    moto: str, infra: Infra, templates: Path, clock: QuickClock
) -> None:
    for name in ("data.yaml", "service.yaml"):
        shutil.copy(ROOT / "infra" / name, templates)
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=moto)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})  # moto runs no task without
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"{REGION}{zone}")
        for n, zone in enumerate("ab")
    ]
    subnets = [one["Subnet"]["SubnetId"] for one in made]
    given = {
        "VpcId": vpc,
        "SubnetIds": subnets,
        "LoadBalancerSubnetIds": subnets,
        "ImageUri": "gateway:1",
        "CloudMapNamespace": "video",
        "CloudMapService": "streamers",
    }
    (templates / "given.yaml").write_text(json.dumps(given))
    file = ("--parameters", str(templates / "given.yaml"))
    planned = infra(moto, "plan", *file)
    assert planned.status == 0, planned.err
    assert "+ create       ReplicationGroup  AWS::ElastiCache::ReplicationGroup" in planned.out
    # What the template's conditions say of these parameters.
    assert "+ create       RedisIngress" in planned.out
    assert "HttpsListener" not in planned.out
    assert stacks(moto) == {}

    ended = infra(moto, "deploy", *file)
    assert ended.status == 0, ended.err
    assert "  ServiceName: gateway" in ended.out
    assert value_of(moto, "streamhold-service", "RedisUrlSecretArn").startswith("arn:aws:secretsmanager:")

    # moto takes the desired count that is not given for none.
    empty = infra(moto, "status")
    assert empty.status == 1
    assert empty.err == "infra: no gateway is wanted: the desired count is 0\n"

    service = ServiceInMoto(moto, subnets[0])
    service.wants(2)
    old, other = service.starts_one(), service.starts_one()
    shown = infra(moto, "status")
    assert shown.status == 0, shown.err
    assert "service gateway: 2 desired, 2 running, 0 pending" in shown.out
    assert f"  {old}  RUNNING  healthy" in shown.out

    started: list[str] = []

    def as_ecs_does() -> None:
        if service.stopped() and not started:
            started.append(service.starts_one())

    clock.meanwhile = as_ecs_does
    replaced = infra(moto, "replace", old)
    assert replaced.status == 0, replaced.err
    assert service.stopped() == [old]
    assert f"new {started[0][:8]}: serves" in replaced.out
    assert f"{old} is replaced: 2 of 2 serve" in replaced.out
    assert other in infra(moto, "status").out

    assert infra(moto, "destroy", "--yes").status == 0
    assert stacks(moto) == {}


def test_everything_that_must_be_given_is_told_at_once(moto: str, infra: Infra) -> None:
    ended = infra(moto, "deploy")
    assert ended.status == 2
    assert ended.err.splitlines() == [
        "infra: VpcId has to be given, for streamhold-data and streamhold-service: --parameter VpcId=VALUE",
        "infra: SubnetIds has to be given, for streamhold-service: --parameter SubnetIds=VALUE",
        "infra: ImageUri has to be given, for streamhold-service: --parameter ImageUri=VALUE",
    ]
    assert stacks(moto) == {}
