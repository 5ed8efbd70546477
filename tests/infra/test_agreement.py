"""Ports, paths, users, times and limits are the same in every file, and those of the gateway; changed on one
side, they are not.
"""

from __future__ import annotations

import pytest

from tests.infra.agreement import Sides, disagreements, texts

DOCKERFILE, COMPOSE, KUBERNETES, SERVICE = (
    "infra/Dockerfile",
    "infra/compose.yaml",
    "infra/kubernetes/gateway.yaml",
    "infra/service.yaml",
)

ONE_SIDED = [
    (DOCKERFILE, "GRANIAN_PORT=8000", "GRANIAN_PORT=8001", "port: "),
    (DOCKERFILE, "EXPOSE 8000", "EXPOSE 9000", "port: "),
    (DOCKERFILE, "EXPOSE 9101 9102", "EXPOSE 9101", "ports of the emulator"),
    (DOCKERFILE, "'127.0.0.1', 9190", "'127.0.0.1', 9191", "port of the control API"),
    (DOCKERFILE, "USER 10001:10001", "USER 10002:10002", "user: "),
    (DOCKERFILE, "'/healthz'", "'/health'", "route of life"),
    (DOCKERFILE, "import http.client as h, os;", "import urllib.request, os;", "command of the health check"),
    (DOCKERFILE, "--interval=10s", "--interval=30s", "interval of the health check"),
    (DOCKERFILE, "--retries=3", "--retries=1", "retries of the health check"),
    (DOCKERFILE, "WORKDIR /etc/streamhold", "WORKDIR /etc/gateway", "folder of gateway.yaml"),
    (COMPOSE, "GATEWAY_HOST_PORT:-8000}:8000", "GATEWAY_HOST_PORT:-8000}:9000", "port: "),
    (COMPOSE, "CONTROL_HOST_PORT:-9190}:9190", "CONTROL_HOST_PORT:-9190}:9180", "port of the control API"),
    (COMPOSE, "stop_grace_period: 45s", "stop_grace_period: 30s", "stop: compose gives 30 s"),
    (
        COMPOSE,
        "GATEWAY_FLEET__BACKEND: redis",
        'GATEWAY_FLEET__BACKEND: redis\n      GATEWAY_DRAIN__TIMEOUT_SECONDS: "90"',
        "stop: compose",
    ),
    (COMPOSE, "target: emulator", "target: gateway", "compose builds gateway as emulator"),
    (COMPOSE, "image: streamhold-gateway", "image: gateway", "image: "),
    (COMPOSE, "valkey/valkey:9-alpine", "valkey/valkey:8-alpine", "Valkey: "),
    (KUBERNETES, "containerPort: 8000", "containerPort: 8080", "port: "),
    (KUBERNETES, "port: 8000, targetPort", "port: 80, targetPort", "port: "),
    (KUBERNETES, "targetPort: http", "targetPort: web", "name of the port"),
    (
        KUBERNETES,
        "httpGet: {path: /healthz, port: http}",
        "httpGet: {path: /healthz, port: web}",
        "name of the port",
    ),
    (KUBERNETES, "runAsUser: 10001", "runAsUser: 1000", "user: "),
    (KUBERNETES, "httpGet: {path: /healthz,", "httpGet: {path: /health,", "route of life"),
    (KUBERNETES, "/readyz?own=1", "/readyz", "route of readiness"),
    (
        KUBERNETES,
        "terminationGracePeriodSeconds: 130",
        "terminationGracePeriodSeconds: 110",
        "stop: kubernetes",
    ),
    (
        KUBERNETES,
        "terminationGracePeriodSeconds: 130",
        "terminationGracePeriodSeconds: 300",
        "stop after SIGTERM",
    ),
    (KUBERNETES, "sleep: {seconds: 10}", "sleep: {seconds: 60}", "stop: kubernetes gives 70 s"),
    (KUBERNETES, "sleep: {seconds: 10}", "sleep: {seconds: 2}", "preStop: 2 s"),
    (KUBERNETES, "timeout_seconds: 90", "timeout_seconds: 105", "drain.timeout_seconds"),
    (KUBERNETES, "timeout_seconds: 90", "timeout_seconds: 105", "stop: task gives 120 s"),
    (KUBERNETES, "spread_seconds: 10", "spread_seconds: 5", "drain.spread_seconds"),
    (KUBERNETES, "max_sessions: 1000", "max_sessions: 500", "admission.max_sessions"),
    (KUBERNETES, "gateway:0.1.0", "gateway:0.0.9", "version: "),
    (KUBERNETES, "mountPath: /etc/streamhold", "mountPath: /config", "folder of gateway.yaml"),
    (SERVICE, "ContainerPort: 8000, Protocol", "ContainerPort: 9000, Protocol", "port: "),
    (SERVICE, '{Name: GRANIAN_PORT, Value: "8000"}', '{Name: GRANIAN_PORT, Value: "9000"}', "port: "),
    (SERVICE, "HealthCheckPath: /readyz?own=1", "HealthCheckPath: /readyz", "route of readiness"),
    (SERVICE, "'/healthz'", "'/livez'", "route of life"),
    (SERVICE, "              - -I\n", "", "command of the health check"),
    (SERVICE, "timeout=2", "timeout=4", "command of the health check"),
    (SERVICE, "              - CMD\n", "              - CMD-SHELL\n", "form of the health check"),
    (SERVICE, "            Interval: 10\n", "            Interval: 30\n", "interval of the health check"),
    (SERVICE, "            Retries: 3\n", "            Retries: 2\n", "retries of the health check"),
    (SERVICE, "StopTimeout: 120", "StopTimeout: 100", "stop after SIGTERM"),
    (SERVICE, 'TIMEOUT_SECONDS, Value: "90"', 'TIMEOUT_SECONDS, Value: "60"', "drain.timeout_seconds"),
    (SERVICE, 'SPREAD_SECONDS, Value: "10"', 'SPREAD_SECONDS, Value: "2"', "drain.spread_seconds"),
    (SERVICE, 'User: "10001:10001"', 'User: "0:0"', "user: "),
]


def test_all_files_say_the_same_as_the_gateway() -> None:
    assert disagreements(Sides.of(texts())) == []


@pytest.mark.parametrize(("file", "said", "changed", "told"), ONE_SIDED)
def test_a_change_of_one_side_is_told(file: str, said: str, changed: str, told: str) -> None:
    given = texts()
    assert said in given[file], "what is changed here stands there no more"
    given[file] = given[file].replace(said, changed)
    assert [sentence for sentence in disagreements(Sides.of(given)) if sentence.startswith(told)]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("STOP_SECONDS", 30.0, "stop: "),
        ("FAREWELL_SECONDS", 30.0, "stop: "),
        ("DEFAULT_CONTROL_PORT", 9999, "port of the control API"),
        ("DEFAULT_PORT", 9201, "ports of the emulator"),
        ("GRANIAN_PORT", 9000, "port: "),
    ],
)
def test_a_change_of_the_code_alone_is_told(
    name: str, value: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tests.infra.agreement.{name}", value)
    assert [sentence for sentence in disagreements(Sides.of(texts())) if sentence.startswith(told)]
