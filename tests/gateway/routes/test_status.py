from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway import ReplicaEndpoint, ReplicaRegistry, RouterConfig, build_router_app
from gateway.replicas.outlier import OutlierPolicy
from tests.support.manual_clock import ManualClock

A = ReplicaEndpoint("http://a:8000/", "a", primary=True, weight=2.0, max_sessions=4)
B = ReplicaEndpoint("http://b:8000")
C = ReplicaEndpoint("http://c:8000")


@pytest.fixture
def registry() -> ReplicaRegistry:
    return ReplicaRegistry([A, B], clock=ManualClock(epoch=1_000.0))


@pytest.fixture
async def client(registry: ReplicaRegistry) -> AsyncIterator[httpx.AsyncClient]:
    """The whole app, without its lifespan: nothing probes."""
    app = build_router_app(RouterConfig(replicas=[A, B]), registry=registry)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # httpx wants plain mappings
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


async def test_status_lists_replicas_as_unknown_before_the_first_round(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/status")
    assert response.status_code == 200
    body = response.json()
    assert [replica["status"] for replica in body["replicas"]] == ["unknown", "unknown"]
    assert body["replicas"][1] == {
        "url": "http://b:8000",
        "primary": False,
        "status": "unknown",
        "last_ok_at": None,
        "last_latency_ms": None,
        "consecutive_failures": 0,
        "name": "b:8000",
        "draining": False,
        "removed": False,
        "active_sessions": 0,
        "pending_sessions": 0,
        "elsewhere_sessions": 0,
        "reserved": 0,
        "max_sessions": None,
        "weight": 1.0,
        "refusing": False,
        "ejected": False,
        "ramp": 1.0,
        "cold_start": False,
        "sleeping": False,
    }
    assert (body["draining"], body["sessions"]) == (False, 0)


async def test_status_shows_what_the_registry_has(
    client: httpx.AsyncClient, registry: ReplicaRegistry
) -> None:
    a, b = registry.all()
    await registry.record_success(a, recovery_threshold=1, latency_ms=12.5)
    await registry.record_failure(b, failure_threshold=1, reason="down")
    registry.drain(B.url)
    registry.lease(A.url).opened()
    registry.lease(A.url)
    body = (await client.get("/status")).json()
    first, second = body["replicas"]
    assert (first["url"], first["status"], first["primary"]) == ("http://a:8000/", "healthy", True)
    assert (first["last_ok_at"], first["last_latency_ms"], first["weight"]) == (1000.0, 12.5, 2.0)
    assert (first["active_sessions"], first["pending_sessions"], first["max_sessions"]) == (1, 1, 4)
    assert (second["status"], second["consecutive_failures"], second["draining"]) == ("unhealthy", 1, True)
    assert body["sessions"] == 2


async def test_status_shows_who_is_left_out_for_a_while_and_who_starts_slowly() -> None:
    clock = ManualClock()
    registry = ReplicaRegistry(
        [A, B, C], clock=clock, slow_start_seconds=10.0, outlier=OutlierPolicy(consecutive_losses=1)
    )
    for replica in registry.all():
        registry.note_failure(replica, failure_threshold=1, reason="down")
        registry.note_success(replica, recovery_threshold=1, latency_ms=1.0)
    registry.mark_full(A.url, 2.0)
    registry.blame(B.url)
    clock.jump(1.5)
    app = build_router_app(RouterConfig(replicas=[A, B, C]), registry=registry)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # httpx wants plain mappings
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        replicas = (await client.get("/status")).json()["replicas"]
    assert [(one["refusing"], one["ejected"], one["ramp"]) for one in replicas] == [
        (True, False, 0.15),
        (False, True, 0.15),
        (False, False, 0.15),
    ]


async def test_replica_sessions_are_what_monitor_pages_poll(
    client: httpx.AsyncClient, registry: ReplicaRegistry
) -> None:
    await registry.record_success(registry.all()[0], recovery_threshold=1, latency_ms=1)
    registry.lease(A.url).opened()
    registry.lease(B.url)
    assert (await client.get("/router/replicas/sessions")).json() == {
        "replicas": [
            {
                "url": "http://a:8000/",
                "healthy": True,
                "active_sessions": 1,
                "pending_sessions": 0,
                "max_available_sessions": 4,
            },
            {
                "url": "http://b:8000",
                "healthy": False,
                "active_sessions": 0,
                "pending_sessions": 1,
                "max_available_sessions": 1000,
            },
        ]
    }


async def test_every_key_is_in_the_schema(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/schema/openapi.json")).json()
    assert {"/status", "/router/replicas/sessions", "/healthz", "/readyz"} <= set(schema["paths"])
    reports = schema["components"]["schemas"]
    replica = (await client.get("/status")).json()["replicas"][0]
    assert set(reports["ReplicaReport"]["properties"]) == set(replica)
    sessions = (await client.get("/router/replicas/sessions")).json()["replicas"][0]
    assert set(reports["ReplicaSessions"]["properties"]) == set(sessions)
