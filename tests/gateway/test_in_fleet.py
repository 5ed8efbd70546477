"""Gateways as members of one fleet, in one process: what each tells, and what it makes of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from litestar.testing import AsyncTestClient

from emulator.farm import Farm
from gateway.errors import FleetUnavailable
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.store import Answer, Beat
from gateway.in_fleet import member_id
from gateway.settings import Settings
from gateway.settings.meeting import FleetSettings
from gateway.settings.sections import (
    AdmissionSettings,
    DrainSettings,
    HealthCheckSettings,
    ReplicaSettings,
    RouterSettings,
)
from gateway.wiring import Gateway
from tests.gateway.session.conftest import lines, tracebacks
from tests.support.waiting import eventually

__all__ = ["lines", "tracebacks"]

TTL_SECONDS = 2.0
Lines = Callable[[str], list[str]]


class Served:
    """A gateway whose lifespan runs."""

    def __init__(self, gateway: Gateway, client: AsyncTestClient[Any]) -> None:
        self.gateway, self.client = gateway, client

    async def ready(self) -> str:
        body = (await self.client.get("/readyz")).json()
        return str(body.get("reason", body["status"]))

    async def fleet(self) -> Any:
        return (await self.client.get("/status")).json()["fleet"]

    async def states(self) -> dict[str, str]:
        return {one["id"]: one["state"] for one in (await self.fleet())["members"]}

    async def until_states(self, **states: str) -> None:
        async def there() -> bool:
            return await self.states() == states

        await eventually(there, f"the members are {states}")


def settings(name: str, farm: Farm, *, capacity: int = 2, max_sessions: int = 100, **fleet: Any) -> Settings:
    replicas = tuple(
        ReplicaSettings(url=replica.url, name=each, max_sessions=capacity)
        for each, replica in farm.replicas.items()
    )
    return Settings(
        router=RouterSettings(replicas=replicas, health_check=HealthCheckSettings(interval_seconds=0.1)),
        admission=AdmissionSettings(max_sessions=max_sessions),
        drain=DrainSettings(timeout_seconds=0),
        fleet=FleetSettings(
            **{
                "backend": "memory",
                "ttl_seconds": TTL_SECONDS,
                "every_seconds": 0.2,
                "member_id": name,
                **fleet,
            }
        ),
    )


@asynccontextmanager
async def served(store: MemoryServer, told: Settings) -> AsyncIterator[Served]:
    gateway = Gateway(told)
    assert gateway.fleets is not None
    gateway.fleets.memory = store
    async with AsyncTestClient(gateway.app) as client:
        yield Served(gateway, client)


@pytest.fixture
def store() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(replicas=2) as farm:
        yield farm


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How the store takes a beat: `failing` says why it does not."""
    told: dict[str, Any] = {"failing": None}
    beat = MemoryFleetStore.beat

    async def told_beat(store: MemoryFleetStore, said: Beat) -> Answer:
        if told["failing"] is not None:
            raise told["failing"]
        return await beat(store, said)

    monkeypatch.setattr(MemoryFleetStore, "beat", told_beat)
    return told


async def test_gateways_see_each_other_from_their_start_to_their_end(
    store: MemoryServer, farm: Farm, lines: Lines
) -> None:
    async with served(store, settings("x", farm)) as x:
        await x.until_states(x="serving")
        async with served(store, settings("y", farm)) as y:
            await y.until_states(x="serving", y="serving")
            await x.until_states(x="serving", y="serving")
            seen = await x.fleet()
            assert (seen["name"], seen["member"], seen["failing"]) == ("gateways", "x", None)
            assert seen["hash"] == (await y.fleet())["hash"]
            assert 0 <= seen["age_seconds"] < 60
            assert [one["load"] for one in seen["members"]] == [0, 0]
            assert all(one["since"] <= seen["at"] for one in seen["members"])
            await y.gateway.drain()
            await x.until_states(x="serving", y="draining")
        await x.until_states(x="serving")
    assert len(lines("fleet_joined")) == len(lines("fleet_left")) == 2


async def test_one_that_lingers_is_seen_draining_after_its_end(store: MemoryServer, farm: Farm) -> None:
    async with served(store, settings("x", farm)) as x:
        async with served(store, settings("y", farm, on_stop="linger", linger_for_seconds=60)) as y:
            await y.until_states(x="serving", y="serving")
        await x.until_states(x="serving", y="draining")


async def test_a_first_beat_without_an_answer_stops_the_start(
    store: MemoryServer, farm: Farm, beats: dict[str, Any]
) -> None:
    beats["failing"] = FleetUnavailable("connection refused")
    gateway = Gateway(settings("x", farm))
    with pytest.RaisesGroup(FleetUnavailable, flatten_subgroups=True):
        async with AsyncTestClient(gateway.app):
            pass
    assert gateway.refusal == "the fleet at fleet.url cannot be joined: connection refused"


@pytest.mark.parametrize("failing", [FleetUnavailable("connection refused"), ZeroDivisionError("a defect")])
async def test_later_beats_that_fail_touch_neither_readiness_nor_sessions(
    store: MemoryServer, farm: Farm, beats: dict[str, Any], lines: Lines, failing: Exception
) -> None:
    async with served(store, settings("x", farm)) as x:
        await x.until_states(x="serving")
        lease = x.gateway.admission.place()
        beats["failing"] = failing

        async def failed() -> bool:
            return bool((await x.fleet())["failed_beats"] >= 3)

        await eventually(failed, "beats fail")
        seen = await x.fleet()
        assert "connection refused" in seen["failing"] or "a defect" in seen["failing"]
        assert [one["id"] for one in seen["members"]] == ["x"]
        assert await x.ready() == "ready"
        assert (await x.client.get("/status")).json()["sessions"] == 1
        beats["failing"] = None

        async def again() -> bool:
            return (await x.fleet())["failing"] is None

        await eventually(again, "beats are answered again")
        assert len(lines("fleet_beat_failed")) == len(lines("fleet_beats_again")) == 1
        lease.release()  # type: ignore[union-attr]


async def test_sessions_that_do_not_fit_into_the_report_are_told_of_once(
    store: MemoryServer, farm: Farm, lines: Lines
) -> None:
    told = settings("x", farm, report_max_bytes=256)
    many = tuple(ReplicaSettings(url=f"http://replica-{number}.invalid:8000") for number in range(20))
    told = told.model_copy(update={"router": told.router.model_copy(update={"replicas": many})})
    async with served(store, told) as x:
        for replica in x.gateway.registry.all():
            x.gateway.registry.lease(replica.url)

        async def told_load() -> bool:
            (member,) = (await x.fleet())["members"]
            return bool(member["load"] == 20)

        await eventually(told_load, "the load is told, whatever does not fit")
        (line,) = lines("fleet_report_full")
        assert "left_out=13" in line
        assert "fleet.report_max_bytes" in line


@pytest.mark.parametrize(("worker", "name"), [(1, "a"), (2, "a:2"), (3, "a:3")])
def test_each_worker_of_a_named_gateway_is_a_member_of_its_own(worker: int, name: str) -> None:
    assert member_id("a", worker) == name


async def test_without_a_fleet_there_is_none_to_show(farm: Farm) -> None:
    alone = settings("x", farm).model_copy(update={"fleet": FleetSettings()})
    async with AsyncTestClient(Gateway(alone).app) as client:
        assert (await client.get("/status")).json()["fleet"] is None
