"""Replicas that are tasks of a service in Amazon ECS.

1. Tasks are listed page by page and described a hundred at a time, with their tags. Several answers make one
   list: when one of them fails, there is none.
2. A task's address is that of its network interface (network mode awsvpc), with the tag `port` or
   `discovery.port`; `gateway.discovery.attributes` reads the other tags.
3. A task that is RUNNING takes sessions, unless its container's health check says UNHEALTHY. One on its way
   up is known once it has an address, and gets none yet.
4. A task that ECS stops leaves the list at once, long before it has ended. So those that were listed before
   are described once more: while one stops it is listed as draining, and it is gone when it has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.discovery.attributes import Defaults, Found, NoReplica, distinct, listed_from
from gateway.discovery.aws import AwsClient, not_aws
from gateway.discovery.listing import Listing, Problem
from gateway.discovery.watch import Pace
from gateway.errors import SourceUnavailable

SERVICE: Final = "ecs"
AT_ONCE = 100
"""Tasks on a page, and in one description: AWS allows no more."""
MOST_PAGES = 100
"""More tasks than a service may have; an answer that goes on and on is a wrong one."""
ACTIONS = ("ecs:DescribeTasks", "ecs:ListTasks")
"""What the gateway's role has to allow."""
GONE = ("DEPROVISIONING", "STOPPED", "DELETED")
"""The containers of such a task have ended."""


@dataclass(frozen=True, slots=True)
class EcsService:
    """The service whose tasks are the replicas."""

    cluster: str
    service: str
    defaults: Defaults


class EcsSource:
    """A `ReplicaSource` over ECS."""

    kind = "ecs"

    def __init__(self, client: AwsClient, service: EcsService, pace: Pace) -> None:
        self._client, self._service, self.pace = client, service, pace
        self._listed_before: frozenset[str] = frozenset()

    async def revision(self) -> str | None:
        """None: ECS has no cheaper word than the list."""
        return None

    async def listing(self) -> Listing:
        running = await self._running()
        leaving = self._listed_before.difference(running)
        tasks = await self._described([*running, *sorted(leaving)])
        try:
            listing = listing_of(tasks, self._service.defaults)
            listed = frozenset(task["taskArn"] for task in tasks if task.get("lastStatus") not in GONE)
        except (AttributeError, KeyError, TypeError) as error:
            raise not_aws("DescribeTasks") from error
        self._listed_before = listed
        return listing

    async def _running(self) -> tuple[str, ...]:
        """The ARN of every task that ECS wants to run."""
        found: dict[str, None] = {}
        more: dict[str, str] = {}
        tokens: set[str] = set()
        for _ in range(MOST_PAGES):
            answer = await self._client.call(
                "ListTasks",
                cluster=self._service.cluster,
                serviceName=self._service.service,
                desiredStatus="RUNNING",
                maxResults=AT_ONCE,
                **more,
            )
            arns = _list_in(answer, "taskArns", "ListTasks")
            if not all(isinstance(arn, str) for arn in arns):
                raise not_aws("ListTasks")
            found.update(dict.fromkeys(arns))
            token = answer.get("nextToken")
            if not token:
                return tuple(found)
            if token in tokens:
                raise SourceUnavailable("ListTasks gives the same page again and again")
            tokens.add(token)
            more = {"nextToken": token}
        raise SourceUnavailable(f"ListTasks has more than {MOST_PAGES} pages")

    async def _described(self, arns: Sequence[str]) -> list[Mapping[str, Any]]:
        """What ECS knows of these tasks. One that it has forgotten meanwhile is left out."""
        tasks: list[Mapping[str, Any]] = []
        for start in range(0, len(arns), AT_ONCE):
            batch = list(arns[start : start + AT_ONCE])
            answer = await self._client.call(
                "DescribeTasks", cluster=self._service.cluster, tasks=batch, include=["TAGS"]
            )
            tasks += _list_in(answer, "tasks", "DescribeTasks")
            for failure in answer.get("failures", ()):
                if failure.get("reason") != "MISSING":
                    raise SourceUnavailable(f"DescribeTasks failed for a task: {failure.get('reason')}")
        return tasks


def listing_of(tasks: Iterable[Mapping[str, Any]], defaults: Defaults) -> Listing:
    """The replicas among `tasks`, as DescribeTasks has them."""
    found: list[Found] = []
    problems: list[Problem] = []
    for task in tasks:
        status, wanted = task.get("lastStatus"), task.get("desiredStatus", "RUNNING")
        host = _host(task)
        if status in GONE or (host is None and (status != "RUNNING" or wanted == "STOPPED")):
            continue
        id = str(task.get("taskArn", "")).rpartition("/")[2]
        said = {str(tag.get("key")): str(tag.get("value", "")) for tag in task.get("tags", ())}
        try:
            if host is None:
                raise NoReplica("it has no address of its own: its network mode has to be awsvpc")
            takes = status == "RUNNING" and wanted == "RUNNING"
            listed = listed_from(host, None, said, defaults, takes_sessions=takes)
        except NoReplica as reason:
            problems.append(Problem(id, str(reason)))
            continue
        # One that has not started yet is no proof that the health checks work.
        healthy = listed.takes_sessions and task.get("healthStatus") != "UNHEALTHY"
        found.append(Found(id, listed, healthy))
    return Listing(distinct(found), tuple(problems))


def _host(task: Mapping[str, Any]) -> str | None:
    """The address of the task's own network interface, IPv4 before IPv6."""
    interfaces = [
        interface
        for container in task.get("containers", ())
        for interface in container.get("networkInterfaces", ())
    ]
    for key in ("privateIpv4Address", "ipv6Address"):
        for interface in interfaces:
            if host := interface.get(key):
                return str(host)
    # Before its containers are there, the address is with the interface only.
    details = {
        detail.get("name"): detail.get("value")
        for attachment in task.get("attachments", ())
        for detail in attachment.get("details", ())
    }
    host = details.get("privateIPv4Address") or details.get("privateIPv6Address")
    return str(host) if host else None


def _list_in(answer: Mapping[str, Any], key: str, operation: str) -> list[Any]:
    listed = answer.get(key)
    if not isinstance(listed, list):
        raise SourceUnavailable(f"{operation} answered without {key}")
    return listed
