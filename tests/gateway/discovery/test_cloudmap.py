"""Replicas from Cloud Map: as it lists them, over real HTTP, and while it does not answer as it should."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from types_boto3_servicediscovery import ServiceDiscoveryClient

from gateway.discovery.attributes import Defaults
from gateway.discovery.aws import AwsClient, AwsPlace
from gateway.discovery.belief import Patience
from gateway.discovery.cloudmap import MOST_INSTANCES, SERVICE, CloudMapService, CloudMapSource, listing_of
from gateway.discovery.listing import Listed
from gateway.discovery.watch import Pace, ReplicaWatch
from gateway.errors import SourceUnavailable
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from tests.support.fake_aws import Failure, FakeAws, fake_aws, with_credentials, without_credentials
from tests.support.manual_clock import ManualClock
from tests.support.moto_server import moto_server

NAMED = CloudMapService("streaming", "replicas", Defaults())
PACE = Pace(5, 10, Patience(confirm_seconds=10, settle_seconds=60), full_every_seconds=30)
REGION = "eu-central-1"

Lines = Callable[[str], list[str]]


def instance(id: str, ip: str = "10.0.0.1", **more: str) -> dict[str, Any]:
    health = more.pop("health", "HEALTHY")
    attributes = {"AWS_INSTANCE_IPV4": ip, "AWS_INSTANCE_PORT": "8000", **more}
    return {"InstanceId": id, "HealthStatus": health, "Attributes": attributes}


def urls(registry: ReplicaRegistry) -> list[str]:
    return sorted(replica.url for replica in registry.all() if not replica.removed)


# -- as it lists them


@pytest.mark.parametrize(
    ("attributes", "url"),
    [
        ({"AWS_INSTANCE_IPV4": "10.0.0.1", "AWS_INSTANCE_PORT": "80"}, "http://10.0.0.1:80"),
        (
            {"AWS_INSTANCE_IPV4": "10.0.0.1", "AWS_INSTANCE_IPV6": "2001:db8::1", "AWS_INSTANCE_PORT": "80"},
            "http://10.0.0.1:80",
        ),
        ({"AWS_INSTANCE_IPV6": "2001:db8::1", "AWS_INSTANCE_PORT": "8000"}, "http://[2001:db8::1]:8000"),
        (
            {"AWS_INSTANCE_CNAME": "gpu.example.com", "AWS_INSTANCE_PORT": "8000"},
            "http://gpu.example.com:8000",
        ),
        ({"AWS_INSTANCE_IPV4": "10.0.0.1", "port": "9000"}, "http://10.0.0.1:9000"),
    ],
)
def test_an_instance_is_where_its_attributes_say(attributes: Mapping[str, str], url: str) -> None:
    listing = listing_of([{"InstanceId": "i", "Attributes": attributes}], Defaults())
    assert [one.endpoint.url for one in listing.replicas] == [url]
    assert listing.problems == ()


@pytest.mark.parametrize("entry", [{"InstanceId": "i"}, {"InstanceId": "i", "Attributes": {"name": "a"}}])
def test_one_without_an_address_is_left_out_and_named(entry: Mapping[str, Any]) -> None:
    listing = listing_of([entry, instance("j")], Defaults())
    assert [problem.who for problem in listing.problems] == ["i"]
    assert len(listing.replicas) == 1


def test_an_unhealthy_one_is_known_and_takes_no_session() -> None:
    entries = [instance("i"), instance("j", "10.0.0.2", health="UNHEALTHY")]
    taking = {one.endpoint.url: one.takes_sessions for one in listing_of(entries, Defaults()).replicas}
    assert taking == {"http://10.0.0.1:8000": True, "http://10.0.0.2:8000": False}


def test_a_list_that_is_full_may_lack_some_and_says_so() -> None:
    entries = [instance(f"i{n}", f"10.0.{n // 250}.{n % 250 + 1}") for n in range(MOST_INSTANCES)]
    listing = listing_of(entries, Defaults())
    assert len(listing.replicas) == MOST_INSTANCES
    assert "some may be missing" in listing.problems[0].reason
    assert listing_of(entries[:-1], Defaults()).problems == ()


# -- over HTTP, from moto


class CloudMap:
    """A service in moto's Cloud Map."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.api: ServiceDiscoveryClient = boto3.client(
            SERVICE, region_name=REGION, endpoint_url=url, aws_access_key_id="t", aws_secret_access_key="t"
        )
        self.api.create_http_namespace(Name=NAMED.namespace)
        (namespace,) = self.api.list_namespaces()["Namespaces"]
        service = self.api.create_service(Name=NAMED.service, NamespaceId=namespace["Id"])["Service"]
        self.id = service["Id"]

    def register(self, id: str, ip: str, **more: str) -> None:
        attributes = {"AWS_INSTANCE_IPV4": ip, "AWS_INSTANCE_PORT": "8000", **more}
        self.api.register_instance(ServiceId=self.id, InstanceId=id, Attributes=attributes)

    def deregister(self, id: str) -> None:
        self.api.deregister_instance(ServiceId=self.id, InstanceId=id)


@pytest.fixture
def cloudmap(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudMap]:
    with_credentials(monkeypatch)
    with moto_server() as url:
        found = CloudMap(url)
        yield found
        found.api.close()


@asynccontextmanager
async def source_at(url: str | None, clock: ManualClock | None = None) -> AsyncIterator[CloudMapSource]:
    place = AwsPlace(REGION, url, timeout_seconds=5)
    async with AwsClient(SERVICE, place, clock=clock, rng=random.Random(7)) as client:
        yield CloudMapSource(client, NAMED, PACE)


async def test_instances_that_come_change_and_go_are_seen(cloudmap: CloudMap) -> None:
    async with source_at(cloudmap.url) as source:
        assert (await source.listing()).replicas == ()
        empty = await source.revision()
        cloudmap.register("i", "10.0.0.1", capacity="4", primary="true", weight="2", name="a")
        assert await source.revision() != empty
        endpoint = ReplicaEndpoint("http://10.0.0.1:8000", "a", primary=True, weight=2.0, max_sessions=4)
        assert (await source.listing()).replicas == (Listed(endpoint),)
        cloudmap.deregister("i")
        assert (await source.listing()).replicas == ()


async def test_more_than_a_hundred_are_all_seen(cloudmap: CloudMap) -> None:
    for number in range(130):
        cloudmap.register(f"i{number}", f"10.0.0.{number + 1}")
    async with source_at(cloudmap.url) as source:
        assert len((await source.listing()).replicas) == 130


async def test_an_id_that_registers_again_is_one_replica_where_it_is_now(cloudmap: CloudMap) -> None:
    cloudmap.register("i", "10.0.0.1")
    cloudmap.register("i", "10.0.0.2")
    async with source_at(cloudmap.url) as source:
        (one,) = (await source.listing()).replicas
    assert one.endpoint.url == "http://10.0.0.2:8000"


async def test_a_stand_in_named_by_aws_own_variable_is_asked_by_its_own_host(
    cloudmap: CloudMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudmap.register("i", "10.0.0.1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloudmap.url)
    async with source_at(None) as source:
        assert len((await source.listing()).replicas) == 1


@pytest.mark.parametrize(
    "named", [("AWS_REGION",), ("AWS_DEFAULT_REGION",), ("AWS_REGION", "AWS_DEFAULT_REGION"), ()]
)
async def test_the_region_is_that_of_the_environment_before_the_configuration(
    cloudmap: CloudMap, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: tuple[str, ...]
) -> None:
    cloudmap.register("i", "10.0.0.1")
    # The first that names one counts; whatever comes after it names another.
    for variable, region in zip(named, (REGION, "us-east-1"), strict=False):
        monkeypatch.setenv(variable, region)
    (tmp_path / "config").write_text(f"[default]\nregion = {'us-west-2' if named else REGION}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    async with AwsClient(SERVICE, AwsPlace(endpoint_url=cloudmap.url)) as client:
        assert len((await CloudMapSource(client, NAMED, PACE).listing()).replicas) == 1


async def test_a_service_that_is_not_there_is_told(cloudmap: CloudMap) -> None:
    async with AwsClient(SERVICE, AwsPlace(REGION, cloudmap.url)) as client:
        source = CloudMapSource(client, CloudMapService("streaming", "other", Defaults()), PACE)
        with pytest.raises(SourceUnavailable, match="ServiceNotFound"):
            await source.listing()


# -- while it does not answer as it should, from a fake


class Service:
    """What a fake Cloud Map has."""

    def __init__(self, aws: FakeAws) -> None:
        self.aws = aws
        self.instances: list[dict[str, Any]] = []
        self.revision = 1
        self.failure: Failure | None = None
        self.clock = ManualClock()
        self.registry = ReplicaRegistry([], clock=self.clock)
        aws.operations["DiscoverInstances"] = lambda asked: (
            self.failure or {"Instances": self.instances, "InstancesRevision": self.revision}
        )
        aws.operations["DiscoverInstancesRevision"] = lambda asked: (
            self.failure or {"InstancesRevision": self.revision}
        )

    def has(self, *ips: str) -> None:
        self.revision += 1
        self.instances = [instance(ip, ip) for ip in ips]

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[ReplicaWatch]:
        async with source_at(self.aws.url, self.clock) as source:
            watch = ReplicaWatch(self.registry, source, clock=self.clock)
            await watch.look()
            yield watch

    async def for_seconds(self, seconds: float, watch: ReplicaWatch) -> None:
        """Look as often as `ReplicaWatch.run` would."""
        for _ in range(int(seconds / PACE.every_seconds)):
            self.clock.jump(PACE.every_seconds)
            await watch.look()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with_credentials(monkeypatch)
    with fake_aws() as aws:
        yield Service(aws)


async def test_everything_is_asked_for_and_without_pages(service: Service) -> None:
    async with service.watched():
        pass
    asked = dict(service.aws.asked)["DiscoverInstances"]
    assert asked == {
        "NamespaceName": "streaming",
        "ServiceName": "replicas",
        "HealthStatus": "ALL",
        "MaxResults": 1000,
    }


async def test_while_nothing_changes_only_the_revision_is_asked_for_and_now_and_then_the_list(
    service: Service,
) -> None:
    service.has("10.0.0.1")
    async with service.watched() as watch:
        await service.for_seconds(60, watch)
    assert service.aws.count("DiscoverInstancesRevision") == 13
    assert service.aws.count("DiscoverInstances") == 3


@pytest.mark.parametrize("step", [1, -1], ids=["up", "down"])
async def test_a_revision_that_is_another_one_brings_the_list(service: Service, step: int) -> None:
    service.has("10.0.0.1")
    service.revision = 7
    async with service.watched() as watch:
        service.instances.append(instance("j", "10.0.0.2"))
        service.revision += step
        await service.for_seconds(5, watch)
    assert urls(service.registry) == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]


async def test_a_change_without_a_new_revision_is_seen_by_the_next_whole_list(service: Service) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        service.instances[1]["HealthStatus"] = "UNHEALTHY"
        await service.for_seconds(25, watch)
        assert not any(replica.leaving for replica in service.registry.all())
        await service.for_seconds(10, watch)
        assert [replica.leaving for replica in service.registry.all()] == [False, True]


async def test_an_empty_answer_once_changes_nothing(service: Service) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        before = [id(replica) for replica in service.registry.all()]
        service.has()
        await service.for_seconds(5, watch)
        service.has("10.0.0.1", "10.0.0.2")
        await service.for_seconds(120, watch)
        assert [id(replica) for replica in service.registry.all()] == before


async def test_an_empty_answer_that_stays_is_believed_in_the_end(service: Service) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        lease = service.registry.lease("http://10.0.0.1:8000")
        service.has()
        await service.for_seconds(60, watch)
        assert len(urls(service.registry)) == 2
        await service.for_seconds(10, watch)
        assert urls(service.registry) == []
        assert [replica.url for replica in service.registry.all()] == [lease.url], "it drains"
        lease.release()
        assert service.registry.all() == []


async def test_one_of_many_that_goes_is_gone_soon(service: Service) -> None:
    service.has("10.0.0.1", "10.0.0.2", "10.0.0.3")
    async with service.watched() as watch:
        service.has("10.0.0.1", "10.0.0.2")
        await service.for_seconds(15, watch)
        assert len(urls(service.registry)) == 2


@pytest.mark.parametrize("code", ["ThrottlingException", "RequestLimitExceeded"])
async def test_throttled_for_a_minute_changes_nothing_and_asks_less(
    service: Service, code: str, lines: Lines
) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        before = [id(replica) for replica in service.registry.all()]
        service.failure = Failure(code)
        asked = len(service.aws.asked)
        await service.for_seconds(60, watch)
        assert [id(replica) for replica in service.registry.all()] == before
        assert not any(replica.removed or replica.leaving for replica in service.registry.all())
        assert 3 <= len(service.aws.asked) - asked <= 6, "of twelve that were due"
        service.failure = None
        service.has("10.0.0.1", "10.0.0.2", "10.0.0.3")
        await service.for_seconds(65, watch)
        assert len(urls(service.registry)) == 3
    assert len(lines("discovery_failed")) == 1
    assert len(lines("discovery_answers_again")) == 1


@pytest.mark.parametrize(
    "failure",
    [
        Failure("InternalFailure", 500),
        Failure("ServiceUnavailable", 503),
        Failure("ServiceNotFound"),
        Failure("", 200),
    ],
)
async def test_a_wrong_answer_keeps_the_last_set(service: Service, failure: Failure) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        service.failure = failure
        await service.for_seconds(90, watch)
        assert len(urls(service.registry)) == 2


@pytest.mark.parametrize(
    "answer",
    [[], "text", {"InstancesRevision": 7, "Instances": [1, None, "x"]}],
    ids=["a list", "a text", "no instances"],
)
async def test_what_is_no_answer_of_aws_is_one_line_and_keeps_the_last_set(
    service: Service, lines: Lines, answer: Any
) -> None:
    service.has("10.0.0.1", "10.0.0.2")
    async with service.watched() as watch:
        for operation in ("DiscoverInstances", "DiscoverInstancesRevision"):
            service.aws.operations[operation] = lambda asked: answer
        await service.for_seconds(90, watch)
        assert len(urls(service.registry)) == 2
    (line,) = lines("discovery_failed")
    assert "Error" not in line
    assert "Traceback" not in line


def test_attributes_that_are_no_texts_spoil_nobody_elses() -> None:
    odd: list[dict[str, Any]] = [
        {"InstanceId": "a", "Attributes": {"AWS_INSTANCE_IPV4": 5, "port": 1.5, "primary": []}},
        {"InstanceId": "b", "Attributes": ["x"]},
        {"InstanceId": None, "Attributes": None},
    ]
    listing = listing_of([*odd, instance("c")], Defaults())
    assert [one.endpoint.url for one in listing.replicas] == ["http://10.0.0.1:8000"]
    assert len(listing.problems) == 3


async def test_missing_credentials_are_told_once_and_looked_for_again(
    service: Service, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    without_credentials(monkeypatch)
    service.has("10.0.0.1")
    async with service.watched() as watch:
        await service.for_seconds(60, watch)
        assert service.aws.asked == []
        (line,) = lines("discovery_failed")
        assert "there are no usable AWS credentials" in line
        with_credentials(monkeypatch)
        service.failure = Failure("AccessDeniedException", message="User is not authorized")
        await service.for_seconds(15, watch)
        (_, other) = lines("discovery_failed")
        assert "need the permission" in other, "which is another thing to do about it"
        service.failure = None
        await service.for_seconds(5, watch)
        assert len(urls(service.registry)) == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("UnrecognizedClientException", "AWS refuses these credentials"),
        ("ExpiredTokenException", "AWS refuses these credentials"),
        ("AccessDeniedException", "need the permission servicediscovery:DiscoverInstancesRevision"),
    ],
)
async def test_refused_credentials_are_told_once_and_tried_again(
    service: Service, code: str, told: str, lines: Lines
) -> None:
    service.failure = Failure(code, message="User is not authorized")
    async with service.watched() as watch:
        await service.for_seconds(30, watch)
        (line,) = lines("discovery_failed")
        assert told in line
        service.failure = None
        service.has("10.0.0.1")
        await service.for_seconds(5, watch)
        assert len(urls(service.registry)) == 1


async def test_a_region_that_nobody_names_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_credentials(monkeypatch)
    async with AwsClient(SERVICE, AwsPlace()) as client:
        with pytest.raises(SourceUnavailable, match=r"set discovery\.region or AWS_REGION"):
            await CloudMapSource(client, NAMED, PACE).listing()


async def test_a_server_that_hangs_ends_by_its_timeout_and_delays_no_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_credentials(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = AwsPlace(REGION, f"http://127.0.0.1:{mute.getsockname()[1]}", timeout_seconds=0.2)
        async with AwsClient(SERVICE, place) as client:
            asking = asyncio.create_task(CloudMapSource(client, NAMED, PACE).listing())
            await asyncio.sleep(0)
            assert not asking.done()
            with pytest.raises(SourceUnavailable, match="DiscoverInstances failed: Read timeout"):
                await asking


async def test_nothing_that_listens_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with_credentials(monkeypatch)
    async with source_at("http://127.0.0.1:1") as source:
        with pytest.raises(SourceUnavailable, match="Could not connect"):
            await source.listing()
