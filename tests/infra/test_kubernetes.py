"""The manifest: the form that Kubernetes wants, and what a gateway under it needs. No cluster is here."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from gateway.settings import resolve_runtime
from infra.locked import ROOT
from tests.infra.agreement import Sides, kubernetes_environment, settings_from, texts

PATH = ROOT / "infra" / "kubernetes" / "gateway.yaml"
TEXT = PATH.read_text()
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(TEXT))
SIDES = Sides.of(texts())
OLDEST = "1.30"

FROM_KUBERNETES = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "GATEWAY_SERVICE_HOST": "10.96.7.7",
    "GATEWAY_SERVICE_PORT": "8000",
    "GATEWAY_SERVICE_PORT_HTTP": "8000",
    "GATEWAY_PORT": "tcp://10.96.7.7:8000",
    "GATEWAY_PORT_8000_TCP": "tcp://10.96.7.7:8000",
    "GATEWAY_PORT_8000_TCP_PROTO": "tcp",
    "GATEWAY_PORT_8000_TCP_PORT": "8000",
    "GATEWAY_PORT_8000_TCP_ADDR": "10.96.7.7",
}
"""What a pod gets for a Service called gateway, with service links on."""


@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_kubernetes_takes_it(document: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(document, release, strict=True)


def test_a_misspelt_field_is_found() -> None:
    (deployment,) = [
        document
        for document in yaml.safe_load_all(TEXT.replace("preStop:", "prestop:"))
        if document["kind"] == "Deployment"
    ]
    with pytest.raises(kubernetes_validate.ValidationError, match="prestop"):
        kubernetes_validate.validate(deployment, OLDEST, strict=True)


def test_the_releases_that_it_speaks_of_are_those_that_know_all_its_fields() -> None:
    assert f"Kubernetes {OLDEST} or newer" in TEXT
    (deployment,) = [document for document in DOCUMENTS if document["kind"] == "Deployment"]
    with pytest.raises(kubernetes_validate.ValidationError, match="sleep"):
        kubernetes_validate.validate(deployment, "1.28", strict=True)


@pytest.mark.parametrize("links", [{}, FROM_KUBERNETES], ids=["as it stands", "with service links"])
def test_the_gateway_takes_its_settings_as_they_stand(links: dict[str, str]) -> None:
    environment = kubernetes_environment(SIDES) | links
    settings = settings_from(SIDES.kubernetes["ConfigMap"]["data"]["gateway.yaml"], environment)
    assert settings.discovery.kind == "fleet"
    assert settings.clients.tokens
    host = environment | {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    assert resolve_runtime(settings, host).mode == "fleet"


def test_the_secret_without_tokens_of_clients_will_do() -> None:
    (tokens,) = [each for each in SIDES.container["env"] if each["name"] == "GATEWAY_CLIENTS__TOKENS"]
    assert tokens["valueFrom"]["secretKeyRef"]["optional"] is True
    environment = kubernetes_environment(SIDES)
    del environment["GATEWAY_CLIENTS__TOKENS"]
    assert not settings_from(
        SIDES.kubernetes["ConfigMap"]["data"]["gateway.yaml"], environment
    ).clients.tokens


def test_secrets_stand_nowhere_in_it() -> None:
    assert "Secret" not in [document["kind"] for document in DOCUMENTS]
    for each in SIDES.container["env"]:
        assert set(each) == {"name", "valueFrom"}, "plain settings are in the ConfigMap"
    config = yaml.safe_load(SIDES.kubernetes["ConfigMap"]["data"]["gateway.yaml"])
    assert "url" not in config["fleet"]
    assert "clients" not in config


def test_the_command_in_its_head_makes_the_secret_that_it_reads() -> None:
    (name, keys) = re.findall(r"kubectl create secret generic (\w+) --from-literal=([\w-]+)=", TEXT)[0]
    required = {
        (reference["name"], reference["key"])
        for each in SIDES.container["env"]
        if not (reference := each["valueFrom"]["secretKeyRef"]).get("optional")
    }
    assert required == {(name, keys)}


def test_all_parts_find_one_another() -> None:
    labels = SIDES.kubernetes["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        SIDES.kubernetes["Deployment"]["spec"]["selector"]["matchLabels"],
        SIDES.kubernetes["Service"]["spec"]["selector"],
        SIDES.kubernetes["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        SIDES.pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()
    (volume,) = SIDES.pod["volumes"]
    (mount,) = SIDES.container["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == SIDES.kubernetes["ConfigMap"]["metadata"]["name"]
    assert SIDES.pod["serviceAccountName"] == SIDES.kubernetes["ServiceAccount"]["metadata"]["name"]


def test_a_rollout_and_a_node_that_is_drained_take_away_no_capacity_at_once() -> None:
    rolling = SIDES.kubernetes["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}
    assert SIDES.kubernetes["Deployment"]["spec"]["replicas"] >= 2
    assert SIDES.kubernetes["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_it_can_do_no_more_than_it_needs() -> None:
    assert SIDES.pod["automountServiceAccountToken"] is False
    assert SIDES.pod["securityContext"]["runAsNonRoot"] is True
    assert SIDES.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = SIDES.container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(SIDES.pod)


def test_a_slow_start_is_no_reason_to_be_restarted() -> None:
    startup, liveness = SIDES.container["startupProbe"], SIDES.container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60
    for kind in ("startup", "liveness", "readiness"):
        assert SIDES.container[f"{kind}Probe"]["timeoutSeconds"] <= 5


def test_memory_is_bounded_and_the_cpu_is_not() -> None:
    resources = SIDES.container["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}
