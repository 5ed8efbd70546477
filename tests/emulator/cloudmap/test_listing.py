"""Replicas in a Cloud Map of their own, as a gateway reads it: over HTTP, from moto."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from emulator.cloudmap.api import CloudMapUnavailable, Service
from emulator.cloudmap.entries import Instance, Notice
from emulator.cloudmap.listing import Listed, listed
from emulator.cloudmap.server import aws_on
from emulator.farm import Farm
from emulator.replica.port import bind
from emulator.replica.scaling import ScaleToZero
from gateway.discovery.attributes import Defaults
from gateway.discovery.aws import AwsClient, AwsPlace
from gateway.discovery.belief import Patience
from gateway.discovery.cloudmap import SERVICE, CloudMapService, CloudMapSource
from gateway.discovery.listing import Listing
from gateway.discovery.watch import Pace
from gateway.replicas.endpoint import ReplicaEndpoint
from tests.support.waiting import eventually

NEVER = Notice(after_seconds=3600)
AT_ONCE = Notice(after_seconds=0)
PACE = Pace(every_seconds=5, deadline_seconds=5, patience=Patience(10, 60))


class Onlooker:
    """What a gateway finds."""

    def __init__(self, source: CloudMapSource) -> None:
        self._source = source

    async def listing(self) -> Listing:
        return await self._source.listing()

    async def takers(self) -> Mapping[str, bool]:
        """Replica name to whether it takes sessions."""
        found = await self._source.listing()
        assert found.problems == ()
        return {one.endpoint.display_name: one.takes_sessions for one in found.replicas}

    async def until(self, **takers: bool) -> None:
        async def there() -> bool:
            return await self.takers() == takers

        await eventually(there, f"a gateway finds {takers}")


@pytest.fixture
def bound() -> socket.socket:
    return bind("127.0.0.1", 0)


@asynccontextmanager
async def seen(bound: socket.socket, farm: Farm, how: Listed | None = None) -> AsyncIterator[Onlooker]:
    with pytest.MonkeyPatch.context() as patch, bound, aws_on(bound) as url:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "t")
        async with AwsClient(SERVICE, AwsPlace("us-east-1", url)) as client:
            named = CloudMapService("streamhold", "replicas", Defaults())
            looking = Onlooker(CloudMapSource(client, named, PACE))
            async with Service(url, namespace="streamhold", service="replicas") as service:
                async with listed(farm, service, how or Listed(NEVER)):
                    yield looking
                assert await looking.takers() == {}


def told(farm: Farm, kind: str) -> list[tuple[str, str]]:
    return [(event.replica, event.detail["id"]) for event in farm.events().events if event.kind == kind]


async def test_replicas_that_run_are_found_with_what_they_are(bound: socket.socket) -> None:
    given = {"a": {"primary": "true"}, "*": {"weight": "2"}}
    farm = Farm(replicas=2, capacity=3, scale_to_zero={"b": ScaleToZero()})
    async with farm, seen(bound, farm, Listed(NEVER, given)) as gateway:
        found = [one.endpoint for one in (await gateway.listing()).replicas]
        a, b = (farm.replicas[name].url for name in "ab")
        assert found == [
            ReplicaEndpoint(a, "a", primary=True, weight=2.0, max_sessions=3),
            ReplicaEndpoint(b, "b", weight=2.0, max_sessions=3, cold_start=True),
        ]


async def test_a_killed_replica_stays_until_it_is_noticed_and_comes_back_as_another_instance(
    bound: socket.socket,
) -> None:
    async with Farm(replicas=2) as farm, seen(bound, farm, Listed(Notice(0.3))) as gateway:
        await farm.kill("a")
        await gateway.until(b=True)
        # The emulator tells of it once AWS has answered, which may be after the gateway has asked.
        await eventually(lambda: told(farm, "unlisted") == [("a", "a-1")], "the old instance goes")
        ended, gone = (
            next(event.at for event in farm.events().events if event.replica == "a" and event.kind == kind)
            for kind in ("port_closed", "unlisted")
        )
        assert gone - ended > 0.25
        await farm.restart("a")
        await gateway.until(a=True, b=True)
    assert told(farm, "listed") == [("a", "a-1"), ("b", "b-1"), ("a", "a-2")]
    assert sorted(told(farm, "unlisted")) == [("a", "a-1"), ("a", "a-2"), ("b", "b-1")]


async def test_one_that_is_back_before_that_is_never_missing(bound: socket.socket) -> None:
    async with Farm(replicas=1) as farm, seen(bound, farm) as gateway:
        await farm.restart("a")
        await eventually(lambda: told(farm, "unlisted") == [("a", "a-1")], "the old instance goes")
        assert told(farm, "listed") == [("a", "a-1"), ("a", "a-2")]
        assert await gateway.takers() == {"a": True}


async def test_a_silent_replica_may_be_unhealthy_instead(bound: socket.socket) -> None:
    how = Listed(Notice(0, "unhealthy"))
    async with Farm(replicas=2) as farm, seen(bound, farm, how) as gateway:
        await farm.pause("a")
        await gateway.until(a=False, b=True)
        await farm.resume("a")
        await gateway.until(a=True, b=True)
        await farm.kill("a")
        await gateway.until(a=False, b=True)
        await farm.restart("a")
        await gateway.until(a=True, b=True)
        await eventually(lambda: told(farm, "unlisted") == [("a", "a-1")], "the old instance goes")


async def test_replicas_that_join_are_replaced_and_removed_are_followed(bound: socket.socket) -> None:
    async with Farm(replicas=1) as farm, seen(bound, farm) as gateway:
        await farm.add("z", capacity=1)
        await gateway.until(a=True, z=True)
        await farm.remove("z")
        await gateway.until(a=True)
        await farm.replicas["a"].replace(away_seconds=3600)
        await gateway.until()
        await farm.restart("a")
        await gateway.until(a=True)


async def test_a_call_that_fails_is_told_of_once_and_tried_again(
    bound: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register, failures = Service.register, 2

    async def fail(service: Service, instance: Instance) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise CloudMapUnavailable("not now")
        await register(service, instance)

    async with Farm(replicas=1) as farm, seen(bound, farm, Listed(AT_ONCE)) as gateway:
        monkeypatch.setattr("emulator.cloudmap.listing.RETRY_SECONDS", 0.05)
        monkeypatch.setattr(Service, "register", fail)
        with caplog.at_level(logging.WARNING, "emulator"):
            await farm.restart("a")
            await eventually(lambda: told(farm, "listed")[-1] == ("a", "a-2"), "it is listed in the end")
        assert await gateway.takers() == {"a": True}
    assert [record.getMessage() for record in caplog.records] == [
        "Cloud Map cannot be told of the replicas: not now"
    ]


async def test_where_nothing_answers_it_does_not_begin() -> None:
    with bind("127.0.0.1", 0) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(CloudMapUnavailable, match="Could not connect"):
            async with Service(url, namespace="streamhold", service="replicas"):
                raise AssertionError("it began")


async def test_an_error_inside_is_not_taken_for_one_of_cloud_map(bound: socket.socket) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with Farm(replicas=1) as farm, seen(bound, farm):
            raise TimeoutError("something else")
    assert raised.group_contains(TimeoutError, match="something else")
