from __future__ import annotations

import inspect
import subprocess
import sys

import httpx
import pytest

import gateway
from gateway import (
    ReplicaEndpoint,
    ReplicaRegistry,
    RouterConfig,
    build_router_app,
    run_health_check_loop,
    run_router,
)

PUBLIC = {
    "FleetMember",
    "FleetSpec",
    "FleetView",
    "HttpProbe",
    "RedisFleetConfig",
    "Replica",
    "ReplicaEndpoint",
    "ReplicaHealth",
    "ReplicaRegistry",
    "ReplicaStatus",
    "RouterConfig",
    "build_router_app",
    "fleet_membership_lifecycle_step",
    "instance_id",
    "run_health_check_loop",
    "run_router",
}
STAR_IMPORT = """
import sys, threading
before = set(sys.modules)
from gateway import *
names = sorted(name for name in dir() if name not in ("before", "sys", "threading") and name[0] != "_")
print(",".join(names))
print(",".join(sorted({module.split(".")[0] for module in set(sys.modules) - before})))
print(threading.active_count())
"""


def test_star_import_gives_the_public_names_and_starts_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STAR_IMPORT], capture_output=True, text=True, timeout=50, check=True
    )
    names, modules, threads = done.stdout.splitlines()
    assert set(names.split(",")) == PUBLIC
    assert not {"granian", "litestar", "picows", "pydantic", "redis", "yaml"} & set(modules.split(","))
    assert threads == "1"
    assert done.stderr == ""


def test_every_public_name_is_there_and_listed() -> None:
    assert set(gateway.__all__) == PUBLIC
    assert set(dir(gateway)) >= PUBLIC
    for name in gateway.__all__:
        assert getattr(gateway, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(gateway, "no_such_name")  # noqa: B009 - a type checker would refuse the attribute


@pytest.mark.parametrize(
    ("called", "parameters"),
    [
        (build_router_app, "(config, *, registry)"),
        (run_router, "(config)"),
        (run_health_check_loop, "(registry, config, *, stop_event, http_get)"),
        (ReplicaRegistry.record_success, "(self, replica, *, recovery_threshold, latency_ms)"),
        (ReplicaRegistry.record_failure, "(self, replica, *, failure_threshold, reason)"),
    ],
)
def test_signatures_are_those_promised(called: object, parameters: str) -> None:
    signature = inspect.signature(called)  # type: ignore[arg-type]
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    assert str(inspect.Signature(bare)) == parameters


async def test_a_router_app_is_an_asgi_app_that_a_client_can_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ROUTER__REPLICAS", "not read")
    config = RouterConfig(replicas=[ReplicaEndpoint("http://127.0.0.1:9", primary=True)])
    registry = ReplicaRegistry([ReplicaEndpoint("http://other:8000")])
    for app, url in (
        (build_router_app(config), "http://127.0.0.1:9"),
        (build_router_app(config, registry=registry), "http://other:8000"),
    ):
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # httpx wants plain mappings
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            body = (await client.get("/status")).json()
            assert [(replica["url"], replica["status"]) for replica in body["replicas"]] == [(url, "unknown")]
            assert (await client.get("/readyz")).status_code == 503
