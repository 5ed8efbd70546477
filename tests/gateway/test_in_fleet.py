"""Gateways as members of one fleet, in one process: what each tells, and what it makes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from typing import Any

import pytest
from litestar.testing import AsyncTestClient

from emulator.farm import Farm
from gateway.errors import FleetUnavailable
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.store import Answer, Beat
from gateway.in_fleet import member_id
from gateway.quotas import GatewayFull
from gateway.replicas.lease import Lease
from gateway.replicas.model import Elsewhere
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
            schemas = (await x.client.get("/schema/openapi.json")).json()["components"]["schemas"]
            assert set(schemas["FleetReport"]["properties"]) == set(seen)
            assert set(schemas["FleetMemberReport"]["properties"]) == set(seen["members"][0])
            await y.gateway.drain()
            await x.until_states(x="serving", y="draining")
        await x.until_states(x="serving")
    assert len(lines("fleet_joined")) == len(lines("fleet_left")) == 2


@pytest.mark.parametrize(("shed", "movable"), [(True, 0), (False, None)])
async def test_only_who_sheds_says_how_many_could_go(
    store: MemoryServer, farm: Farm, shed: bool, movable: int | None
) -> None:
    async with served(store, settings("x", farm, shed=shed)) as x:
        await x.until_states(x="serving")
        assert [one["movable"] for one in (await x.fleet())["members"]] == [movable]
        assert (x.gateway.shedder is not None) is shed


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


def held(*leases: object) -> list[str]:
    """Where these leases are; what is none says why."""
    return [lease.replica.name if isinstance(lease, Lease) else type(lease).__name__ for lease in leases]


async def until_elsewhere(served: Served, *counts: int) -> None:
    """Return once the gateway knows of so many sessions of others on its replicas."""

    def known() -> bool:
        return [one.elsewhere.sessions for one in served.gateway.registry.all()] == list(counts)

    await eventually(known, f"it knows of {counts}")


async def until_share(served: Served, share: int) -> None:
    await eventually(lambda: served.gateway.admission.max_sessions == share, f"the share is {share}")


async def test_the_places_of_a_replica_are_for_all_gateways(store: MemoryServer, farm: Farm) -> None:
    async with served(store, settings("x", farm)) as x:
        async with served(store, settings("y", farm)) as y:
            await y.until_states(x="serving", y="serving")
            await eventually(lambda: all(one.usable for one in y.gateway.registry.candidates()), "healthy")
            of_x = [x.gateway.admission.place() for _ in range(3)]
            assert held(*of_x) == ["a", "a", "b"]
            await until_elsewhere(y, 2, 1)
            of_y = [y.gateway.admission.place() for _ in range(2)]
            assert held(*of_y) == ["b", "AllFull"]
            shown = (await y.client.get("/status")).json()["replicas"]
            assert [one["elsewhere_sessions"] for one in shown] == [2, 1]
            await until_elsewhere(x, 0, 1)
            assert held(x.gateway.admission.place()) == ["AllFull"]
            of_x[0].release()  # type: ignore[union-attr]
            await until_elsewhere(y, 1, 1)
            assert held(y.gateway.admission.place()) == ["a"]


async def test_a_client_that_waits_gets_the_place_of_a_gateway_that_is_gone(
    store: MemoryServer, farm: Farm
) -> None:
    async with served(store, settings("x", farm, capacity=1)) as x:
        await x.until_states(x="serving")
        async with served(store, settings("y", farm, capacity=1)) as y:
            await y.until_states(x="serving", y="serving")
            await eventually(lambda: all(one.usable for one in y.gateway.registry.candidates()), "healthy")
            assert held(*(y.gateway.admission.place() for _ in range(2))) == ["a", "b"]
            await until_elsewhere(x, 1, 1)
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(x.gateway.admission.wait(on_position=lambda *_: None))
                await eventually(lambda: x.gateway.admission.waiting == 1, "it waits")

                async def told() -> bool:
                    return {one["id"]: one["waiting"] for one in (await y.fleet())["members"]} == {
                        "x": 1,
                        "y": 0,
                    }

                await eventually(told, "the other gateway knows that it waits")
                y.gateway.in_fleet.membership.abandon()  # type: ignore[union-attr]
            assert held(waiting.result()) == ["a"]


async def test_the_sessions_of_the_fleet_are_shared_out_among_those_that_serve(
    store: MemoryServer, farm: Farm
) -> None:
    async with served(store, settings("x", farm, max_sessions=5)) as x:
        await until_share(x, 5)
        async with served(store, settings("y", farm, max_sessions=5)) as y:
            await until_share(x, 3)
            await until_share(y, 2)
            assert (await y.fleet())["share"] == 2
            admission = y.gateway.admission
            with ExitStack() as there:
                for _ in range(2):
                    place = admission.client("c")
                    assert isinstance(place, AbstractContextManager)
                    there.enter_context(place)
                assert isinstance(admission.client("c"), GatewayFull)
                await x.gateway.drain()
                await until_share(y, 5)
                await until_share(x, 0)
                assert isinstance(admission.client("c"), AbstractContextManager)
        await until_share(x, 0)


async def test_a_gateway_without_a_share_says_so_once_and_stays_ready(
    store: MemoryServer, farm: Farm, lines: Lines
) -> None:
    async with served(store, settings("x", farm, max_sessions=1)) as x:
        await until_share(x, 1)
        async with served(store, settings("y", farm, max_sessions=1)) as y:
            await y.until_states(x="serving", y="serving")
            await eventually(lambda: lines("fleet_share_none") != [], "it is told")
            seen = (await y.fleet())["at"]

            async def has_seen_more() -> bool:
                return bool((await y.fleet())["at"] > seen)

            await eventually(has_seen_more, "another view")
            assert await y.ready() == "ready"
            assert isinstance(y.gateway.admission.client("c"), GatewayFull)
            await x.gateway.drain()
            await until_share(y, 1)
        assert len(lines("fleet_share_none")) == 1
        assert "max_sessions=1 gateways=2" in lines("fleet_share_none")[0]


async def test_a_gateway_takes_no_session_before_the_fleet_knows_that_it_serves(
    store: MemoryServer, farm: Farm, beats: dict[str, Any]
) -> None:
    async with served(store, settings("x", farm)) as x:
        beats["failing"] = FleetUnavailable("connection refused")
        await eventually(x.gateway.monitor.first_round_done.is_set, "the first round is done")
        assert await x.ready() == "joining_fleet"
        assert isinstance(x.gateway.admission.client("c"), GatewayFull)
        beats["failing"] = None

        async def ready() -> bool:
            return await x.ready() == "ready"

        await eventually(ready, "it is ready")
        assert isinstance(x.gateway.admission.client("c"), AbstractContextManager)


async def test_an_emptied_store_changes_neither_counts_nor_shares(store: MemoryServer, farm: Farm) -> None:
    async with served(store, settings("x", farm)) as x, served(store, settings("y", farm)) as y:
        await y.until_states(x="serving", y="serving")
        await eventually(lambda: all(one.usable for one in y.gateway.registry.candidates()), "healthy")
        assert held(*(x.gateway.admission.place() for _ in range(2))) == ["a", "a"]
        await until_elsewhere(y, 2, 0)
        seen: list[tuple[int, int | None]] = []

        def look(*_: object) -> None:
            (a, _b) = y.gateway.registry.all()
            seen.append((a.elsewhere.sessions, y.gateway.admission.max_sessions))

        membership = y.gateway.in_fleet.membership  # type: ignore[union-attr]
        assert membership is not None
        membership.subscribe(look)
        for _ in range(3):
            store.flush()
            seen_before = len(seen)

            def views_have_come(least: int = seen_before + 4) -> bool:
                return len(seen) >= least

            await eventually(views_have_come, "views have come")
        assert set(seen) == {(2, 50)}


async def test_while_the_store_is_away_no_place_is_left_to_others(
    store: MemoryServer, farm: Farm, beats: dict[str, Any]
) -> None:
    async with served(store, settings("x", farm)) as x:
        await x.until_states(x="serving")
        url = farm.replicas["a"].url
        beats["failing"] = FleetUnavailable("connection refused")
        x.gateway.registry.note_elsewhere({url: Elsewhere(1, 1)})
        (a, _) = x.gateway.registry.all()
        await eventually(lambda: a.elsewhere == Elsewhere(1, 0), "nothing is reserved any more")
        lease = x.gateway.admission.place()
        assert held(lease) == ["a"]


@pytest.mark.parametrize(("worker", "name"), [(1, "a"), (2, "a:2"), (3, "a:3")])
def test_each_worker_of_a_named_gateway_is_a_member_of_its_own(worker: int, name: str) -> None:
    assert member_id("a", worker) == name


async def test_without_a_fleet_there_is_none_to_show(farm: Farm) -> None:
    alone = settings("x", farm).model_copy(update={"fleet": FleetSettings()})
    async with AsyncTestClient(Gateway(alone).app) as client:
        assert (await client.get("/status")).json()["fleet"] is None
