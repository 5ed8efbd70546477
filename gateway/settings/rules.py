"""PURE. What must hold for settings whose every field is well-formed: between fields, and in the model's
own rules.

A rule names the settings that it looks at, so that it can be left out when one of them has an error of its
own, and is applied in spite of errors anywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from gateway.replicas.model import HealthPolicy, replicas_problems
from gateway.settings.sections import (
    FleetSettings,
    HealthCheckSettings,
    RouterSettings,
    RuntimeSettings,
    SessionSettings,
)
from gateway.settings.tree import Path
from gateway.settings.words import STARTER

Broken = tuple[Path, str]
"""The setting to change, and what is wrong."""

_PRIVATE_URL = (
    "has a user name or a password (something before an @), which would be shown in logs and on /status; "
    "give scheme, host and port only"
)


def _failed(path: Path, failed: Collection[Path]) -> bool:
    return any(path[:length] in failed for length in range(1, len(path) + 1))


def broken_router_rules(router: RouterSettings, failed: Collection[Path] = ()) -> Iterator[Broken]:
    """What is wrong with the replicas, each by itself and together, and with the probe schedule."""
    yield from _schedule(router.health_check, failed)
    replicas: Path = ("router", "replicas")
    if _failed(replicas, failed):
        return
    if not router.replicas:
        yield replicas, f"no replica is configured; in gateway.yaml, these lines would do:\n{STARTER}"
    endpoints = router.endpoints()
    for index, endpoint in enumerate(endpoints):
        for field, message in endpoint.problems():
            # A password is never repeated, and a URL that is none gives no way to tell where it ends.
            private = field == "url" and "@" in endpoint.url
            yield (*replicas, index, field), _PRIVATE_URL if private else message
    for message in replicas_problems(endpoints):
        yield replicas, message


def _schedule(check: HealthCheckSettings, failed: Collection[Path]) -> Iterator[Broken]:
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


def broken_session_rules(session: SessionSettings, failed: Collection[Path] = ()) -> Iterator[Broken]:
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


def broken_runtime_rules(
    runtime: RuntimeSettings, fleet: FleetSettings, failed: Collection[Path] = ()
) -> Iterator[Broken]:
    """A fleet needs a place where its members meet."""
    mode: Path = ("runtime", "mode")
    if _failed(mode, failed) or _failed(("fleet", "backend"), failed):
        return
    if runtime.mode == "fleet" and fleet.backend == "none":
        yield (
            mode,
            "fleet needs a fleet.backend, and this version has none; set auto or single_process",
        )
