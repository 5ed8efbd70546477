"""The compose file: its form, who waits for whom, who can be reached, and what the gateway makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import resolve_runtime
from infra.locked import ROOT
from tests.infra.agreement import settings_from
from tests.support.processes import BIN

PATH = ROOT / "infra" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(PATH.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def against_its_schema(path: Path) -> subprocess.CompletedProcess[str]:
    """By the schema of the Compose Specification, which the checker brings along."""
    return subprocess.run(
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_is_a_compose_file() -> None:
    done = against_its_schema(PATH)
    assert done.returncode == 0, done.stdout


def test_a_key_that_compose_does_not_know_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "compose.yaml"
    broken.write_text(PATH.read_text().replace("stop_grace_period", "stop_grace"))
    assert against_its_schema(broken).returncode == 1


def test_nothing_has_to_be_edited_or_brought_along() -> None:
    """No file of settings, no secret, no volume; a variable has a value of its own."""
    assert set(COMPOSE) == {"name", "services"}
    for service in SERVICES.values():
        assert not {"env_file", "secrets", "configs", "volumes"} & set(service)
    for variable in PATH.read_text().split("${")[1:]:
        assert ":-" in variable.partition("}")[0]


def test_what_it_builds_is_there() -> None:
    for name in ("gateway", "emulator"):
        build = SERVICES[name]["build"]
        context = (PATH.parent / build["context"]).resolve()
        assert context == ROOT
        assert (context / build["dockerfile"]).is_file()


def test_the_gateway_waits_for_the_fleets_server_and_for_replicas() -> None:
    healthy = {"condition": "service_healthy"}
    assert SERVICES["gateway"]["depends_on"] == {"valkey": healthy, "emulator": healthy}
    assert SERVICES["emulator"]["depends_on"] == {"valkey": healthy}
    # The images of the other two have a check of their own.
    assert SERVICES["valkey"]["healthcheck"]["test"] == ["CMD", "valkey-cli", "ping"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_to_this_machine_alone(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")
    assert "network_mode" not in SERVICES[name]


def test_the_fleets_server_is_published_to_nobody() -> None:
    assert "ports" not in SERVICES["valkey"]


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_can_do_more_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "pid", "ipc"} & set(service)


def test_every_image_has_a_version_or_is_built_here() -> None:
    for service in SERVICES.values():
        assert "build" in service or not service["image"].endswith((":latest", "valkey"))


def test_the_gateway_takes_its_settings_as_they_stand() -> None:
    environment = SERVICES["gateway"]["environment"]
    assert all(isinstance(value, str) for value in environment.values()), (
        "numbers in quotes: they are variables"
    )
    settings = settings_from(None, environment)
    assert settings.fleet.backend == "redis"
    assert settings.discovery.kind == "fleet"
    assert resolve_runtime(settings, environment).mode == "fleet"


def test_all_speak_of_one_fleet_server() -> None:
    url = SERVICES["gateway"]["environment"]["GATEWAY_FLEET__URL"]
    assert f"--announce={url}" in SERVICES["emulator"]["command"]
    assert url.startswith("redis://valkey:6379/")


def test_replicas_are_announced_under_the_name_of_their_service() -> None:
    assert "--announce-host=emulator" in SERVICES["emulator"]["command"]
    assert "--host=0.0.0.0" in SERVICES["emulator"]["command"]
