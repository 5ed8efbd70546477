"""The two sides that have to agree: what the gateway's code says, and a gateway as the template starts it."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from granian.cli import cli
from litestar.handlers import HTTPRouteHandler

from gateway import granian_host
from gateway.discovery import cloudmap, ecs
from gateway.fleet.redis_scripts import COMMANDS
from gateway.metrics import names
from gateway.metrics.emf import emf_line
from gateway.metrics.measuring import Counters, Moment, metrics_of
from gateway.replicas.model import Candidate
from gateway.routes.health import HealthController
from gateway.session import roster
from gateway.settings import Settings, load
from gateway.settings.fields import SECRETS
from gateway.settings.meeting import FleetSettings
from gateway.settings.sections import SessionSettings
from tests.support.cloudformation import Stack, template_at
from tests.support.processes import ROOT

SERVICE_TEMPLATE, DATA_TEMPLATE = ROOT / "infra" / "service.yaml", ROOT / "infra" / "data.yaml"

URL_SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:url-aaaaaa"
TOKENS_SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tokens-bbbbbb"
HELD = {
    URL_SECRET: "rediss://streamhold:secret@valkey.example.com:6379/0",
    TOKENS_SECRET: '["client-token"]',
}
"""What those secrets hold."""

NEEDED = {
    "VpcId": "vpc-0123456789abcdef0",
    "SubnetIds": "subnet-01234567,subnet-12345678",
    "LoadBalancerSubnetIds": "subnet-23456789,subnet-34567890",
    "ImageUri": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/streamhold:1",
}
CLOUDMAP = {**NEEDED, "CloudMapNamespace": "streaming", "CloudMapService": "replicas"}
REDIS = {"RedisUrlSecretArn": URL_SECRET, "RedisSecurityGroupId": "sg-0123456789abcdef0"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "cloudmap": CLOUDMAP,
    "ecs": {**NEEDED, "DiscoveryKind": "ecs", "ReplicaCluster": "gpus", "ReplicaService": "replicas"},
    "fleet": {**NEEDED, "DiscoveryKind": "fleet", **REDIS},
    "static": {**NEEDED, "DiscoveryKind": "static", "ReplicasJson": '[{"url": "http://10.0.0.1:8000"}]'},
}
"""The least that each kind of discovery needs."""
ALL_KINDS = {**CLOUDMAP, **REDIS, "ClientTokensSecretArn": TOKENS_SECRET}


def _granian_port() -> int:
    (option,) = [one for one in cli.params if one.name == "port"]
    assert isinstance(option.default, int)
    return option.default


def _path(handler: HTTPRouteHandler) -> str:
    (path,) = handler.paths
    return path


(_OWN,) = set(inspect.signature(HealthController.readyz.fn).parameters) & {"own"}
"""The query by which readiness looks at the gateway's own faults only."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the gateway's code says. A test changes a field to stand for code that has changed."""

    port: int = field(default_factory=_granian_port)
    """Where `granian gateway.app:app` listens."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Laid over the template's: stands for defaults that have become others."""
    farewell_seconds: float = roster.FAREWELL_SECONDS + granian_host.STOP_SECONDS
    """After the drain's deadline, until the process has ended."""
    live_path: str = field(default_factory=lambda: _path(HealthController.healthz))
    own_path: str = field(default_factory=lambda: f"{_path(HealthController.readyz)}?{_OWN}=1")
    session_paths: tuple[str, ...] = SessionSettings().paths
    actions: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"cloudmap": cloudmap.ACTIONS, "ecs": ecs.ACTIONS}
    )
    """The calls that each kind of discovery makes."""
    utilisation: str = names.SESSION_UTILISATION
    healthy: str = names.HEALTHY_REPLICAS
    sleeping: str = names.SLEEPING_REPLICAS
    dimension: str = names.SERVICE
    fleet_namespace: str = FleetSettings().namespace
    secrets: tuple[tuple[str | int, ...], ...] = SECRETS
    """Settings that are secrets."""
    commands: tuple[str, ...] = COMMANDS
    """What it calls in Redis or Valkey."""


def service(template: Mapping[str, Any] | None = None, /, **given: str) -> Stack:
    """The service stack, by default with the parameters that Cloud Map needs."""
    return Stack(template or template_at(SERVICE_TEMPLATE), given or CLOUDMAP)


def data(template: Mapping[str, Any] | None = None) -> Stack:
    given = {"VpcId": "vpc-0123456789abcdef0", "SubnetIds": "subnet-01234567,subnet-12345678"}
    return Stack(template or template_at(DATA_TEMPLATE), given)


def container(stack: Stack) -> dict[str, Any]:
    """The gateway's container."""
    (found,) = stack.properties("TaskDefinition")["ContainerDefinitions"]
    return dict(found)


def environment(stack: Stack, gateway: Gateway | None = None) -> dict[str, str]:
    """The variables that the gateway's process sees, secrets included."""
    about = container(stack)
    plain = {one["Name"]: str(one["Value"]) for one in about["Environment"]}
    held = {one["Name"]: HELD[one["ValueFrom"]] for one in about["Secrets"]}
    assert not set(plain) & set(held)
    return {**plain, **held, **(gateway.environment if gateway else {})}


def settings(stack: Stack, gateway: Gateway | None = None) -> Settings:
    """What the gateway makes of these variables, where there is no gateway.yaml. Raises SettingsInvalid."""
    return _loaded(tuple(environment(stack, gateway).items()))


@cache
def _loaded(variables: tuple[tuple[str, str], ...]) -> Settings:
    with tempfile.TemporaryDirectory() as empty:
        return load(dict(variables), Path(empty))


def emitted(settings: Settings) -> dict[str, Any]:
    """A line of metrics as such a gateway writes it, with one replica."""
    seen = Candidate("http://10.0.0.1:8000", "a", False, 1.0, True, False, 0, 4)
    values = metrics_of(
        Moment([seen], 0, 0), before=Counters(), full_at_sessions=settings.admission.max_sessions
    )
    line: dict[str, Any] = json.loads(
        emf_line(values, namespace=settings.metrics.namespace, service=settings.metrics.service, at_ms=0)
    )
    return line
