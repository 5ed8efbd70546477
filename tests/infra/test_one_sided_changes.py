"""A port, a path, a timeout, a permission or a metric that is changed on one side only is found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import SettingsInvalid
from tests.infra import data_agreements, service_agreements
from tests.infra.deployed import (
    ALL_KINDS,
    CLOUDMAP,
    DATA_TEMPLATE,
    KINDS,
    SERVICE_TEMPLATE,
    TOKENS_SECRET,
    URL_SECRET,
    Gateway,
    data,
    service,
)
from tests.support.cloudformation import changed, template_at

Change = tuple[str, tuple[str | int, ...], Any]
"""Which agreement fails, where the template is changed, and to what."""

CONTAINER = ("Resources", "TaskDefinition", "Properties", "ContainerDefinitions", 0)
TARGETS = ("Resources", "TargetGroup", "Properties")
BALANCER = ("Resources", "LoadBalancer", "Properties", "LoadBalancerAttributes")
ASKS = ("Resources", "TaskRole", "Properties", "Policies", "Fn::If")
CLOUD_MAP = (*ASKS, 1, 0, "PolicyDocument", "Statement", 0)
ECS = (*ASKS, 2, "Fn::If", 1, 0, "PolicyDocument", "Statement", 0)
START = ("Resources", "ExecutionRole", "Properties", "Policies", 0, "PolicyDocument", "Statement")
READ = (*START, 3, "Fn::If", 1)
SCALING = (
    "Resources",
    "UtilisationPolicy",
    "Properties",
    "TargetTrackingScalingPolicyConfiguration",
    "CustomizedMetricSpecification",
)
TRACKING = SCALING[:-1]
SERVICE = ("Resources", "Service", "Properties")


def variable(name: str) -> tuple[str | int, ...]:
    return (*CONTAINER, "Environment", name, "Value")


def added(action: object) -> Any:
    return lambda before: [*before, action]


def without(action: str) -> Any:
    return lambda before: [one for one in before if one != action]


def said(old: str, new: str) -> Any:
    """The same with other words in it, however deep."""

    def replaced(before: Any) -> Any:
        match before:
            case str():
                return before.replace(old, new)
            case list():
                return [replaced(one) for one in before]
            case _:
                return before

    return replaced


IN_THE_TEMPLATE: list[Change] = [
    # ports
    ("ports", variable("GRANIAN_PORT"), "9000"),
    ("ports", variable("GRANIAN_HOST"), "127.0.0.1"),
    ("ports", (*CONTAINER, "PortMappings", 0, "ContainerPort"), 9000),
    ("ports", (*TARGETS, "Port"), 9000),
    ("ports", (*TARGETS, "HealthCheckPort"), "9000"),
    ("ports", (*SERVICE, "LoadBalancers", 0, "ContainerPort"), 9000),
    ("ports", (*SERVICE, "LoadBalancers", 0, "ContainerName"), "proxy"),
    ("ports", ("Resources", "GatewayIngress", "Properties", "FromPort"), 80),
    ("ports", ("Resources", "GatewayIngress", "Properties", "ToPort"), 9000),
    ("ports", ("Resources", "LoadBalancerGroup", "Properties", "SecurityGroupEgress", 0, "ToPort"), 9000),
    (
        "ports",
        (*CONTAINER, "HealthCheck", "Command"),
        said("GRANIAN_PORT", "GATEWAY_METRICS__FULL_AT_SESSIONS"),
    ),
    # paths
    ("own_readiness", (*TARGETS, "HealthCheckPath"), "/readyz"),
    ("own_readiness", (*TARGETS, "HealthCheckPath"), "/healthz"),
    ("own_readiness", (*TARGETS, "Matcher", "HttpCode"), "200-499"),
    ("liveness", (*CONTAINER, "HealthCheck", "Command"), said("/healthz", "/readyz")),
    ("liveness", (*CONTAINER, "HealthCheck", "Command"), said("127.0.0.1", "localhost")),
    ("liveness", (*CONTAINER, "HealthCheck", "Command"), said("timeout=2", "timeout=5")),
    ("liveness", (*CONTAINER, "HealthCheck", "Timeout"), 2),
    ("paths", ("Parameters", "SessionPaths", "Default"), "/v1/stream"),
    (
        "paths",
        ("Resources", "SessionRule", "Properties", "Conditions", 0, "PathPatternConfig", "Values"),
        ["/v1/stream", "/v2"],
    ),
    ("paths", variable("GATEWAY_SESSION__PATHS"), '["/video"]'),
    # timeouts
    ("silence", (*BALANCER, "idle_timeout.timeout_seconds", "Value"), "60"),
    ("silence", (*BALANCER, "idle_timeout.timeout_seconds", "Value"), "300"),
    ("silence", (*BALANCER, "idle_timeout.timeout_seconds", "Value"), "4001"),
    ("time_to_stop", (*CONTAINER, "StopTimeout"), 30),
    ("time_to_stop", (*CONTAINER, "StopTimeout"), 105),
    ("time_to_stop", (*CONTAINER, "StopTimeout"), 121),
    ("time_to_stop", variable("GATEWAY_DRAIN__TIMEOUT_SECONDS"), "110"),
    ("time_to_stop", variable("GATEWAY_DRAIN__SPREAD_SECONDS"), "30"),
    ("time_to_leave", ("Parameters", "SessionDrainSeconds", "Default"), 120),
    (
        "time_to_leave",
        (*TARGETS, "TargetGroupAttributes", "deregistration_delay.timeout_seconds", "Value"),
        "0",
    ),
    ("time_to_leave", (*TRACKING, "ScaleInCooldown"), 300),
    ("time_to_start", (*SERVICE, "HealthCheckGracePeriodSeconds"), 10),
    ("time_to_start", (*CONTAINER, "HealthCheck", "StartPeriod"), 5),
    # permissions
    ("task_role", (*CLOUD_MAP, "Action"), added("servicediscovery:ListInstances")),
    ("task_role", (*CLOUD_MAP, "Action"), without("servicediscovery:DiscoverInstancesRevision")),
    ("task_role", (*CLOUD_MAP, "Action"), ["servicediscovery:*"]),
    ("task_role", (*CLOUD_MAP, "Condition", "StringEquals", "servicediscovery:ServiceName"), "other"),
    ("task_role", (*CLOUD_MAP, "Condition"), {}),
    ("task_role", (*CLOUD_MAP, "Effect"), "Deny"),
    ("task_role", ("Resources", "TaskRole", "Properties"), lambda was: {**was, "ManagedPolicyArns": ["x"]}),
    ("task_role", variable("GATEWAY_DISCOVERY__KIND"), "static"),
    ("execution_role", (*READ, "Resource"), ["*"]),
    ("execution_role", (*READ, "Resource"), lambda before: before[1:]),
    ("execution_role", (*START, 0, "Resource"), "*"),
    ("execution_role", (*START, 0, "Action"), added("logs:CreateLogGroup")),
    ("execution_role", (*START, 2, "Action"), added("s3:GetObject")),
    ("execution_role", (*CONTAINER, "Secrets"), lambda before: before[1:]),
    # secrets
    ("secrets", (*CONTAINER, "Environment"), added({"Name": "GATEWAY_FLEET__URL", "Value": "redis://h"})),
    ("secrets", (*CONTAINER, "Secrets"), added({"Name": "GATEWAY_ADMIN__TOKEN", "ValueFrom": URL_SECRET})),
    # variables
    (
        "every_variable",
        (*CONTAINER, "Secrets"),
        added({"Name": "GATEWAY_ADMIN__TOKEN", "ValueFrom": URL_SECRET}),
    ),
    (
        "every_variable",
        (*CONTAINER, "Environment", "GATEWAY_METRICS__EMF", "Name"),
        "GATEWAY_METRICS__CLOUDWATCH",
    ),
    ("every_variable", variable("GATEWAY_METRICS__EMF"), "false"),
    ("every_variable", variable("GATEWAY_METRICS__SERVICE"), "gateway"),
    ("every_variable", variable("GATEWAY_ADMISSION__MAX_SESSIONS"), "many"),
    # metrics
    ("scaling", (*SCALING, "MetricName"), "SessionUtilization"),
    ("scaling", (*SCALING, "MetricName"), "ReplicaUtilisation"),
    ("scaling", (*SCALING, "Namespace"), "Gateway"),
    ("scaling", (*SCALING, "Unit"), "Count"),
    ("scaling", (*SCALING, "Statistic"), "Sum"),
    ("scaling", (*SCALING, "Dimensions", 0, "Name"), "ServiceName"),
    ("scaling", (*SCALING, "Dimensions", 0, "Value"), "gateway"),
    ("scaling", ("Resources", "ScalableTarget", "Properties", "ResourceId"), "service/gateway"),
    ("alarms", ("Resources", "UtilisationAlarm", "Properties", "MetricName"), "Utilisation"),
    ("alarms", ("Resources", "UtilisationAlarm", "Properties", "Period"), 10),
    (
        "alarms",
        (
            "Resources",
            "NoReplicaAlarm",
            "Properties",
            "Metrics",
            "healthy",
            "MetricStat",
            "Metric",
            "MetricName",
        ),
        "Replicas",
    ),
    ("alarms", ("Resources", "NoReplicaAlarm", "Properties", "TreatMissingData"), "notBreaching"),
    # the rest
    ("spreading", (*TARGETS, "TargetGroupAttributes", "stickiness.enabled", "Value"), "true"),
    ("capacity", variable("GATEWAY_METRICS__FULL_AT_SESSIONS"), "500"),
    ("capacity", ("Parameters", "FleetMaxSessions", "Default"), 1000),
    ("capacity", ("Parameters", "MaxCount", "Default"), 20),
    ("open_files", (*CONTAINER, "Ulimits", 0, "SoftLimit"), 1024),
    ("confinement", (*CONTAINER, "User"), "0:0"),
    ("confinement", (*CONTAINER, "ReadonlyRootFilesystem"), False),
    ("meeting", ("Parameters", "FleetNamespace", "Default"), "gateways"),
    ("meeting", variable("GATEWAY_FLEET__BACKEND"), "memory"),
    ("order", ("Resources", "Service", "DependsOn"), without("GatewayIngress")),
    ("order", ("Resources", "Service", "DependsOn"), without("SessionRule")),
    ("roll_out", (*SERVICE, "DeploymentConfiguration", "MinimumHealthyPercent"), 50),
    ("roll_out", (*SERVICE, "DeploymentConfiguration", "DeploymentCircuitBreaker", "Rollback"), False),
]

IN_THE_CODE: list[tuple[str, Mapping[str, Any]]] = [
    ("ports", {"port": 9000}),
    ("own_readiness", {"own_path": "/ready?own=1"}),
    ("own_readiness", {"own_path": "/readyz?self=1"}),
    ("liveness", {"live_path": "/livez"}),
    ("paths", {"session_paths": ("/v1/stream",)}),
    ("silence", {"environment": {"GATEWAY_SESSION__IDLE_TIMEOUT_SECONDS": "900"}}),
    ("time_to_stop", {"environment": {"GATEWAY_DRAIN__TIMEOUT_SECONDS": "120"}}),
    ("time_to_stop", {"farewell_seconds": 30.0}),
    ("time_to_leave", {"environment": {"GATEWAY_SESSION__IDLE_TIMEOUT_SECONDS": "301"}}),
    ("time_to_start", {"environment": {"GATEWAY_DISCOVERY__TIMEOUT_SECONDS": "30"}}),
    ("time_to_start", {"environment": {"GATEWAY_ROUTER__HEALTH_CHECK__TIMEOUT_SECONDS": "60"}}),
    (
        "task_role",
        {"actions": {"cloudmap": ("servicediscovery:DiscoverInstances", "servicediscovery:GetInstance")}},
    ),
    ("task_role", {"actions": {"cloudmap": ("servicediscovery:DiscoverInstances",)}}),
    ("task_role", {"actions": {}}),
    ("secrets", {"secrets": (("fleet", "url"), ("metrics", "service"))}),
    ("secrets", {"secrets": (("fleet", "url"),)}),
    ("scaling", {"utilisation": "Utilisation"}),
    ("scaling", {"dimension": "Deployment"}),
    ("scaling", {"environment": {"GATEWAY_METRICS__NAMESPACE": "Other"}}),
    ("scaling", {"environment": {"GATEWAY_METRICS__SERVICE": "other"}}),
    ("alarms", {"healthy": "Healthy"}),
    ("alarms", {"sleeping": "Sleeping"}),
    ("alarms", {"environment": {"GATEWAY_METRICS__INTERVAL_SECONDS": "300"}}),
    ("every_variable", {"environment": {"GATEWAY_DISCOVERY__REGION": "us-east-1"}}),
    ("meeting", {"fleet_namespace": "gateways"}),
    ("meeting", {"environment": {"GATEWAY_FLEET__CLUSTER": "true"}}),
    ("capacity", {"environment": {"GATEWAY_ADMISSION__MAX_SESSIONS": "1000"}}),
    ("open_files", {"environment": {"GATEWAY_ADMISSION__MAX_SESSIONS": "40000"}}),
]

USER = ("Resources", "User", "Properties")
GROUP = ("Resources", "ReplicationGroup", "Properties")
IN_THE_DATA_TEMPLATE: list[Change] = [
    (
        "url",
        ("Resources", "UrlSecret", "Properties", "SecretString", "Fn::Sub", 0),
        said("rediss:", "redis:"),
    ),
    ("url", ("Resources", "UrlSecret", "Properties", "SecretString", "Fn::Sub", 0), said(":6379", ":6380")),
    ("url", (*GROUP, "Port"), 6380),
    ("url", (*USER, "UserName"), "fleet"),
    ("url", ("Resources", "Password", "Properties", "GenerateSecretString", "ExcludePunctuation"), False),
    ("rights", (*USER, "AccessString"), said("+zadd", "+zpopmin")),
    ("rights", (*USER, "AccessString"), said("-@all", "+@all")),
    ("rights", (*USER, "AccessString"), said("~{fleet:*", "~*")),
    ("rights", (*USER, "AccessString"), said("~{fleet:*", "~{replicas:*")),
    ("encryption", (*GROUP, "TransitEncryptionEnabled"), False),
    ("encryption", (*GROUP, "TransitEncryptionMode"), "preferred"),
    ("encryption", (*GROUP, "AtRestEncryptionEnabled"), False),
    (
        "staying",
        ("Resources", "ParameterGroup", "Properties", "Properties", "maxmemory-policy"),
        "allkeys-lru",
    ),
    ("staying", ("Resources", "ParameterGroup", "Properties", "CacheParameterGroupFamily"), "valkey7"),
    ("staying", (*GROUP, "Engine"), "redis"),
    ("staying", (*GROUP, "MultiAZEnabled"), False),
    ("staying", ("Parameters", "NodeCount", "Default"), 1),
    (
        "closed",
        ("Resources", "ReplicaIngress"),
        lambda was: {k: v for k, v in was.items() if k != "Condition"},
    ),
    ("handed_over", ("Outputs", "RedisUrlSecretArn", "Value"), {"Ref": "Password"}),
]


def _id(change: Any) -> str | None:
    return ".".join(str(step) for step in change) if isinstance(change, tuple) else None


@pytest.mark.parametrize(("name", "path", "value"), IN_THE_TEMPLATE, ids=_id)
def test_the_service_template_alone(name: str, path: tuple[str | int, ...], value: Any) -> None:
    stack = service(changed(template_at(SERVICE_TEMPLATE), path, value), **ALL_KINDS)
    with pytest.raises((AssertionError, SettingsInvalid)):
        getattr(service_agreements, name)(stack, Gateway())


@pytest.mark.parametrize("change", [added("ecs:DescribeServices"), without("ecs:ListTasks"), ["ecs:*"]])
def test_the_permissions_for_ecs_alone(change: Any) -> None:
    stack = service(changed(template_at(SERVICE_TEMPLATE), (*ECS, "Action"), change), **KINDS["ecs"])
    with pytest.raises(AssertionError):
        service_agreements.task_role(stack, Gateway())


@pytest.mark.parametrize(("name", "code"), IN_THE_CODE)
def test_the_code_alone(name: str, code: Mapping[str, Any]) -> None:
    changed_code = replace(Gateway(), **code)
    with pytest.raises(AssertionError):
        getattr(service_agreements, name)(service(**ALL_KINDS), changed_code)


@pytest.mark.parametrize(("name", "path", "value"), IN_THE_DATA_TEMPLATE, ids=_id)
def test_the_data_template_alone(name: str, path: tuple[str | int, ...], value: Any) -> None:
    stack = data(changed(template_at(DATA_TEMPLATE), path, value))
    with pytest.raises(AssertionError):
        getattr(data_agreements, name)(stack, Gateway())


def test_the_commands_in_the_code_alone() -> None:
    with pytest.raises(AssertionError):
        data_agreements.rights(data(), replace(Gateway(), commands=("EVAL",)))


def test_the_port_of_valkey_in_the_service_template_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ingress = ("Resources", "RedisIngress", "Properties", "ToPort")
    other = service(changed(template_at(SERVICE_TEMPLATE), ingress, 6380), **ALL_KINDS)
    monkeypatch.setattr(data_agreements, "service", lambda **_given: other)
    with pytest.raises(AssertionError):
        data_agreements.url(data(), Gateway())


def test_every_agreement_is_shown_to_fail() -> None:
    shown = {name for name, *_ in IN_THE_TEMPLATE} | {name for name, _ in IN_THE_CODE}
    assert shown == {one.__name__ for one in service_agreements.AGREEMENTS}
    assert {name for name, *_ in IN_THE_DATA_TEMPLATE} == {one.__name__ for one in data_agreements.AGREEMENTS}


def test_what_is_not_changed_passes() -> None:
    for agreement in service_agreements.AGREEMENTS:
        agreement(service(**ALL_KINDS), Gateway())
    assert {URL_SECRET, TOKENS_SECRET} <= set(ALL_KINDS.values())
    assert CLOUDMAP.items() <= ALL_KINDS.items()
