"""PURE. Which runtime mode holds, and what a mode refuses.

A gateway lives long: it probes on a schedule and keeps sockets open for hours. A serverless host stops the
process between requests, so there the gateway refuses to start rather than look alive and lose sessions.
The host is told by the variables that it sets. Ambiguous hosts run with a warning, and an explicit mode
wins over what was detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, assert_never

from gateway.errors import RuntimeRefused

ConfiguredMode = Literal["auto", "single_process", "fleet", "serverless"]
"""What `runtime.mode` may say."""


class RuntimeMode(StrEnum):
    """How this process runs."""

    SINGLE_PROCESS = "single_process"
    """One long-running process that knows of no other gateway."""
    FLEET = "fleet"
    """A long-running process among others, which it meets through `fleet.backend`."""
    SERVERLESS = "serverless"
    """A process that the host may freeze or end between requests; the gateway does not run there."""


class LongRunningStep(StrEnum):
    """What only works in a process that keeps running."""

    HEALTH_LOOP = "health loop"
    WEBSOCKET_BRIDGE = "WebSocket bridge"
    FLEET_MEMBERSHIP = "fleet membership"


@dataclass(frozen=True, slots=True)
class Detection:
    """What the environment says of the host."""

    mode: RuntimeMode
    """`SERVERLESS`, or `SINGLE_PROCESS` for a host that keeps the process running. A host cannot tell of a
    fleet.
    """
    evidence: str | None = None
    """The variable that gave a serverless host away, with the host's name; None for any other host."""
    warnings: tuple[str, ...] = ()
    """One for each sign of a host that runs long only when it is set up so."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The mode that holds, after configuration and detection."""

    mode: RuntimeMode
    warnings: tuple[str, ...] = ()
    reason: str = ""
    """Why this mode, in the reader's words: the setting or the variable that decided."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """One variable, or a value of it, that identifies a host."""

    variable: str
    host: str
    matches: Callable[[str], bool] = bool
    """Whether the variable's value is the sign; any value but the empty one by default."""
    shown: str = "is set"
    unless: str | None = None
    """Another variable whose presence takes the sign away."""

    def found_in(self, environ: Mapping[str, str]) -> bool:
        if self.unless is not None and environ.get(self.unless):
            return False
        return self.matches(environ.get(self.variable, ""))

    def __str__(self) -> str:
        return f"{self.variable} {self.shown}: {self.host}"


def _is(value: str) -> Callable[[str], bool]:
    return lambda found: found == value


# The order is that of telling: the first sign found is the evidence in the refusal.
_SERVERLESS = (
    _Sign("AWS_LAMBDA_FUNCTION_NAME", "AWS Lambda"),
    _Sign("AWS_LAMBDA_RUNTIME_API", "AWS Lambda"),
    _Sign(
        "AWS_EXECUTION_ENV",
        "AWS Lambda",
        lambda value: value.startswith("AWS_Lambda_"),
        "starts with AWS_Lambda_",
    ),
    _Sign("FUNCTION_TARGET", "Google Cloud Functions"),
    _Sign("CLOUD_RUN_JOB", "a Google Cloud Run job"),
    _Sign("GAE_ENV", "Google App Engine's standard environment", _is("standard"), "is standard"),
    _Sign("FUNCTIONS_WORKER_RUNTIME", "Azure Functions"),
    _Sign("AzureWebJobsScriptRoot", "Azure Functions"),
    _Sign("CONTAINER_APP_JOB_NAME", "an Azure Container Apps job"),
    _Sign("VERCEL", "Vercel", _is("1"), "is 1"),
    _Sign(
        "K_SERVICE",
        "a Google Cloud Run service, whose CPU stops between requests unless it is always allocated",
        unless="KUBERNETES_SERVICE_HOST",
    ),
)

_DOUBTFUL = (
    _Sign("K_SERVICE", "Knative, which may scale this pod to zero while no request is open"),
    _Sign("CLOUD_RUN_WORKER_POOL", "a Google Cloud Run worker pool, which takes no requests from outside"),
    _Sign(
        "CONTAINER_APP_NAME",
        "Azure Container Apps, which may scale to zero: set its minimum of replicas to 1",
    ),
    _Sign("FLY_MACHINE_ID", "a Fly machine, which may be stopped when idle: switch its auto-stop off"),
    _Sign("MODAL_TASK_ID", "a Modal container, which is stopped when idle"),
    _Sign("GAE_SERVICE", "Google App Engine, whose flexible environment restarts machines weekly"),
)


def detect(environ: Mapping[str, str]) -> Detection:
    """What kind of host the variables of `environ` name; without a sign, one that keeps the process running.

    A serverless sign settles it; the doubtful ones are looked at only without it. Amazon ECS, Kubernetes by
    itself and an Azure web app (`WEBSITE_SITE_NAME` by itself) need no sign: they run long.
    """
    for sign in _SERVERLESS:
        if sign.found_in(environ):
            return Detection(RuntimeMode.SERVERLESS, str(sign))
    doubts = tuple(
        f"this host may stop the process ({sign}); with it go the health checks and every open session. "
        "Set runtime.mode: single_process once it is known to keep running"
        for sign in _DOUBTFUL
        if sign.found_in(environ)
    )
    return Detection(RuntimeMode.SINGLE_PROCESS, None, doubts)


def resolve(configured: ConfiguredMode, environ: Mapping[str, str], *, fleet_backend: str) -> Resolved:
    """The mode that holds, with a warning where the configured one and the host (or `fleet.backend`)
    disagree.

    `auto` is serverless where the host is, else fleet with a backend, else single_process. `fleet` without
    a backend is not refused here: that is a rule of the settings.
    """
    detection = detect(environ)
    has_backend = fleet_backend != "none"
    match configured:
        case "auto":
            if detection.mode is RuntimeMode.SERVERLESS:
                return Resolved(RuntimeMode.SERVERLESS, reason=detection.evidence or "")
            if has_backend:
                return Resolved(RuntimeMode.FLEET, detection.warnings, f"fleet.backend is {fleet_backend}")
            return Resolved(RuntimeMode.SINGLE_PROCESS, detection.warnings, "nothing here looks serverless")
        case "single_process" | "fleet" | "serverless":
            mode = RuntimeMode(configured)
        case _:
            assert_never(configured)
    return Resolved(mode, _disagreement(mode, detection, has_backend), f"runtime.mode is {configured}")


def _disagreement(mode: RuntimeMode, detection: Detection, has_backend: bool) -> tuple[str, ...]:
    """At most one warning. A doubtful host gives none: who names a mode has answered the doubt."""
    set_so = f"runtime.mode is {mode}"
    if mode is not RuntimeMode.SERVERLESS and detection.mode is RuntimeMode.SERVERLESS:
        return (
            f"{set_so} and wins, although the host looks serverless ({detection.evidence}): "
            "while it is frozen, no replica is probed and no session moves",
        )
    if mode is RuntimeMode.SERVERLESS and detection.mode is not RuntimeMode.SERVERLESS:
        return (f"{set_so} and wins, although nothing here looks serverless",)
    if mode is RuntimeMode.SINGLE_PROCESS and has_backend:
        return (f"{set_so} and wins, so fleet.backend is not used: this gateway joins no fleet",)
    return ()


def refuse_unsupported(mode: RuntimeMode | Resolved, steps: Iterable[LongRunningStep]) -> None:
    """Return when `mode` can run every step, which any mode but serverless can.

    Raises RuntimeRefused with one line that names the mode, why it holds (given a `Resolved`), and each step.
    """
    resolved = mode if isinstance(mode, Resolved) else Resolved(mode)
    wanted = tuple(dict.fromkeys(steps))
    if resolved.mode is not RuntimeMode.SERVERLESS or not wanted:
        return
    because = f" ({resolved.reason})" if resolved.reason else ""
    raise RuntimeRefused(
        f"runtime mode {resolved.mode}{because} cannot run: {', '.join(wanted)}. They need a process that "
        "keeps running: deploy on a long-running host, or set runtime.mode: single_process if this one is"
    )
