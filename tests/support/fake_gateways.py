"""An ECS service behind a load balancer as moto does not play it: tasks that start, register, drain and stop.

Everything moves one step each time that the service is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.fake_aws import Answer, Failure, FakeAws

CLUSTER, SERVICE = "gateways", "gateways-service"
TARGET_GROUP = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/gateways/1"
OUTPUTS = {"ClusterName": CLUSTER, "ServiceName": SERVICE, "TargetGroupArn": TARGET_GROUP}
STARTS = ("PROVISIONING", "PENDING", "RUNNING initial", "RUNNING initial", "RUNNING healthy")
STOPS = ("RUNNING draining", "DEACTIVATING draining", "STOPPING unused", "DEPROVISIONING", "STOPPED")
BREAKS = ("PROVISIONING", "PENDING", "STOPPED")
SINCE = 1_772_356_500.0
"""2026-03-01 09:15 UTC, where the test's clock begins at 12:00."""


@dataclass(slots=True)
class FakeTask:
    """A task, with what comes of it: `state` or `state target`, one a look; the last one stays."""

    id: str
    address: str
    steps: list[str]
    desired: str = "RUNNING"
    stopped_reason: str = ""
    container_health: str = "UNKNOWN"

    @property
    def status(self) -> str:
        return self.steps[0].split()[0]

    @property
    def target(self) -> str:
        return self.steps[0].partition(" ")[2]

    def step(self) -> None:
        if len(self.steps) > 1:
            self.steps.pop(0)
            if self.status == "STOPPED":
                self.desired = "STOPPED"


class FakeGateways:
    """The service. Whatever is changed here holds from the next look on."""

    def __init__(self, aws: FakeAws, count: int = 2) -> None:
        self.tasks: list[FakeTask] = []
        self.desired = count
        self.pages = 100
        self.starts: list[tuple[str, ...]] = []
        """How the next ones start; STARTS when there is none."""
        self.more: dict[str, Any] = {}
        """What the service says beside its counts."""
        self._made = 0
        for _ in range(count):
            self.runs()
        for operation in (
            "DescribeServices",
            "ListTasks",
            "DescribeTasks",
            "StopTask",
            "DescribeTargetHealth",
            "DescribeTargetGroupAttributes",
        ):
            aws.operations[operation] = getattr(self, f"_{operation}")

    def runs(self, *steps: str) -> FakeTask:
        """One more task; by default one that serves."""
        self._made += 1
        task = FakeTask(
            f"{self._made:04x}" + "0123456789abcdef01234567" + f"{self._made:04x}",
            f"10.0.{self._made // 200}.{self._made % 200 + 1}",
            list(steps or ("RUNNING healthy",)),
        )
        self.tasks.append(task)
        return task

    def _DescribeServices(self, asked: Mapping[str, Any]) -> Answer:
        if asked["cluster"] != CLUSTER:
            return Failure("ClusterNotFoundException", message="Cluster not found.")
        if asked["services"] != [SERVICE]:
            return {"services": [], "failures": [{"reason": "MISSING"}]}
        for task in self.tasks:
            task.step()
        staying = [task for task in self.tasks if task.desired == "RUNNING"]
        for _ in range(self.desired - len(staying)):
            steps = self.starts.pop(0) if self.starts else STARTS
            self.runs(*steps).stopped_reason = "CannotPullContainerError" if steps == BREAKS else ""
        staying = [task for task in self.tasks if task.desired == "RUNNING"]
        running = sum(task.status == "RUNNING" for task in staying)
        counts = {
            "desiredCount": self.desired,
            "runningCount": running,
            "pendingCount": len(staying) - running,
        }
        definition = "arn:aws:ecs:eu-central-1:1:task-definition/gateway:7"
        primary = {"status": "PRIMARY", "rolloutState": "COMPLETED", "taskDefinition": definition, **counts}
        service = {
            "serviceName": SERVICE,
            "clusterArn": f"arn:aws:ecs:eu-central-1:1:cluster/{CLUSTER}",
            "status": "ACTIVE",
            "deploymentConfiguration": {"minimumHealthyPercent": 100},
            "deployments": [primary],
            "events": [{"id": "1", "createdAt": SINCE, "message": "(service) was unable to place a task"}],
            **counts,
            **self.more,
        }
        return {"services": [service]}

    def _ListTasks(self, asked: Mapping[str, Any]) -> Answer:
        assert asked["serviceName"] == SERVICE
        found = [self._arn(task) for task in self.tasks if task.desired == asked["desiredStatus"]]
        start = int(asked.get("nextToken", "0"))
        end = start + self.pages
        more = {"nextToken": str(end)} if end < len(found) else {}
        return {"taskArns": found[start:end], **more}

    def _DescribeTasks(self, asked: Mapping[str, Any]) -> Answer:
        if len(asked["tasks"]) > 100:
            return Failure("InvalidParameterException", message="Task list cannot have more than 100")
        return {"tasks": [self._described(task) for task in self.tasks if self._arn(task) in asked["tasks"]]}

    def _described(self, task: FakeTask) -> dict[str, Any]:
        return {
            "taskArn": self._arn(task),
            "lastStatus": task.status,
            "desiredStatus": task.desired,
            "healthStatus": task.container_health,
            "taskDefinitionArn": "arn:aws:ecs:eu-central-1:1:task-definition/gateway:7",
            "createdAt": SINCE,
            "stoppedReason": task.stopped_reason,
            "containers": [{"name": "gateway", "networkInterfaces": []}],
            "attachments": [{"details": [{"name": "privateIPv4Address", "value": task.address}]}],
        }

    def _arn(self, task: FakeTask) -> str:
        return f"arn:aws:ecs:eu-central-1:1:task/{CLUSTER}/{task.id}"

    def _StopTask(self, asked: Mapping[str, Any]) -> Answer:
        (task,) = [one for one in self.tasks if one.id == asked["task"]]
        task.desired, task.steps = "STOPPED", list(STOPS)
        return {"task": self._described(task)}

    def _DescribeTargetHealth(self, asked: Mapping[str, Any]) -> Answer:
        assert asked["TargetGroupArn"] == TARGET_GROUP
        return {
            "TargetHealthDescriptions": [
                {
                    "Target": {"Id": task.address, "Port": 8000},
                    "TargetHealth": {"State": task.target, **_reason(task.target)},
                }
                for task in self.tasks
                if task.target
            ]
        }

    def _DescribeTargetGroupAttributes(self, asked: Mapping[str, Any]) -> Answer:
        return {"Attributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "300"}]}


def _reason(state: str) -> dict[str, str]:
    if state != "unhealthy":
        return {}
    return {"Reason": "Target.ResponseCodeMismatch", "Description": "Health checks failed with codes: [503]"}
