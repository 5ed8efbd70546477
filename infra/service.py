"""PURE. The gateways as ECS and the load balancer tell of them, whether all is well, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from infra.words import counted, lasting

GONE = frozenset({"DEPROVISIONING", "STOPPED", "DELETED"})
"""The states of a task whose containers have ended."""
SHORT = 8
"""So many characters of a task's id are shown."""


@dataclass(frozen=True, slots=True)
class Target:
    """A task as the load balancer sees it."""

    state: str
    """healthy, initial, unhealthy, draining, unused, unavailable; empty is not registered."""
    reason: str = ""


UNREGISTERED = Target("")


@dataclass(frozen=True, slots=True)
class Task:
    """A gateway."""

    id: str
    last_status: str
    desired_status: str = "RUNNING"
    container_health: str = "UNKNOWN"
    definition: str = ""
    """Family and revision of what it was started from."""
    since: datetime | None = None
    """When it started, or was created."""
    stopped_reason: str = ""
    target: Target = UNREGISTERED

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    @property
    def to_stay(self) -> bool:
        """Whether nobody has told it to stop."""
        return self.desired_status == "RUNNING"

    @property
    def gone(self) -> bool:
        return self.last_status in GONE

    @property
    def serves(self) -> bool:
        """Whether clients reach it, and it is to stay."""
        return (
            self.to_stay
            and self.last_status == "RUNNING"
            and self.target.state == "healthy"
            and self.container_health != "UNHEALTHY"
        )


@dataclass(frozen=True, slots=True)
class Deployment:
    """A version of the service that is there, comes or goes."""

    status: str
    """PRIMARY is the newest, ACTIVE one that it replaces."""
    rollout: str
    """IN_PROGRESS, COMPLETED, FAILED; empty where ECS does not say."""
    reason: str = ""
    definition: str = ""
    desired: int = 0
    running: int = 0
    pending: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Service:
    """All gateways of one service."""

    name: str
    cluster: str
    status: str
    desired: int
    running: int
    pending: int
    minimum_percent: int = 100
    deployments: Sequence[Deployment] = ()
    tasks: Sequence[Task] = ()
    events: Sequence[str] = ()
    """What ECS wrote last, the newest first."""

    @property
    def present(self) -> tuple[Task, ...]:
        """The tasks that have not ended."""
        return tuple(task for task in self.tasks if not task.gone)

    @property
    def serving(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.serves)

    @property
    def rolling(self) -> bool:
        """Whether one version is being replaced by another."""
        primary = [one for one in self.deployments if one.status == "PRIMARY"]
        return len(self.deployments) > 1 or any(one.rollout == "IN_PROGRESS" for one in primary)


def troubles(service: Service) -> list[str]:
    """Why not all is well with the gateways; empty when it is."""
    found: list[str] = []
    if service.status != "ACTIVE":
        return [f"the service is {service.status}"]
    if service.desired == 0:
        found.append("no gateway is wanted: the desired count is 0")
    if service.running != service.desired or service.pending:
        pending = f", {service.pending} pending" if service.pending else ""
        found.append(f"{service.running} of {counted(service.desired, 'gateway')} running{pending}")
    for one in service.deployments:
        if one.status == "PRIMARY" and one.rollout in ("IN_PROGRESS", "FAILED"):
            why = f": {one.reason}" if one.reason else ""
            found.append(f"the deployment of {one.definition} is {one.rollout}{why}")
    found += [f"{task.short} {why}" for task in service.present if (why := _ailment(task))]
    return found


def _ailment(task: Task) -> str:
    """What is wrong with a task that is to stay; one that goes may be as it likes."""
    if not task.to_stay or task.serves:
        return ""
    if task.last_status != "RUNNING":
        return f"is {task.last_status}"
    if task.container_health == "UNHEALTHY":
        return "fails its container's health check"
    return f"is not healthy behind the load balancer: {target_words(task.target)}"


def target_words(target: Target) -> str:
    """`healthy`, or the state with its reason."""
    if not target.state:
        return "not registered"
    why = f" ({target.reason})" if target.reason and target.state != "healthy" else ""
    return target.state + why


def service_lines(service: Service, now: datetime) -> list[str]:
    """Counts, deployments, and a line for each task."""
    lines = [
        f"service {service.name}: {service.desired} desired, {service.running} running, "
        f"{service.pending} pending"
    ]
    lines += [_deployment_line(one) for one in service.deployments]
    if not service.present:
        return lines
    rows: list[tuple[str, ...]] = [("TASK", "STATE", "LOAD BALANCER", "AGE", "DEFINITION")]
    rows += [_row(task, now) for task in service.present]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return lines + ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _deployment_line(one: Deployment) -> str:
    failed = f", {one.failed} failed" if one.failed else ""
    rollout = f" {one.rollout}" if one.rollout else ""
    return (
        f"  {one.status} {one.definition}{rollout}: {one.desired} desired, {one.running} running, "
        f"{one.pending} pending{failed}"
    )


def _row(task: Task, now: datetime) -> tuple[str, ...]:
    state = task.last_status if task.to_stay else f"{task.last_status}, stopping"
    if task.container_health == "UNHEALTHY":
        state += ", unhealthy"
    age = lasting(now - task.since) if task.since is not None else "-"
    return task.id, state, target_words(task.target), age, task.definition
