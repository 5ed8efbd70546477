"""A gateway that is told of no replica, in one process with those that announce themselves to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from litestar.testing import AsyncTestClient

from emulator.farm import Farm
from gateway.fleet.announce import Announcement, MemberState, announced
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import FleetStore
from gateway.settings import Settings
from gateway.settings.meeting import DiscoverySettings, FleetSettings
from gateway.settings.sections import HealthCheckSettings, RouterSettings
from gateway.wiring import Gateway
from tests.support.waiting import eventually

TTL_SECONDS = 1.0


def settings() -> Settings:
    return Settings(
        router=RouterSettings(health_check=HealthCheckSettings(interval_seconds=0.1)),
        fleet=FleetSettings(
            backend="memory", ttl_seconds=TTL_SECONDS, every_seconds=0.1, settle_seconds=TTL_SECONDS
        ),
        discovery=DiscoverySettings(kind="fleet"),
    )


class Served:
    def __init__(self, gateway: Gateway, client: AsyncTestClient, fleet: FleetStore) -> None:  # type: ignore[type-arg]
        self.gateway, self.client, self.fleet = gateway, client, fleet

    async def ready(self) -> str:
        body = (await self.client.get("/readyz")).json()
        return str(body.get("reason", body["status"]))

    async def until(self, ready: str, *usable: str) -> None:
        """Return once it is so ready, and these replicas can be given sessions."""

        async def there() -> bool:
            names = [one.name for one in self.gateway.registry.candidates() if one.usable]
            return names == list(usable) and await self.ready() == ready

        await eventually(there, f"{ready} with {usable}")


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncIterator[Served]:
    assert gateway.fleets is not None
    store = gateway.fleets.store(FleetSpec("replicas", timedelta(seconds=TTL_SECONDS)))
    async with AsyncTestClient(gateway.app) as client:
        yield Served(gateway, client, store)


async def test_it_begins_without_replicas_and_takes_those_that_announce_themselves() -> None:
    async with Farm(replicas=2) as farm, served(Gateway(settings())) as it:
        await it.until("no_replica_known")
        a, b = (Announcement(replica.url, name, 2) for name, replica in farm.replicas.items())
        async with announced(a, it.fleet):
            await it.until("ready", "a")
            async with announced(b, it.fleet):
                await it.until("ready", "a", "b")
            await it.until("ready", "a")
        await it.until("no_replica_known")


@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.DRAINING])
async def test_one_that_does_not_serve_is_probed_and_gets_no_session(state: MemberState) -> None:
    says = state
    async with Farm(replicas=1) as farm, served(Gateway(settings())) as it:
        async with announced(Announcement(farm.replicas["a"].url, "a"), it.fleet, state=lambda: says):

            def probed() -> bool:
                return any(one.healthy and one.draining for one in it.gateway.registry.candidates())

            await eventually(probed, "it is known and healthy")
            await it.until("no_healthy_replica")
            says = MemberState.SERVING
            await it.until("ready", "a")


async def test_the_first_probe_round_is_of_those_that_are_announced_already() -> None:
    gateway = Gateway(settings())
    assert gateway.fleets is not None
    store = gateway.fleets.store(FleetSpec("replicas", timedelta(seconds=60)))
    async with Farm(replicas=1) as farm:
        async with announced(Announcement(farm.replicas["a"].url, "a"), store, every=timedelta(seconds=9)):

            async def serving() -> bool:
                return len((await store.view()).serving()) == 1

            await eventually(serving, "it serves")
            async with served(gateway):
                await eventually(gateway.monitor.first_round_done.is_set, "the first round is done")
                assert [one.usable for one in gateway.registry.candidates()] == [True]


async def test_a_limit_that_is_announced_is_kept_and_may_change() -> None:
    async with Farm(replicas=1) as farm, served(Gateway(settings())) as it:
        url = farm.replicas["a"].url
        for capacity in (2, 5):
            async with announced(Announcement(url, "a", capacity), it.fleet):

                def limited(capacity: int = capacity) -> bool:
                    return [one.max_sessions for one in it.gateway.registry.candidates()] == [capacity]

                await eventually(limited, f"its limit is {capacity}")
        async with announced(Announcement(url, "a", 0), it.fleet):
            await it.until("no_healthy_replica")


async def test_without_discovery_nothing_is_watched() -> None:
    configured = Settings(router=RouterSettings.model_validate({"replicas": [{"url": "http://127.0.0.1:9"}]}))
    gateway = Gateway(configured)
    assert (gateway.fleets, gateway.watch) == (None, None)
