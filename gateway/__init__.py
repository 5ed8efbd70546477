"""Streamhold's gateway. The names below are its public ones; each is imported when it is first asked for.

Importing this package, or everything from it, starts nothing and imports neither the web framework nor the
server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.fleet.instance import instance_id
    from gateway.fleet.member import FleetMember
    from gateway.fleet.redis_config import RedisFleetConfig
    from gateway.fleet.spec import FleetSpec
    from gateway.fleet.step import fleet_membership_lifecycle_step
    from gateway.fleet.view import FleetView
    from gateway.replicas.config import RouterConfig
    from gateway.replicas.endpoint import ReplicaEndpoint
    from gateway.replicas.model import Replica, ReplicaHealth, ReplicaStatus
    from gateway.replicas.monitor import run_health_check_loop
    from gateway.replicas.probes import HttpProbe
    from gateway.replicas.registry import ReplicaRegistry
    from gateway.router import build_router_app, run_router

__all__ = [
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
]

_HOMES = {
    "FleetMember": "gateway.fleet.member",
    "FleetSpec": "gateway.fleet.spec",
    "FleetView": "gateway.fleet.view",
    "RedisFleetConfig": "gateway.fleet.redis_config",
    "fleet_membership_lifecycle_step": "gateway.fleet.step",
    "instance_id": "gateway.fleet.instance",
    "HttpProbe": "gateway.replicas.probes",
    "Replica": "gateway.replicas.model",
    "ReplicaEndpoint": "gateway.replicas.endpoint",
    "ReplicaHealth": "gateway.replicas.model",
    "ReplicaRegistry": "gateway.replicas.registry",
    "ReplicaStatus": "gateway.replicas.model",
    "RouterConfig": "gateway.replicas.config",
    "build_router_app": "gateway.router",
    "run_health_check_loop": "gateway.replicas.monitor",
    "run_router": "gateway.router",
}


def __getattr__(name: str) -> object:
    if home := _HOMES.get(name):
        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
