from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from litestar import Litestar
from litestar.di import Provide
from litestar.testing import AsyncTestClient

from gateway.replicas.config import HealthPolicy
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.registry import ReplicaRegistry
from gateway.routes.health import HealthController
from tests.support.waiting import eventually

A, B = ReplicaEndpoint("http://a:8000", "a"), ReplicaEndpoint("http://b:8000", "b", max_sessions=1)


@dataclass
class Draining:
    draining: bool = False


@dataclass
class Joining:
    joining: bool = True


class Served:
    """The health routes over a registry whose probes answer as `reasons` says."""

    def __init__(self) -> None:
        self.registry = ReplicaRegistry([A, B])
        self.readiness = Draining()
        self.fleet: Joining | None = None
        self.answers = asyncio.Event()
        self.monitor = HealthMonitor(self.registry, HealthPolicy(timeout_seconds=60), self._probe)
        app = Litestar(
            [HealthController],
            dependencies={
                "registry": Provide(lambda: self.registry, sync_to_thread=False),
                "monitor": Provide(lambda: self.monitor, sync_to_thread=False),
                "readiness": Provide(lambda: self.readiness, sync_to_thread=False),
                "fleet": Provide(lambda: self.fleet, sync_to_thread=False),
            },
            logging_config=None,
        )
        self.client = AsyncTestClient(app)

    async def _probe(self, url: str, *, timeout: float) -> tuple[float, str | None]:
        await self.answers.wait()
        return 1.0, None if "b:" in url else "down"

    async def ready(self, query: str = "") -> tuple[int, str]:
        response = await self.client.get(f"/readyz{query}")
        assert response.headers["cache-control"] == "no-store"
        body = response.json()
        return response.status_code, body.get("reason", body["status"])


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    async with served.client, asyncio.TaskGroup() as tasks:
        run = tasks.create_task(served.monitor.run())
        await eventually(lambda: served.monitor.running, "the monitor runs")
        yield served
        run.cancel()


async def first_round(served: Served) -> None:
    served.answers.set()
    await asyncio.wait_for(served.monitor.first_round_done.wait(), 20)


async def test_healthz_answers_whatever_else_is_wrong(served: Served) -> None:
    served.readiness.draining = True
    response = await served.client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_ready_once_the_first_round_is_done_and_a_replica_is_healthy(served: Served) -> None:
    assert await served.ready() == (503, "first_probe_round")
    await first_round(served)
    assert await served.ready() == (200, "ready")


async def test_a_full_replica_is_ready_a_draining_one_is_not(served: Served) -> None:
    await first_round(served)
    with served.registry.lease(B.url):
        assert await served.ready() == (200, "ready")
    served.registry.drain(B.url)
    assert await served.ready() == (503, "no_healthy_replica")


async def test_draining_is_not_ready(served: Served) -> None:
    await first_round(served)
    served.readiness.draining = True
    assert await served.ready() == (503, "draining")
    assert await served.ready("?own=1") == (503, "draining")


async def test_one_that_the_fleet_does_not_know_to_serve_is_not_ready(served: Served) -> None:
    served.fleet = Joining()
    assert await served.ready() == (503, "first_probe_round")
    await first_round(served)
    assert await served.ready() == (503, "joining_fleet")
    assert await served.ready("?own=1") == (503, "joining_fleet")
    served.fleet.joining = False
    assert await served.ready() == (200, "ready")


@pytest.mark.parametrize("query", ["?own=1", "?own=true"])
async def test_own_faults_leave_the_replicas_out(served: Served, query: str) -> None:
    assert await served.ready(query) == (503, "first_probe_round")
    await first_round(served)
    served.registry.drain(B.url)
    assert await served.ready(query) == (200, "ready")
    assert await served.ready("?own=0") == (503, "no_healthy_replica")


async def test_a_gateway_whose_health_loop_does_not_run_is_not_ready() -> None:
    served = Served()
    async with served.client:
        assert await served.ready("?own=1") == (503, "monitor_not_running")
        response = await served.client.get("/readyz")
        assert response.json() == {
            "status": "not_ready",
            "reason": "monitor_not_running",
            "message": "the health loop is not running",
        }


async def test_both_answers_of_readyz_are_in_the_schema(served: Served) -> None:
    schema = (await served.client.get("/schema/openapi.json")).json()
    assert set(schema["paths"]) == {"/healthz", "/readyz"}
    assert {"200", "503"} <= set(schema["paths"]["/readyz"]["get"]["responses"])
    assert {"Alive", "Ready", "NotReady"} <= set(schema["components"]["schemas"])


async def test_without_any_replica_it_is_told_that_none_is_known_and_the_gateway_itself_is_fine(
    served: Served,
) -> None:
    served.answers.set()
    await eventually(served.monitor.first_round_done.is_set, "the first round is done")
    served.registry.reconcile([])
    assert await served.ready() == (503, "no_replica_known")
    assert await served.ready("?own=1") == (200, "ready")
    served.registry.reconcile([B])
    assert await served.ready() == (503, "no_healthy_replica")


async def test_a_replica_that_sleeps_is_there_for_whoever_needs_it(served: Served) -> None:
    await first_round(served)
    served.registry.reconcile([ReplicaEndpoint("http://c:8000", "c", cold_start=True)])
    assert await served.ready() == (200, "ready")
    served.registry.drain("http://c:8000")
    assert await served.ready() == (503, "no_healthy_replica")
