"""What the service template and the gateway's code have to agree in: a function for each, which fails while
they do not. test_templates.py calls them on what there is; test_one_sided_changes.py shows that each fails
when only one of the two is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.settings.loading import FILE_NAME
from gateway.wiring import Gateway as Wired
from tests.infra.deployed import Gateway, container, emitted, environment, settings
from tests.support.cloudformation import Stack, at

FARGATE_STOP_SECONDS = 120
"""A task on Fargate gets no longer than that after SIGTERM."""
LONGEST_IDLE_SECONDS = 4000
"""The load balancer keeps a silent connection no longer."""
ASKS = re.compile(
    r"HTTPConnection\('(?P<host>[^']+)', int\(os\.environ\['(?P<port>\w+)'\]\), timeout=(?P<seconds>\d+)\)"
    r".*request\('GET', '(?P<path>[^']+)'\)"
)
"""The container's health check, the variable of its port included."""

Agreement = Callable[[Stack, Gateway], None]


def ports(stack: Stack, gateway: Gateway) -> None:
    """Everything that leads to the gateway leads to where it listens."""
    about = container(stack)
    load_balancer, into = stack.properties("LoadBalancerGroup"), stack.properties("GatewayIngress")
    (out,) = load_balancer["SecurityGroupEgress"]
    (target,) = stack.properties("Service")["LoadBalancers"]
    (mapping,) = about["PortMappings"]
    found = {
        "environment": int(environment(stack)["GRANIAN_PORT"]),
        "container": mapping["ContainerPort"],
        "target group": stack.properties("TargetGroup")["Port"],
        "service": target["ContainerPort"],
        "into the gateways": (into["FromPort"], into["ToPort"]),
        "out of the load balancer": (out["FromPort"], out["ToPort"]),
        "container's health check": _asked_for_life(stack).port,
    }
    port = gateway.port
    assert found == {name: (port, port) if isinstance(at, tuple) else port for name, at in found.items()}
    assert stack.properties("TargetGroup")["HealthCheckPort"] == "traffic-port"
    assert environment(stack)["GRANIAN_HOST"] == "0.0.0.0"
    assert target["ContainerName"] == about["Name"]


def own_readiness(stack: Stack, gateway: Gateway) -> None:
    """A gateway is replaced for its own faults only."""
    group = stack.properties("TargetGroup")
    assert group["HealthCheckPath"] == gateway.own_path
    assert (group["HealthCheckProtocol"], group["Matcher"]) == ("HTTP", {"HttpCode": "200"})


def liveness(stack: Stack, gateway: Gateway) -> None:
    """The container is asked only whether it lives."""
    asked = _asked_for_life(stack)
    assert asked.path == gateway.live_path
    assert asked.host == "127.0.0.1"
    assert asked.seconds < container(stack)["HealthCheck"]["Timeout"], "it says itself that it gave up"


def time_to_start(stack: Stack, gateway: Gateway) -> None:
    """Nobody gives a gateway up that still asks for its replicas, and probes them for the first time."""
    used = settings(stack, gateway)
    watch = Wired(used).watch
    first_list = watch._source.pace.deadline_seconds if watch is not None else 0.0
    # In a fleet it also has to be known there as serving: it is, or has failed, within a ttl.
    joining = used.fleet.ttl_seconds if used.joins_fleet else 0.0
    seconds = first_list + used.router.health_check.timeout_seconds + joining
    assert stack.properties("Service")["HealthCheckGracePeriodSeconds"] >= seconds
    assert container(stack)["HealthCheck"]["StartPeriod"] >= seconds


def silence(stack: Stack, gateway: Gateway) -> None:
    """It is the gateway that ends a silent session, not the load balancer."""
    attributes = stack.properties("LoadBalancer")["LoadBalancerAttributes"]
    idle = int(at(attributes, "idle_timeout.timeout_seconds")["Value"])
    session = settings(stack, gateway).session
    assert session.ping_interval_seconds < session.idle_timeout_seconds < idle <= LONGEST_IDLE_SECONDS


def time_to_stop(stack: Stack, gateway: Gateway) -> None:
    """SIGKILL comes only when the drain is over, closes and all."""
    drain = settings(stack, gateway).drain
    needed = drain.timeout_seconds + drain.spread_seconds + gateway.farewell_seconds
    assert needed < container(stack)["StopTimeout"] <= FARGATE_STOP_SECONDS


def time_to_leave(stack: Stack, gateway: Gateway) -> None:
    """Between deregistration and SIGTERM there is time for a session that nobody uses any more to end."""
    delay = _target_attribute(stack, "deregistration_delay.timeout_seconds")
    assert settings(stack, gateway).session.idle_timeout_seconds <= int(delay)
    # Nor does the autoscaling take the next gateway away while one is still draining.
    policy = stack.properties("UtilisationPolicy")["TargetTrackingScalingPolicyConfiguration"]
    assert int(policy["ScaleInCooldown"]) >= int(delay) + container(stack)["StopTimeout"]


def spreading(stack: Stack, gateway: Gateway) -> None:
    """The load balancer spreads sessions; which replica they get is the gateways' business."""
    assert _target_attribute(stack, "stickiness.enabled") == "false"
    assert _target_attribute(stack, "load_balancing.algorithm.type") == "least_outstanding_requests"


def paths(stack: Stack, gateway: Gateway) -> None:
    """What the load balancer passes on is what the gateway takes, and by default what it takes by default."""
    rule = stack.properties("SessionRule")
    (condition,) = rule["Conditions"]
    passed_on = tuple(condition["PathPatternConfig"]["Values"])
    assert passed_on == settings(stack, gateway).session.paths == gateway.session_paths
    assert len(passed_on) <= 5, "a rule has at most five values"


def task_role(stack: Stack, gateway: Gateway) -> None:
    """The gateway may make the calls that it makes, on what it is set to look at, and no other."""
    discovery = settings(stack, gateway).discovery
    role = stack.properties("TaskRole")
    statements = [one for policy in role.get("Policies", []) for one in policy["PolicyDocument"]["Statement"]]
    wanted = gateway.actions.get(discovery.kind)
    assert "ManagedPolicyArns" not in role
    # Inline, so that no task starts before it has them.
    assert not {*stack.of_type("AWS::IAM::Policy"), *stack.of_type("AWS::IAM::ManagedPolicy")}
    if wanted is None:
        assert statements == []
        return
    (statement,) = statements
    assert statement["Effect"] == "Allow"
    assert sorted(statement["Action"]) == sorted(wanted)
    if discovery.kind == "cloudmap":
        named = {
            "servicediscovery:NamespaceName": discovery.namespace,
            "servicediscovery:ServiceName": discovery.service,
        }
        assert statement["Condition"] == {"StringEquals": named}
    else:
        arn = f"arn:aws:ecs:eu-central-1:123456789012:cluster/{discovery.cluster}"
        assert statement["Condition"] == {"ArnEquals": {"ecs:cluster": arn}}


def execution_role(stack: Stack, gateway: Gateway) -> None:
    """ECS may write this log, pull an image, and read the very secrets that the container is given."""
    role = stack.properties("ExecutionRole")
    assert "ManagedPolicyArns" not in role
    (own,) = role["Policies"]
    logs, login, pull, *more = own["PolicyDocument"]["Statement"]
    assert logs["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert logs["Resource"] == {"Fn::GetAtt": ["LogGroup", "Arn"]}
    assert (login["Action"], login["Resource"]) == ("ecr:GetAuthorizationToken", "*")
    assert all(action.startswith("ecr:") for action in pull["Action"])
    assert pull["Resource"].startswith("arn:aws:ecr:eu-central-1:123456789012:repository/")
    key = stack.parameters["SecretsKeyArn"]
    assert {one["Action"] for one in more} <= {"secretsmanager:GetSecretValue", "kms:Decrypt"}
    assert [one["Resource"] for one in more if one["Action"] == "kms:Decrypt"] == ([key] if key else [])
    read = [arn for one in more if one["Action"] != "kms:Decrypt" for arn in one["Resource"]]
    assert sorted(read) == sorted(one["ValueFrom"] for one in container(stack)["Secrets"])
    log = container(stack)["LogConfiguration"]
    assert (log["LogDriver"], log["Options"]["awslogs-group"]) == ("awslogs", {"Ref": "LogGroup"})


def secrets(stack: Stack, gateway: Gateway) -> None:
    """What is secret comes by reference, and only that."""
    secret = {f"GATEWAY_{'__'.join(map(str, path)).upper()}" for path in gateway.secrets}
    assert secret >= {one["Name"] for one in container(stack)["Secrets"]}
    assert not secret & {one["Name"] for one in container(stack)["Environment"]}


def every_variable(stack: Stack, gateway: Gateway) -> None:
    """The gateway starts with what it is given: each variable is a setting, with a value that it takes."""
    used = settings(stack, gateway)
    assert used.metrics.emf
    assert used.metrics.service == stack.value({"Ref": "AWS::StackName"})
    assert used.drain.timeout_seconds > 0
    if used.discovery.kind in gateway.actions:
        assert used.discovery.region == stack.value({"Ref": "AWS::Region"})
    assert FILE_NAME not in json.dumps(container(stack)), "a file would have to be in the image"


def scaling(stack: Stack, gateway: Gateway) -> None:
    """The autoscaling follows a metric that this very gateway writes."""
    policy = stack.properties("UtilisationPolicy")["TargetTrackingScalingPolicyConfiguration"]
    metric = policy["CustomizedMetricSpecification"]
    assert metric["MetricName"] == gateway.utilisation
    assert metric["Statistic"] == "Average", "over gateways that share the sessions"
    _is_emitted(stack, gateway, metric)
    target = stack.properties("ScalableTarget")
    assert target["ResourceId"] == "service/${Cluster}/${Service.Name}"
    assert 0 < int(policy["TargetValue"]) < 100


def alarms(stack: Stack, gateway: Gateway) -> None:
    """Alarms on the gateway's metrics look at metrics that it writes, and no more often than it does."""
    interval = settings(stack, gateway).metrics.interval_seconds
    full = stack.properties("UtilisationAlarm")
    assert full["MetricName"] == gateway.utilisation
    assert full["Period"] >= interval
    _is_emitted(stack, gateway, full)
    none = stack.properties("NoReplicaAlarm")
    assert (none["Threshold"], none["TreatMissingData"]) == (1, "breaching")
    looked_at = {}
    for query in none["Metrics"]:
        if stat := query.get("MetricStat"):
            assert (stat["Period"], stat["Stat"]) == (60, "Maximum")
            assert stat["Period"] >= interval
            _is_emitted(stack, gateway, {**stat["Metric"], "Unit": stat["Unit"]})
            looked_at[query["Id"]] = stat["Metric"]["MetricName"]
    assert looked_at == {"healthy": gateway.healthy, "sleeping": gateway.sleeping}
    (expression,) = (query["Expression"] for query in none["Metrics"] if query["ReturnData"])
    assert expression == "healthy + sleeping"


def capacity(stack: Stack, gateway: Gateway) -> None:
    """100 % of the utilisation is what one gateway is to carry; together they may carry that in full."""
    used = settings(stack, gateway)
    one, most = int(stack.parameters["MaxSessions"]), int(stack.parameters["MaxCount"])
    assert used.metrics.full_at_sessions == one
    assert used.admission.max_sessions == (one * most if used.joins_fleet else one)


def open_files(stack: Stack, gateway: Gateway) -> None:
    """Each session may have its two sockets, those that wait their one, and each replica its probe."""
    (limit,) = container(stack)["Ulimits"]
    admission = settings(stack, gateway).admission
    needed = 2 * admission.max_sessions + admission.queue_size + 1000
    assert limit["Name"] == "nofile"
    assert limit["SoftLimit"] >= needed


def confinement(stack: Stack, gateway: Gateway) -> None:
    """The process writes nowhere, and is nobody."""
    about = container(stack)
    user, group = about["User"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert about["ReadonlyRootFilesystem"] is True
    assert about["LinuxParameters"]["Capabilities"] == {"Drop": ["ALL"]}
    assert not about.get("Privileged")


def roll_out(stack: Stack, gateway: Gateway) -> None:
    """A new version takes nothing away before it is there, and one that does not start is taken back."""
    about = stack.properties("Service")
    deployment = about["DeploymentConfiguration"]
    assert deployment["MinimumHealthyPercent"] == 100
    assert deployment["MaximumPercent"] > 100
    assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert about["AvailabilityZoneRebalancing"] == "DISABLED"


def meeting(stack: Stack, gateway: Gateway) -> None:
    """Gateways meet in a fleet where they are given a server for it, under the name that replicas expect."""
    fleet = settings(stack, gateway).fleet
    assert fleet.backend == ("redis" if stack.parameters["RedisUrlSecretArn"] else "none")
    assert stack.parameters["FleetNamespace"] == fleet.namespace == gateway.fleet_namespace
    assert not fleet.cluster, "the data stack has one endpoint"


def order(stack: Stack, gateway: Gateway) -> None:
    """No task starts before it can be reached."""
    assert set(stack.resources["Service"]["DependsOn"]) >= {"SessionRule", "GatewayIngress"}


AGREEMENTS: tuple[Agreement, ...] = (
    ports,
    own_readiness,
    liveness,
    time_to_start,
    silence,
    time_to_stop,
    time_to_leave,
    spreading,
    paths,
    task_role,
    execution_role,
    secrets,
    every_variable,
    scaling,
    alarms,
    capacity,
    open_files,
    confinement,
    roll_out,
    meeting,
    order,
)


class _Asked(NamedTuple):
    """What the container's health check asks, and for how long."""

    host: str
    port: int
    seconds: int
    path: str


def _asked_for_life(stack: Stack) -> _Asked:
    how, *command = container(stack)["HealthCheck"]["Command"]
    assert how == "CMD", "without a shell, which the image need not have"
    found = ASKS.search(command[-1])
    assert found is not None, command[-1]
    port = int(environment(stack)[found["port"]])
    return _Asked(found["host"], port, int(found["seconds"]), found["path"])


def _target_attribute(stack: Stack, key: str) -> str:
    return str(at(stack.properties("TargetGroup")["TargetGroupAttributes"], key)["Value"])


def _is_emitted(stack: Stack, gateway: Gateway, metric: dict[str, Any]) -> None:
    """`metric` is one of those in a line that the gateway writes, under the same dimension, in that unit."""
    line = emitted(settings(stack, gateway))
    (about,) = line["_aws"]["CloudWatchMetrics"]
    assert metric["Namespace"] == about["Namespace"]
    assert about["Dimensions"] == [[gateway.dimension]]
    assert metric["Dimensions"] == [{"Name": gateway.dimension, "Value": line[gateway.dimension]}]
    assert {"Name": metric["MetricName"], "Unit": metric["Unit"]} in about["Metrics"]
