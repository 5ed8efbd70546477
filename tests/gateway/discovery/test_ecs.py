"""Replicas from ECS: as it describes its tasks, and over real HTTP with pages as AWS has them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import boto3
import pytest

from gateway.discovery.attributes import Defaults
from gateway.discovery.aws import AwsClient, AwsPlace
from gateway.discovery.belief import Patience
from gateway.discovery.ecs import AT_ONCE, SERVICE, EcsService, EcsSource, listing_of
from gateway.discovery.listing import Listed
from gateway.discovery.watch import Pace, ReplicaWatch
from gateway.errors import SourceUnavailable
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from tests.support.fake_aws import Answer, Failure, FakeAws, fake_aws, with_credentials
from tests.support.manual_clock import ManualClock
from tests.support.moto_server import moto_server

REGION = "eu-central-1"
NAMED = EcsService("gpus", "replicas", Defaults(port=8000))
PACE = Pace(5, 10, Patience(confirm_seconds=10, settle_seconds=60))


def arn(name: str) -> str:
    return f"arn:aws:ecs:{REGION}:123456789012:task/gpus/{name}"


def task(name: str, ip: str | None = "10.0.0.1", **more: Any) -> dict[str, Any]:
    interfaces = [{"attachmentId": "x", "privateIpv4Address": ip}] if ip else []
    plain = {
        "taskArn": arn(name),
        "lastStatus": "RUNNING",
        "desiredStatus": "RUNNING",
        "healthStatus": "UNKNOWN",
        "containers": [{"name": "replica", "networkInterfaces": interfaces}],
        "tags": [],
    }
    return plain | more


# -- as it describes its tasks


@pytest.mark.parametrize(
    ("more", "listed"),
    [
        ({}, Listed(ReplicaEndpoint("http://10.0.0.1:8000"))),
        (
            {
                "tags": [
                    {"key": "capacity", "value": "1"},
                    {"key": "weight", "value": "2"},
                    {"key": "primary", "value": "true"},
                    {"key": "cold_start", "value": "true"},
                    {"key": "port", "value": "9000"},
                    {"key": "team", "value": "video"},
                ]
            },
            Listed(
                ReplicaEndpoint(
                    "http://10.0.0.1:9000", primary=True, weight=2.0, max_sessions=1, cold_start=True
                )
            ),
        ),
        (
            {"containers": [{"networkInterfaces": [{"ipv6Address": "2001:db8::1"}]}]},
            Listed(ReplicaEndpoint("http://[2001:db8::1]:8000")),
        ),
        (
            {
                "lastStatus": "PENDING",
                "containers": [],
                "attachments": [{"details": [{"name": "privateIPv4Address", "value": "10.0.0.9"}]}],
            },
            Listed(ReplicaEndpoint("http://10.0.0.9:8000"), takes_sessions=False),
        ),
        ({"lastStatus": "ACTIVATING"}, Listed(ReplicaEndpoint("http://10.0.0.1:8000"), False)),
        ({"desiredStatus": "STOPPED"}, Listed(ReplicaEndpoint("http://10.0.0.1:8000"), False)),
        ({"lastStatus": "STOPPING"}, Listed(ReplicaEndpoint("http://10.0.0.1:8000"), False)),
    ],
    ids=["plain", "tags", "ipv6", "pending", "activating", "to stop", "stopping"],
)
def test_a_task_is_a_replica(more: Mapping[str, Any], listed: Listed) -> None:
    assert listing_of([task("t", **more)], NAMED.defaults).replicas == (listed,)


@pytest.mark.parametrize(
    "more",
    [{"lastStatus": "STOPPED"}, {"lastStatus": "DEPROVISIONING"}, {"lastStatus": "PROVISIONING", "ip": None}],
)
def test_one_that_has_ended_or_has_no_address_yet_is_not_there(more: dict[str, Any]) -> None:
    listing = listing_of([task("t", **more)], NAMED.defaults)
    assert (listing.replicas, listing.problems) == ((), ())


def test_one_that_runs_without_an_address_of_its_own_is_named() -> None:
    (problem,) = listing_of([task("t", None)], NAMED.defaults).problems
    assert problem.who == "t"
    assert "awsvpc" in problem.reason


def test_a_container_that_is_unhealthy_takes_no_session() -> None:
    tasks = [task("t"), task("u", "10.0.0.2", healthStatus="UNHEALTHY")]
    assert [one.takes_sessions for one in listing_of(tasks, NAMED.defaults).replicas] == [True, False]


# -- with pages


class Cluster:
    """A fake ECS that pages and limits as AWS does."""

    def __init__(self, aws: FakeAws) -> None:
        self.aws = aws
        self.tasks: dict[str, dict[str, Any]] = {}
        self.list_failure: Failure | None = None
        self.clock = ManualClock()
        self.registry = ReplicaRegistry([], clock=self.clock)
        aws.operations["ListTasks"] = self.tasks_on_a_page
        aws.operations["DescribeTasks"] = self.descriptions

    def runs(self, count: int) -> None:
        self.tasks = {
            arn(f"t{n:03}"): task(f"t{n:03}", f"10.0.{n // 200}.{n % 200 + 1}") for n in range(count)
        }

    def tasks_on_a_page(self, asked: Mapping[str, Any]) -> Answer:
        assert asked["cluster"] == "gpus"
        assert asked["serviceName"] == "replicas"
        if self.list_failure is not None:
            return self.list_failure
        wanted = [one for one, task in self.tasks.items() if task["desiredStatus"] == asked["desiredStatus"]]
        start = int(asked.get("nextToken", "0"))
        end = start + min(asked.get("maxResults", 100), 100)
        more = {"nextToken": str(end)} if end < len(wanted) else {}
        return {"taskArns": wanted[start:end], **more}

    def descriptions(self, asked: Mapping[str, Any]) -> Answer:
        if len(asked["tasks"]) > 100:
            return Failure("InvalidParameterException", message="Task list cannot have more than 100")
        assert asked["include"] == ["TAGS"]
        return {
            "tasks": [self.tasks[one] for one in asked["tasks"] if one in self.tasks],
            "failures": [
                {"arn": one, "reason": "MISSING"} for one in asked["tasks"] if one not in self.tasks
            ],
        }

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[ReplicaWatch]:
        async with source_at(self.aws.url, self.clock) as source:
            watch = ReplicaWatch(self.registry, source, clock=self.clock)
            await watch.look()
            yield watch

    async def later(self, watch: ReplicaWatch, seconds: float = 5) -> None:
        for _ in range(int(seconds / 5)):
            self.clock.jump(5)
            await watch.look()

    def staying(self) -> list[int]:
        """The very replicas that get sessions."""
        return [id(one) for one in self.registry.all() if not (one.removed or one.leaving)]


@asynccontextmanager
async def source_at(url: str, clock: ManualClock | None = None) -> AsyncIterator[EcsSource]:
    async with AwsClient(SERVICE, AwsPlace(REGION, url), clock=clock, rng=random.Random(7)) as client:
        yield EcsSource(client, NAMED, PACE)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with_credentials(monkeypatch)
    with fake_aws() as aws:
        yield Cluster(aws)


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 120, 200, 201, 1000])
async def test_every_task_is_found_whatever_their_number(cluster: Cluster, count: int) -> None:
    cluster.runs(count)
    async with source_at(cluster.aws.url) as source:
        found = (await source.listing()).replicas
    assert len({one.key for one in found}) == count
    assert cluster.aws.count("ListTasks") == max(1, -(-count // AT_ONCE))
    assert cluster.aws.count("DescribeTasks") == -(-count // AT_ONCE)


async def test_a_page_that_fails_makes_no_list(cluster: Cluster) -> None:
    cluster.runs(120)
    async with cluster.watched() as watch:
        before = cluster.staying()
        whole = cluster.tasks_on_a_page

        def broken(asked: Mapping[str, Any]) -> Answer:
            return Failure("ServerException", 500) if "nextToken" in asked else whole(asked)

        cluster.aws.operations["ListTasks"] = broken
        await cluster.later(watch, 90)
        assert cluster.staying() == before
        assert len(before) == 120


async def test_pages_without_an_end_are_a_wrong_answer(cluster: Cluster) -> None:
    cluster.aws.operations["ListTasks"] = lambda asked: {"taskArns": [arn("t")], "nextToken": "again"}
    async with source_at(cluster.aws.url) as source:
        with pytest.raises(SourceUnavailable, match="the same page again and again"):
            await source.listing()
    assert cluster.aws.count("ListTasks") == 2


@pytest.mark.parametrize("operation", ["ListTasks", "DescribeTasks"])
async def test_an_answer_without_its_list_is_a_wrong_one(cluster: Cluster, operation: str) -> None:
    cluster.runs(2)
    async with cluster.watched() as watch:
        cluster.aws.operations[operation] = lambda asked: {}
        await cluster.later(watch, 90)
        assert len(cluster.staying()) == 2


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        ("ListTasks", []),
        ("ListTasks", {"taskArns": [[1], None]}),
        ("DescribeTasks", {"tasks": [1]}),
        ("DescribeTasks", {"tasks": [{"containers": 5}]}),
        ("DescribeTasks", {"tasks": [{"tags": [5]}]}),
        ("DescribeTasks", {"tasks": [], "failures": [5]}),
        ("DescribeTasks", {"tasks": [], "failures": 5}),
    ],
)
async def test_what_is_no_answer_of_aws_is_a_wrong_one(cluster: Cluster, operation: str, answer: Any) -> None:
    cluster.runs(2)
    cluster.aws.operations[operation] = lambda asked: answer
    async with source_at(cluster.aws.url) as source:
        with pytest.raises(SourceUnavailable) as raised:
            await source.listing()
    assert raised.value.cause == "not_aws"


async def test_an_empty_answer_once_changes_nothing(cluster: Cluster) -> None:
    cluster.runs(120)
    async with cluster.watched() as watch:
        before = cluster.staying()
        cluster.runs(0)
        await cluster.later(watch)
        cluster.runs(120)
        await cluster.later(watch, 90)
        assert cluster.staying() == before


async def test_throttled_for_a_minute_changes_nothing(cluster: Cluster) -> None:
    cluster.runs(120)
    async with cluster.watched() as watch:
        before = cluster.staying()
        cluster.list_failure = Failure("ThrottlingException", message="Rate exceeded")
        asked = cluster.aws.count("ListTasks")
        await cluster.later(watch, 60)
        assert cluster.staying() == before
        assert 3 <= cluster.aws.count("ListTasks") - asked <= 6, "of twelve that were due"


async def test_a_task_that_ecs_stops_drains_at_once_and_is_gone_when_it_has_ended(cluster: Cluster) -> None:
    cluster.runs(3)
    async with cluster.watched() as watch:
        stopping = cluster.tasks[arn("t001")]
        stopping["desiredStatus"] = "STOPPED"
        await cluster.later(watch, 60)
        assert [one.leaving for one in cluster.registry.all()] == [False, True, False]
        stopping["lastStatus"] = "STOPPED"
        await cluster.later(watch, 15)
        assert len(cluster.registry.all()) == 2
        asked = cluster.aws.asked[-1][1]
        assert arn("t001") not in asked["tasks"], "what has ended is not asked for again"


async def test_a_task_that_ecs_has_forgotten_is_left_out(cluster: Cluster) -> None:
    cluster.runs(3)
    async with cluster.watched() as watch:
        del cluster.tasks[arn("t001")]
        await cluster.later(watch, 15)
        assert len(cluster.registry.all()) == 2


async def test_a_task_that_starts_gets_sessions_once_it_runs(cluster: Cluster) -> None:
    cluster.runs(1)
    async with cluster.watched() as watch:
        cluster.tasks[arn("new")] = task("new", "10.0.9.9", lastStatus="ACTIVATING")
        await cluster.later(watch)
        assert [one.leaving for one in cluster.registry.all()] == [False, True]
        cluster.tasks[arn("new")]["lastStatus"] = "RUNNING"
        await cluster.later(watch)
        assert [one.leaving for one in cluster.registry.all()] == [False, False]


# -- from moto


async def test_tasks_of_a_service_in_moto_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_credentials(monkeypatch)
    with moto_server() as url:
        ec2: Any = boto3.client("ec2", region_name=REGION, endpoint_url=url)
        api = boto3.client(SERVICE, region_name=REGION, endpoint_url=url)
        subnet = ec2.describe_subnets()["Subnets"][0]
        (group,) = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])[
            "SecurityGroups"
        ]
        api.create_cluster(clusterName="gpus")
        api.register_task_definition(
            family="replica",
            networkMode="awsvpc",
            requiresCompatibilities=["FARGATE"],
            cpu="256",
            memory="512",
            containerDefinitions=[{"name": "replica", "image": "replica", "memory": 512}],
        )
        api.run_task(
            cluster="gpus",
            taskDefinition="replica",
            launchType="FARGATE",
            count=3,
            group="service:replicas",
            tags=[{"key": "capacity", "value": "4"}],
            networkConfiguration={
                "awsvpcConfiguration": {
                    "subnets": [subnet["SubnetId"]],
                    "securityGroups": [group["GroupId"]],
                }
            },
        )
        async with source_at(url) as source:
            found = (await source.listing()).replicas
        api.close()
        ec2.close()
    assert len(found) == 3
    assert {one.endpoint.max_sessions for one in found} == {4}
