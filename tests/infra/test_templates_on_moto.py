"""The two templates as stacks, made, changed and deleted over HTTP in moto: the data layer first, whose
outputs the service stack takes. moto leaves out much of each resource, which test_templates.py looks at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from gateway.settings import Settings
from gateway.settings.meeting import DiscoverySettings, FleetSettings
from tests.infra.deployed import DATA_TEMPLATE, SERVICE_TEMPLATE, container
from tests.support.cloudformation import PSEUDO, Stack, template_at
from tests.support.fake_aws import with_credentials
from tests.support.moto_server import moto_server

REGION, STACK = PSEUDO["AWS::Region"], PSEUDO["AWS::StackName"]


@dataclass
class Account:
    """An account with a VPC, as AWS has it for a newcomer."""

    url: str

    def __post_init__(self) -> None:
        ec2 = self.client("ec2")
        subnets = ec2.describe_subnets()["Subnets"][:2]
        self.place = {
            "VpcId": subnets[0]["VpcId"],
            "SubnetIds": ",".join(subnet["SubnetId"] for subnet in subnets),
        }

    def client(self, name: str) -> Any:
        return boto3.client(name, region_name=REGION, endpoint_url=self.url)  # type: ignore[call-overload]

    def make(self, name: str, template: str, parameters: Mapping[str, str], *, update: bool = False) -> None:
        formation = self.client("cloudformation")
        (formation.update_stack if update else formation.create_stack)(
            StackName=name,
            TemplateBody=template,
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM"],
        )

    def status(self, name: str) -> str:
        summaries = self.client("cloudformation").list_stacks()["StackSummaries"]
        return str(next(one["StackStatus"] for one in summaries if one["StackName"] == name))

    def outputs(self, name: str) -> dict[str, str]:
        (stack,) = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def gateways(self, outputs: Mapping[str, str]) -> dict[str, Any]:
        (found,) = self.client("ecs").describe_services(
            cluster=outputs["ClusterName"], services=[outputs["ServiceName"]]
        )["services"]
        return dict(found)

    def container(self, task_definition: str) -> dict[str, Any]:
        answer = self.client("ecs").describe_task_definition(taskDefinition=task_definition)
        (found,) = answer["taskDefinition"]["containerDefinitions"]
        return dict(found)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    with_credentials(monkeypatch)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with moto_server() as url:
        yield Account(url)


def test_both_stacks_are_made_changed_and_deleted(account: Account) -> None:
    data, service = DATA_TEMPLATE.read_text(), SERVICE_TEMPLATE.read_text()
    account.make("data", data, account.place)
    layer = account.outputs("data")
    secret = account.client("secretsmanager").get_secret_value(SecretId=layer["RedisUrlSecretArn"])
    url = secret["SecretString"]
    assert url.startswith("rediss://streamhold:")
    assert url.endswith(f"@{layer['Endpoint']}/0")
    Settings(fleet=FleetSettings(backend="redis", url=url), discovery=DiscoverySettings(kind="fleet"))
    (group,) = account.client("elasticache").describe_replication_groups()["ReplicationGroups"]
    assert (group["TransitEncryptionEnabled"], group["MultiAZ"]) == (True, "enabled")

    certificate = account.client("acm").request_certificate(DomainName="stream.example.com")["CertificateArn"]
    given = {
        **account.place,
        "LoadBalancerSubnetIds": account.place["SubnetIds"],
        "ImageUri": "streamhold:1",
        "CloudMapNamespace": "streaming",
        "CloudMapService": "replicas",
        "SessionPaths": "/v1/stream,/ws",
        "DesiredCount": "2",
        "CertificateArn": certificate,
        "RedisUrlSecretArn": layer["RedisUrlSecretArn"],
        "RedisSecurityGroupId": layer["RedisSecurityGroupId"],
    }
    account.make(STACK, service, given)
    made = account.outputs(STACK)
    assert account.status(STACK) == "CREATE_COMPLETE"
    assert account.gateways(made)["desiredCount"] == 2
    (targets,) = account.client("elbv2").describe_target_groups(TargetGroupArns=[made["TargetGroupArn"]])[
        "TargetGroups"
    ]
    assert (targets["Port"], targets["HealthCheckPath"]) == (8000, "/readyz?own=1")
    began = account.container(made["TaskDefinitionArn"])
    assert began["image"] == "streamhold:1"
    assert {"name": "GATEWAY_FLEET__URL", "valueFrom": layer["RedisUrlSecretArn"]} in began["secrets"]
    # moto reads the template by itself: what it comes to is what these tests take it for.
    read = container(Stack(template_at(SERVICE_TEMPLATE), given))["Environment"]
    assert {one["name"]: one["value"] for one in began["environment"] if one} == {
        one["Name"]: one["Value"] for one in read
    }
    assert let_in(account, layer["RedisSecurityGroupId"]) == {made["GatewaySecurityGroupId"]}

    account.make(STACK, service, {**given, "DesiredCount": "3", "ImageUri": "streamhold:2"}, update=True)
    assert account.status(STACK) == "UPDATE_COMPLETE"
    assert account.gateways(made)["desiredCount"] == 3

    formation = account.client("cloudformation")
    formation.delete_stack(StackName=STACK)
    formation.delete_stack(StackName="data")
    assert {account.status(STACK), account.status("data")} == {"DELETE_COMPLETE"}
    assert account.client("elbv2").describe_load_balancers()["LoadBalancers"] == []
    assert account.client("logs").describe_log_groups()["logGroups"] == []
    assert account.client("secretsmanager").list_secrets()["SecretList"] == []
    (group,) = account.client("elasticache").describe_replication_groups()["ReplicationGroups"]
    assert group["Status"] == "deleting", "which moto shows once"


def let_in(account: Account, group: str) -> set[str]:
    """The security groups whose members may connect to Valkey's port."""
    (found,) = account.client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]
    return {
        pair["GroupId"]
        for permission in found["IpPermissions"]
        if permission["FromPort"] == permission["ToPort"] == 6379
        for pair in permission["UserIdGroupPairs"]
    }


@pytest.mark.parametrize(
    ("kind", "policies"),
    [
        ({"DiscoveryKind": "ecs", "ReplicaService": "replicas"}, ["find-replicas-in-ecs"]),
        ({"DiscoveryKind": "static", "ReplicasJson": '[{"url": "http://10.0.0.1:8000"}]'}, []),
    ],
    ids=["ecs", "static"],
)
def test_without_a_data_layer_or_a_certificate(
    account: Account, kind: dict[str, str], policies: list[str]
) -> None:
    given = {**account.place, "LoadBalancerSubnetIds": account.place["SubnetIds"], "ImageUri": "streamhold:1"}
    account.make(STACK, SERVICE_TEMPLATE.read_text(), {**given, **kind})
    assert "LoadBalancerDnsName" in account.outputs(STACK)
    iam = account.client("iam")
    (role,) = (one["RoleName"] for one in iam.list_roles()["Roles"] if "TaskRole" in one["RoleName"])
    assert iam.list_role_policies(RoleName=role)["PolicyNames"] == policies
    (balancer,) = account.client("elbv2").describe_load_balancers()["LoadBalancers"]
    listeners = account.client("elbv2").describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])
    assert [one["Port"] for one in listeners["Listeners"]] == [80]
