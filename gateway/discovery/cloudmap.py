"""Replicas that are instances of a service in AWS Cloud Map.

1. Everything is asked for, whatever AWS's own health checks say (`HealthStatus=ALL`), and up to a thousand
   at once: there are no pages, and without being asked for so many AWS gives a hundred.
2. The instance's address is its IPv4 address, or else its IPv6 address, or else its CNAME, with
   AWS_INSTANCE_PORT; `gateway.discovery.attributes` reads the rest.
3. An instance that is UNHEALTHY is known and probed, and gets no new session; sessions on it are the
   gateway's own probes' matter.
4. The revision of the instances is the cheap check. It does not rise when only health has changed, so the
   whole list is asked for now and then all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.discovery.attributes import Defaults, Found, NoReplica, distinct, listed_from
from gateway.discovery.aws import AwsClient, not_aws
from gateway.discovery.listing import Listing, Problem
from gateway.discovery.watch import Pace
from gateway.errors import SourceUnavailable

SERVICE: Final = "servicediscovery"
"""boto3's name for Cloud Map."""
MOST_INSTANCES = 1000
"""AWS lists no more at once, and there is no way to ask for the rest."""
ACTIONS = ("servicediscovery:DiscoverInstances", "servicediscovery:DiscoverInstancesRevision")
"""What the gateway's role has to allow."""


@dataclass(frozen=True, slots=True)
class CloudMapService:
    """The service whose instances are the replicas."""

    namespace: str
    service: str
    defaults: Defaults


class CloudMapSource:
    """A `ReplicaSource` over Cloud Map."""

    kind = "cloudmap"

    def __init__(self, client: AwsClient, service: CloudMapService, pace: Pace) -> None:
        self._client, self._service, self.pace = client, service, pace
        self._named = {"NamespaceName": service.namespace, "ServiceName": service.service}

    async def revision(self) -> str | None:
        answer = await self._client.call("DiscoverInstancesRevision", **self._named)
        revision = answer.get("InstancesRevision")
        return None if revision is None else str(revision)

    async def listing(self) -> Listing:
        answer = await self._client.call(
            "DiscoverInstances", **self._named, HealthStatus="ALL", MaxResults=MOST_INSTANCES
        )
        instances = answer.get("Instances")
        if not isinstance(instances, list):
            raise SourceUnavailable("DiscoverInstances answered without Instances")
        if not all(isinstance(instance, dict) for instance in instances):
            raise not_aws("DiscoverInstances")
        return listing_of(instances, self._service.defaults)


def listing_of(instances: Sequence[Mapping[str, Any]], defaults: Defaults) -> Listing:
    """The replicas among `instances`, as DiscoverInstances has them."""
    found: list[Found] = []
    problems: list[Problem] = []
    for instance in instances:
        id = str(instance.get("InstanceId", ""))
        said = _texts(instance.get("Attributes"))
        try:
            listed = listed_from(
                _host(said), said.get("AWS_INSTANCE_PORT"), said, defaults, takes_sessions=True
            )
        except NoReplica as reason:
            problems.append(Problem(id, str(reason)))
            continue
        found.append(Found(id, listed, healthy=instance.get("HealthStatus") != "UNHEALTHY"))
    if len(instances) >= MOST_INSTANCES:
        most = f"lists {MOST_INSTANCES} instances at most: some may be missing"
        problems.append(Problem("Cloud Map", most))
    return Listing(distinct(found), tuple(problems))


def _texts(attributes: object) -> dict[str, str]:
    """What stands in for Cloud Map may know attributes that are no texts."""
    return {str(key): str(value) for key, value in attributes.items()} if isinstance(attributes, dict) else {}


def _host(said: Mapping[str, str]) -> str:
    for key in ("AWS_INSTANCE_IPV4", "AWS_INSTANCE_IPV6", "AWS_INSTANCE_CNAME"):
        if host := said.get(key):
            return host
    raise NoReplica("it has no address: AWS_INSTANCE_IPV4, AWS_INSTANCE_IPV6 or AWS_INSTANCE_CNAME")
