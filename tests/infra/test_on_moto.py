"""plan, deploy and destroy against moto over real HTTP. moto does everything at once and tells nothing of
single resources: what takes time or goes wrong is in test_on_a_fake.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.infra.conftest import GIVEN, REGION, Infra
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


@pytest.mark.filterwarnings("ignore:Tried to parse AWS:UserWarning")
def test_the_service_that_comes_along(moto: str, infra: Infra, templates: Path) -> None:
    """Its data stack moto cannot make: ElastiCache is not among what its CloudFormation knows."""
    for name in ("data.yaml", "service.yaml"):
        shutil.copy(ROOT / "infra" / name, templates)
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=moto)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"{REGION}{zone}")
        for n, zone in enumerate("ab")
    ]
    subnets = ",".join(one["Subnet"]["SubnetId"] for one in made)
    given = {
        "VpcId": vpc,
        "SubnetIds": subnets,
        "LoadBalancerSubnetIds": subnets,
        "ImageUri": "gateway:1",
        "CloudMapNamespace": "video",
        "CloudMapService": "streamers",
        "RedisUrlSecretArn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:url",
    }
    (templates / "given.yaml").write_text(json.dumps(given))
    ended = infra(moto, "deploy", "--parameters", str(templates / "given.yaml"), "--only", "service")
    assert ended.status == 0, ended.err
    assert "  ServiceName: gateway" in ended.out

    # moto starts no task of a service, and takes the desired count that is not given for none.
    shown = infra(moto, "status")
    assert shown.status == 1
    assert "service gateway: 0 desired, 0 running, 0 pending" in shown.out
    assert shown.err == "infra: no gateway is wanted: the desired count is 0\n"

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
