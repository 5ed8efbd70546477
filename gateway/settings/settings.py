"""The whole configuration as one frozen value: where it is read from, the rules that every such value keeps,
and how it is shown.

A rule between fields names the settings that it looks at, so that it can be left out when one of them has an
error of its own, and is applied in spite of errors anywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextvars import ContextVar
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Self

import yaml
from pydantic import BaseModel, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.affinity import Affinity
from gateway.logs import HIDDEN, hide_passwords
from gateway.replicas.config import HealthPolicy, RouterConfig
from gateway.replicas.endpoint import replicas_problems
from gateway.settings.meeting import DiscoverySettings, FleetSettings, fits_a_cluster
from gateway.settings.sections import (
    AdminSettings,
    AdmissionSettings,
    AffinitySettings,
    ClientsSettings,
    DrainSettings,
    HealthCheckSettings,
    MetricsSettings,
    OutlierSettings,
    ReplicaSettings,
    RouterSettings,
    RuntimeSettings,
    SelectionSettings,
    SessionSettings,
)
from gateway.settings.tree import Path, dotted
from gateway.settings.words import STARTER

Sources = tuple[PydanticBaseSettingsSource, ...]

_sources: ContextVar[Sources] = ContextVar("settings_sources", default=())


class Settings(BaseSettings):
    """Everything that can be set. Made from sources, from a `RouterConfig`, or by hand from its sections;
    each way keeps the rules.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    router: RouterSettings = RouterSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    session: SessionSettings = SessionSettings()
    selection: SelectionSettings = SelectionSettings()
    affinity: AffinitySettings = AffinitySettings()
    outlier: OutlierSettings = OutlierSettings()
    admission: AdmissionSettings = AdmissionSettings()
    drain: DrainSettings = DrainSettings()
    fleet: FleetSettings = FleetSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    metrics: MetricsSettings = MetricsSettings()
    admin: AdminSettings = AdminSettings()
    clients: ClientsSettings = ClientsSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> Sources:
        """What is given by hand, over the sources of `read_from`. None of the stock sources: they read this
        process's environment whatever is asked for, and cannot tell what came from where.
        """
        return (init_settings, *_sources.get())

    @classmethod
    def read_from(cls, *sources: PydanticBaseSettingsSource) -> Self:
        """The settings of `sources`, each laid over those after it: mappings are merged, anything else
        replaces what is below.

        Raises pydantic's ValidationError; `checking.check` finds what that leaves out.
        """
        token = _sources.set(sources)
        try:
            return cls()
        finally:
            _sources.reset(token)

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

    def placed_by(self) -> Affinity:
        """What keeps a client on one replica: `affinity.key`, and where the policy is `rendezvous`, which
        cannot do without, the client's address in place of `none`.
        """
        affinity = Affinity.parse(self.affinity.key)
        if affinity.kind == "none" and self.selection.policy == "rendezvous":
            return Affinity("client_ip")
        return affinity

    @property
    def joins_fleet(self) -> bool:
        """Whether this gateway is to be a member of a fleet; a mode that is named wins over the backend."""
        return self.fleet.backend != "none" and self.runtime.mode != "single_process"

    @model_validator(mode="after")
    def _keep_the_rules(self) -> Self:
        if broken := list(broken_rules(self)):
            raise ValueError("\n".join(f"{dotted(path)}: {message}" for path, message in broken))
        return self


Broken = tuple[Path, str]
"""The setting to change, and what is wrong."""

_PRIVATE_URL = (
    "has a user name or a password (something before an @), which would be shown in logs and on /status; "
    "give scheme, host and port only"
)


def broken_rules(settings: Settings, failed: Collection[Path] = ()) -> Iterator[Broken]:
    """Every rule that `settings` break, but for those about settings in `failed`."""
    yield from _schedule_rules(settings.router.health_check, failed)
    yield from _replica_rules(settings.router, settings.discovery, failed)
    yield from _session_rules(settings.session, failed)
    yield from _outlier_rules(settings.outlier, failed)
    yield from _runtime_rules(settings.runtime, settings.fleet, failed)
    yield from _fleet_rules(settings.fleet, failed)
    yield from _shedding_rules(settings.fleet, settings.session, failed)
    yield from _discovery_rules(settings.discovery, settings.fleet, failed)


def _failed(path: Path, failed: Collection[Path]) -> bool:
    return any(path[:length] in failed for length in range(1, len(path) + 1))


def _schedule_rules(check: HealthCheckSettings, failed: Collection[Path]) -> Iterator[Broken]:
    for field in HealthCheckSettings.model_fields:
        path: Path = ("router", "health_check", field)
        if _failed(path, failed):
            continue
        # The policy says what each of its fields may be; one field at a time tells which one is wrong.
        given: dict[str, Any] = {field: getattr(check, field)}
        try:
            HealthPolicy(**given)
        except ValueError as error:
            yield path, str(error)


def _replica_rules(
    router: RouterSettings, discovery: DiscoverySettings, failed: Collection[Path]
) -> Iterator[Broken]:
    replicas: Path = ("router", "replicas")
    if _failed(replicas, failed):
        return
    if not router.replicas and discovery.kind == "static" and not _failed(("discovery", "kind"), failed):
        yield replicas, f"no replica is configured; in gateway.yaml, these lines would do:\n{STARTER}"
    endpoints = router.endpoints()
    for index, endpoint in enumerate(endpoints):
        for field, message in endpoint.problems():
            # A password is never repeated, and a URL that is none gives no way to tell where it ends.
            private = field == "url" and "@" in endpoint.url
            yield (*replicas, index, field), _PRIVATE_URL if private else message
    for message in replicas_problems(endpoints):
        yield replicas, message


def _session_rules(session: SessionSettings, failed: Collection[Path]) -> Iterator[Broken]:
    """A ping that comes only after the idle timeout would never be sent."""
    ping: Path = ("session", "ping_interval_seconds")
    idle: Path = ("session", "idle_timeout_seconds")
    if _failed(ping, failed) or _failed(idle, failed):
        return
    every, until = session.ping_interval_seconds, session.idle_timeout_seconds
    if every < until:
        return
    if "ping_interval_seconds" in session.model_fields_set:
        yield ping, f"should be below session.idle_timeout_seconds ({until:g}), not {every:g}"
    else:
        yield idle, f"should be above session.ping_interval_seconds ({every:g}), not {until:g}"


def _outlier_rules(outlier: OutlierSettings, failed: Collection[Path]) -> Iterator[Broken]:
    """An ejection that is longer than the longest would never be."""
    base: Path = ("outlier", "base_seconds")
    longest: Path = ("outlier", "max_seconds")
    if _failed(base, failed) or _failed(longest, failed) or outlier.base_seconds <= outlier.max_seconds:
        return
    if "base_seconds" in outlier.model_fields_set:
        most = f"{outlier.max_seconds:g}"
        yield base, f"should be at most outlier.max_seconds ({most}), not {outlier.base_seconds:g}"
    else:
        least = f"{outlier.base_seconds:g}"
        yield longest, f"should be at least outlier.base_seconds ({least}), not {outlier.max_seconds:g}"


def _runtime_rules(
    runtime: RuntimeSettings, fleet: FleetSettings, failed: Collection[Path]
) -> Iterator[Broken]:
    """A fleet needs a place where its members meet."""
    mode: Path = ("runtime", "mode")
    if _failed(mode, failed) or _failed(("fleet", "backend"), failed):
        return
    if runtime.mode == "fleet" and fleet.backend == "none":
        yield mode, "fleet needs a fleet.backend: set redis with a fleet.url, or mode auto or single_process"


def _fleet_rules(fleet: FleetSettings, failed: Collection[Path]) -> Iterator[Broken]:
    """A backend needs its server and its library; a member may miss one beat and still be there."""
    backend: Path = ("fleet", "backend")
    url: Path = ("fleet", "url")
    if fleet.backend == "redis" and not _failed(backend, failed):
        if find_spec("redis") is None:
            yield backend, "redis needs a library that is not installed: pip install '.[fleet]' in a clone"
        if fleet.url is None and not _failed(url, failed):
            yield url, "is missing: fleet.backend redis needs the server's address, as in redis://HOST:6379/0"
        if fleet.cluster and fleet.url is not None and not fits_a_cluster(fleet.url):
            yield url, "has a database or a socket that no cluster has; redis://HOST:6379, or cluster false"
    every: Path = ("fleet", "every_seconds")
    ttl: Path = ("fleet", "ttl_seconds")
    if _failed(every, failed) or _failed(ttl, failed) or fleet.every_seconds * 2 < fleet.ttl_seconds:
        return
    if "every_seconds" in fleet.model_fields_set:
        half = f"half of fleet.ttl_seconds ({fleet.ttl_seconds:g})"
        yield every, f"should be below {half}, not {fleet.every_seconds:g}, so that one beat may fail"
    else:
        twice = f"twice fleet.every_seconds ({fleet.every_seconds:g})"
        yield ttl, f"should be above {twice}, not {fleet.ttl_seconds:g}, so that one beat may fail"


def _shedding_rules(
    fleet: FleetSettings, session: SessionSettings, failed: Collection[Path]
) -> Iterator[Broken]:
    """Sessions are handed back to a fleet, and only such as the gateway can follow."""
    shed: Path = ("fleet", "shed")
    if _failed(shed, failed) or not fleet.shed:
        return
    if fleet.backend == "none" and not _failed(("fleet", "backend"), failed):
        yield shed, "needs other gateways: set fleet.backend redis with a fleet.url, or shed false"
    if _failed(("session",), failed) or (session.protocol == "streaming" and session.resume):
        return
    yield (
        shed,
        "hands back only sessions that can resume: it needs session.protocol streaming and session.resume",
    )


def _discovery_rules(
    discovery: DiscoverySettings, fleet: FleetSettings, failed: Collection[Path]
) -> Iterator[Broken]:
    """Replicas announce themselves where the gateways meet, in a fleet of their own; in AWS they have a name,
    and whoever asks there needs a library.
    """
    kind: Path = ("discovery", "kind")
    name: Path = ("discovery", "name")
    if _failed(kind, failed):
        return
    if discovery.kind in ("cloudmap", "ecs"):
        yield from _aws_rules(discovery, failed)
    if discovery.kind != "fleet":
        return
    if fleet.backend == "none" and not _failed(("fleet", "backend"), failed):
        yield kind, "fleet needs a fleet.backend: set redis with a fleet.url, or kind static"
    if discovery.name == fleet.name and not (_failed(name, failed) or _failed(("fleet", "name"), failed)):
        yield name, f"{discovery.name!r} is the gateways' own fleet (fleet.name); choose another"


def _aws_rules(discovery: DiscoverySettings, failed: Collection[Path]) -> Iterator[Broken]:
    kind: Path = ("discovery", "kind")
    if find_spec("boto3") is None:
        needs = "needs a library that is not installed: pip install '.[aws]' in a clone"
        yield kind, f"{discovery.kind} {needs}"
    needed = ("namespace", "service") if discovery.kind == "cloudmap" else ("service",)
    for field in needed:
        if getattr(discovery, field) is None and not _failed(("discovery", field), failed):
            yield ("discovery", field), f"is missing: discovery.kind {discovery.kind} needs its name"
    full: Path = ("discovery", "full_interval_seconds")
    every: Path = ("discovery", "interval_seconds")
    if _failed(full, failed) or _failed(every, failed):
        return
    if discovery.full_interval_seconds < discovery.interval_seconds:
        least = f"discovery.interval_seconds ({discovery.interval_seconds:g})"
        yield full, f"should be at least {least}, not {discovery.full_interval_seconds:g}"


def masked(settings: Settings) -> str:
    """`settings` as the YAML that would set them, defaults included, with `***` for each secret."""
    plain = {name: _plain(getattr(settings, name)) for name in Settings.model_fields}
    filled = {name: section for name, section in plain.items() if section}
    return yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=100)


def _plain(value: object) -> object:
    match value:
        case SecretStr():
            return HIDDEN
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case IPv4Network() | IPv6Network():
            return str(value)
        case str():
            return hide_passwords(value)
        case _:
            return value
