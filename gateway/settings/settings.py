"""The whole configuration as one frozen value, and the rules that every such value keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Self

from pydantic import ValidationInfo, model_validator

from gateway.replicas.model import RouterConfig
from gateway.settings.rules import (
    Broken,
    broken_router_rules,
    broken_runtime_rules,
    broken_session_rules,
)
from gateway.settings.sections import (
    AdminSettings,
    AdmissionSettings,
    AffinitySettings,
    ClientsSettings,
    DiscoverySettings,
    DrainSettings,
    FleetSettings,
    HealthCheckSettings,
    ReplicaSettings,
    RouterSettings,
    RuntimeSettings,
    Section,
    SelectionSettings,
    SessionSettings,
)
from gateway.settings.tree import Path, dotted

WITHOUT_RULES = {"rules": False}
"""Validation context under which only types and bounds are checked."""


class Settings(Section):
    """Everything that can be set. Made by `load`, by `for_router`, or from its sections; each way keeps the
    rules.
    """

    router: RouterSettings = RouterSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    session: SessionSettings = SessionSettings()
    selection: SelectionSettings = SelectionSettings()
    affinity: AffinitySettings = AffinitySettings()
    admission: AdmissionSettings = AdmissionSettings()
    drain: DrainSettings = DrainSettings()
    fleet: FleetSettings = FleetSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    admin: AdminSettings = AdminSettings()
    clients: ClientsSettings = ClientsSettings()

    @model_validator(mode="after")
    def _keep_the_rules(self, info: ValidationInfo) -> Self:
        if info.context != WITHOUT_RULES and (broken := list(broken_rules(self))):
            raise ValueError("\n".join(f"{dotted(path)}: {message}" for path, message in broken))
        return self

    @classmethod
    def for_router(cls, config: RouterConfig) -> Settings:
        """The settings of a `RouterConfig`, with the defaults for the rest. Reads no file and no
        environment.
        """
        replicas = tuple(
            ReplicaSettings(
                url=endpoint.url,
                name=endpoint.name,
                primary=endpoint.primary,
                weight=endpoint.weight,
                max_sessions=endpoint.max_sessions,
            )
            for endpoint in config.replicas
        )
        health_check = HealthCheckSettings(
            path=config.health_check_path,
            interval_seconds=config.health_check_interval_seconds,
            timeout_seconds=config.health_check_timeout_seconds,
            failure_threshold=config.failure_threshold,
            recovery_threshold=config.recovery_threshold,
        )
        router = RouterSettings(
            host=config.host, port=config.port, replicas=replicas, health_check=health_check
        )
        return cls(router=router)


def broken_rules(settings: Settings, failed: Collection[Path] = ()) -> Iterator[Broken]:
    """Every rule that `settings` break, but for those about settings in `failed`."""
    yield from broken_router_rules(settings.router, failed)
    yield from broken_session_rules(settings.session, failed)
    yield from broken_runtime_rules(settings.runtime, settings.fleet, failed)
