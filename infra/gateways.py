"""The gateways at ECS and the load balancer: what AWS is asked for, and its answers as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infra.aws import Aws
from infra.errors import Absent, Unfinished
from infra.service import UNREGISTERED, Deployment, Service, Target, Task
from infra.stack import Stack
from infra.words import listed, safe

ECS, BALANCER = "ecs", "elbv2"
AT_ONCE = 100
"""So many tasks are described in one call."""
EVENTS = 3
NEEDED = ("ClusterName", "ServiceName", "TargetGroupArn")
"""The outputs of the service's stack by which the gateways are found."""


@dataclass(frozen=True, slots=True)
class Gateways:
    """The gateways of one service stack."""

    aws: Aws
    cluster: str
    service_name: str
    target_group: str

    @classmethod
    def of(cls, aws: Aws, stack: Stack) -> Gateways:
        """Those of that stack. Raises Unfinished where its outputs do not say."""
        if missing := [name for name in NEEDED if name not in stack.outputs]:
            raise Unfinished(f"{stack.name} ({stack.status}) has no output {listed(missing)}")
        return cls(aws, *(stack.outputs[name] for name in NEEDED))

    def seen(self) -> Service:
        """All of them now. Raises Unfinished where there is no such service."""
        try:
            answer = self.aws.call(
                ECS, "describe_services", cluster=self.cluster, services=[self.service_name]
            )
        except Absent:
            answer = {}
        found = next(iter(answer.get("services") or ()), None)
        if found is None:
            raise Unfinished(f"there is no service {self.service_name} in the cluster {self.cluster}")
        targets = self._targets()
        tasks = [_task(one, targets) for one in self._tasks()]
        tasks.sort(key=lambda task: (not task.to_stay, task.since is None, task.since, task.id))
        return replace(_service(found), tasks=tuple(tasks))

    def stop(self, task_id: str) -> None:
        """Begin: out of the load balancer, its delay, SIGTERM, the stop timeout, SIGKILL."""
        self.aws.call(
            ECS, "stop_task", cluster=self.cluster, task=task_id, reason="replaced by python -m infra replace"
        )

    def drain_seconds(self) -> str:
        """How long a session may go on at a task that leaves, as the target group says."""
        answer = self.aws.call(BALANCER, "describe_target_group_attributes", TargetGroupArn=self.target_group)
        attributes = {one["Key"]: str(one["Value"]) for one in answer["Attributes"]}
        return attributes.get("deregistration_delay.timeout_seconds", "300")

    def _tasks(self) -> Iterator[Mapping[str, Any]]:
        arns: list[str] = []
        for desired in ("RUNNING", "STOPPED"):
            arns += self._arns(desired)
        for start in range(0, len(arns), AT_ONCE):
            batch = arns[start : start + AT_ONCE]
            answer = self.aws.call(ECS, "describe_tasks", cluster=self.cluster, tasks=batch)
            yield from answer.get("tasks") or ()

    def _arns(self, desired: str) -> Iterator[str]:
        asked: dict[str, object] = {
            "cluster": self.cluster,
            "serviceName": self.service_name,
            "desiredStatus": desired,
        }
        for one in self.aws.pages(ECS, "list_tasks", "taskArns", "nextToken", **asked):
            yield str(one)

    def _targets(self) -> Mapping[str, Target]:
        """By address. Where an address has several ports, a healthy one speaks for it."""
        answer = self.aws.call(BALANCER, "describe_target_health", TargetGroupArn=self.target_group)
        found: dict[str, Target] = {}
        for one in answer.get("TargetHealthDescriptions") or ():
            address, health = str(one["Target"]["Id"]), one.get("TargetHealth") or {}
            why = health.get("Description") or health.get("Reason") or ""
            target = Target(str(health.get("State", "")), safe(str(why)))
            if found.get(address, UNREGISTERED).state != "healthy":
                found[address] = target
        return found


def _service(one: Mapping[str, Any]) -> Service:
    percent = (one.get("deploymentConfiguration") or {}).get("minimumHealthyPercent")
    return Service(
        str(one["serviceName"]),
        _last_part(one.get("clusterArn")),
        str(one.get("status")),
        int(one.get("desiredCount") or 0),
        int(one.get("runningCount") or 0),
        int(one.get("pendingCount") or 0),
        100 if percent is None else int(percent),
        tuple(_deployment(deployment) for deployment in one.get("deployments") or ()),
        events=tuple(safe(str(event.get("message"))) for event in (one.get("events") or ())[:EVENTS]),
    )


def _deployment(one: Mapping[str, Any]) -> Deployment:
    return Deployment(
        str(one.get("status")),
        str(one.get("rolloutState") or ""),
        safe(str(one.get("rolloutStateReason") or "")),
        _last_part(one.get("taskDefinition")),
        int(one.get("desiredCount") or 0),
        int(one.get("runningCount") or 0),
        int(one.get("pendingCount") or 0),
        int(one.get("failedTasks") or 0),
    )


def _task(one: Mapping[str, Any], targets: Mapping[str, Target]) -> Task:
    address = next(iter(_addresses(one)), "")
    return Task(
        _last_part(one.get("taskArn")),
        str(one.get("lastStatus")),
        str(one.get("desiredStatus")),
        str(one.get("healthStatus") or "UNKNOWN"),
        _last_part(one.get("taskDefinitionArn")),
        one.get("startedAt") or one.get("createdAt"),
        safe(_why_stopped(one)),
        targets.get(address, UNREGISTERED),
    )


def _addresses(one: Mapping[str, Any]) -> Iterator[str]:
    """Of the task's network interface; of one of its containers where ECS tells only that."""
    for attachment in one.get("attachments") or ():
        for detail in attachment.get("details") or ():
            if detail.get("name") == "privateIPv4Address":
                yield str(detail.get("value"))
    for container in one.get("containers") or ():
        for interface in container.get("networkInterfaces") or ():
            if "privateIpv4Address" in interface:
                yield str(interface["privateIpv4Address"])


def _why_stopped(one: Mapping[str, Any]) -> str:
    """ECS's reason, and a container's own, which says more where an image could not be pulled."""
    containers: Sequence[Mapping[str, Any]] = one.get("containers") or ()
    own = [str(container["reason"]) for container in containers if container.get("reason")]
    codes = [f"exit code {container['exitCode']}" for container in containers if container.get("exitCode")]
    return "; ".join(dict.fromkeys([str(one.get("stoppedReason") or ""), *own, *codes])).strip("; ")


def _last_part(arn: object) -> str:
    """The name at the end of an ARN."""
    return safe(str(arn or "").rpartition("/")[2])
