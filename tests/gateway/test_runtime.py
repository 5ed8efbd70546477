"""Runtime modes, as tables: what each host's variables mean, what wins, and what is refused."""

from __future__ import annotations

import pytest

from gateway.errors import RuntimeRefused
from gateway.runtime import (
    ConfiguredMode,
    LongRunningStep,
    Resolved,
    RuntimeMode,
    detect,
    refuse_unsupported,
    resolve,
)

STEPS = (LongRunningStep.HEALTH_LOOP, LongRunningStep.WEBSOCKET_BRIDGE)

REFUSED = [
    {"AWS_LAMBDA_FUNCTION_NAME": "f"},
    {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001"},
    {"AWS_EXECUTION_ENV": "AWS_Lambda_python3.12"},
    {"FUNCTION_TARGET": "main"},
    {"CLOUD_RUN_JOB": "job"},
    {"GAE_ENV": "standard"},
    {"FUNCTIONS_WORKER_RUNTIME": "python"},
    {"AzureWebJobsScriptRoot": "/home/site/wwwroot"},
    {"CONTAINER_APP_JOB_NAME": "job"},
    {"VERCEL": "1"},
    {"K_SERVICE": "gateway"},
    # Azure Functions runs on the same platform as web apps and sets the variables of both.
    {"WEBSITE_SITE_NAME": "app", "FUNCTIONS_WORKER_RUNTIME": "python"},
    # A serverless sign is not outweighed by signs of hosts that run long.
    {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "AWS_LAMBDA_FUNCTION_NAME": "f"},
    {"GAE_ENV": "standard", "GAE_SERVICE": "default"},
]

DOUBTFUL = [
    {"K_SERVICE": "gateway", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    {"CLOUD_RUN_WORKER_POOL": "pool"},
    {"CONTAINER_APP_NAME": "app"},
    {"FLY_MACHINE_ID": "m"},
    {"MODAL_TASK_ID": "t"},
    {"GAE_SERVICE": "default"},
]

ALLOWED = [
    {},
    {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x"},
    {"AWS_EXECUTION_ENV": "AWS_ECS_FARGATE"},
    {"AWS_EXECUTION_ENV": "AWS_ECS_EC2", "ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x"},
    {"WEBSITE_SITE_NAME": "app"},
    {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    {"GAE_ENV": "flex"},
    {"VERCEL": "0"},
    {"AWS_LAMBDA_FUNCTION_NAME": "", "K_SERVICE": ""},
]


def named(environ: dict[str, str]) -> str:
    return "+".join(f"{name}={value}" for name, value in environ.items()) or "nothing"


@pytest.mark.parametrize("environ", REFUSED, ids=named)
def test_a_serverless_host_is_detected_and_names_its_sign(environ: dict[str, str]) -> None:
    detection = detect(environ)
    assert detection.mode is RuntimeMode.SERVERLESS
    assert detection.evidence is not None
    assert any(name in detection.evidence for name in environ)
    assert detection.warnings == ()


@pytest.mark.parametrize("environ", DOUBTFUL, ids=named)
def test_a_doubtful_host_runs_with_a_warning_that_names_its_sign(environ: dict[str, str]) -> None:
    detection = detect(environ)
    assert detection.mode is RuntimeMode.SINGLE_PROCESS
    assert len(detection.warnings) == 1
    assert next(iter(environ)) in detection.warnings[0]
    assert resolve("auto", environ, fleet_backend="none").warnings == detection.warnings


@pytest.mark.parametrize("environ", ALLOWED, ids=named)
def test_a_long_running_host_runs_without_a_word(environ: dict[str, str]) -> None:
    assert detect(environ).mode is RuntimeMode.SINGLE_PROCESS
    assert detect(environ).warnings == ()


@pytest.mark.parametrize(
    ("configured", "environ", "backend", "mode"),
    [
        ("auto", {}, "none", RuntimeMode.SINGLE_PROCESS),
        ("auto", {}, "redis", RuntimeMode.FLEET),
        ("auto", {"VERCEL": "1"}, "none", RuntimeMode.SERVERLESS),
        ("auto", {"VERCEL": "1"}, "redis", RuntimeMode.SERVERLESS),
        ("single_process", {}, "none", RuntimeMode.SINGLE_PROCESS),
        ("fleet", {}, "redis", RuntimeMode.FLEET),
        # One who names a mode has answered the doubt.
        ("single_process", {"FLY_MACHINE_ID": "m"}, "none", RuntimeMode.SINGLE_PROCESS),
    ],
)
def test_modes_that_hold_without_a_warning(
    configured: ConfiguredMode, environ: dict[str, str], backend: str, mode: RuntimeMode
) -> None:
    resolved = resolve(configured, environ, fleet_backend=backend)
    assert (resolved.mode, resolved.warnings) == (mode, ())


@pytest.mark.parametrize(
    ("configured", "environ", "backend", "told"),
    [
        ("single_process", {"AWS_LAMBDA_FUNCTION_NAME": "f"}, "none", "AWS_LAMBDA_FUNCTION_NAME"),
        ("fleet", {"K_SERVICE": "s"}, "redis", "K_SERVICE"),
        ("serverless", {}, "none", "nothing here looks serverless"),
        ("single_process", {}, "redis", "fleet.backend"),
        ("single_process", {"VERCEL": "1"}, "redis", "VERCEL"),
    ],
)
def test_an_explicit_mode_wins_with_one_warning(
    configured: ConfiguredMode, environ: dict[str, str], backend: str, told: str
) -> None:
    resolved = resolve(configured, environ, fleet_backend=backend)
    assert resolved.mode == configured
    assert len(resolved.warnings) == 1
    assert told in resolved.warnings[0]


def test_the_refusal_is_one_line_with_the_mode_the_evidence_and_the_steps() -> None:
    resolved = resolve("auto", {"AWS_LAMBDA_FUNCTION_NAME": "f"}, fleet_backend="none")
    with pytest.raises(RuntimeRefused) as refused:
        refuse_unsupported(resolved, [*STEPS, LongRunningStep.FLEET_MEMBERSHIP])
    line = str(refused.value)
    for part in (
        "serverless",
        "AWS_LAMBDA_FUNCTION_NAME",
        "health loop",
        "WebSocket bridge",
        "fleet membership",
    ):
        assert part in line
    assert "\n" not in line


def test_a_bare_mode_can_be_refused_too() -> None:
    with pytest.raises(RuntimeRefused, match=r"serverless cannot run: health loop, WebSocket bridge\."):
        refuse_unsupported(RuntimeMode.SERVERLESS, STEPS)


@pytest.mark.parametrize("mode", [RuntimeMode.SINGLE_PROCESS, RuntimeMode.FLEET])
def test_other_modes_refuse_nothing(mode: RuntimeMode) -> None:
    refuse_unsupported(mode, STEPS)
    refuse_unsupported(Resolved(mode), STEPS)


def test_serverless_without_long_running_steps_is_not_refused() -> None:
    refuse_unsupported(RuntimeMode.SERVERLESS, [])
