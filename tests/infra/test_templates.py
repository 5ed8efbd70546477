"""The templates as they are: clean, and in agreement with the gateway's code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.reference import DOCS
from tests.infra import data_agreements, service_agreements
from tests.infra.deployed import (
    ALL_KINDS,
    CLOUDMAP,
    DATA_TEMPLATE,
    KINDS,
    NEEDED,
    SERVICE_TEMPLATE,
    Gateway,
    container,
    data,
    environment,
    service,
    settings,
)
from tests.infra.service_agreements import AGREEMENTS, Agreement
from tests.support.cloudformation import template_at
from tests.support.processes import BIN
from tests.support.redis_server import RedisServer


def test_cfn_lint_finds_nothing() -> None:
    command: list[Path | str] = [BIN / "cfn-lint", SERVICE_TEMPLATE, DATA_TEMPLATE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agreement", AGREEMENTS, ids=lambda one: one.__name__)
def test_template_and_code_agree(agreement: Agreement, kind: str) -> None:
    agreement(service(**KINDS[kind]), Gateway())


@pytest.mark.parametrize("agreement", AGREEMENTS, ids=lambda one: one.__name__)
def test_they_agree_with_every_secret_and_option(agreement: Agreement) -> None:
    options = {
        "CertificateArn": "arn:aws:acm:eu-central-1:123456789012:certificate/0",
        "OperatorCidr": "192.0.2.0/24",
        "ReplicaPort": "8000",
        "TrustedProxyCidrs": "10.0.0.0/24,10.0.1.0/24",
    }
    agreement(service(**ALL_KINDS, **options), Gateway())


def test_a_key_of_their_own_for_secrets_may_be_used_through_secrets_manager_alone() -> None:
    key = "arn:aws:kms:eu-central-1:123456789012:key/0"
    stack = service(**ALL_KINDS, SecretsKeyArn=key)
    service_agreements.execution_role(stack, Gateway())
    (policy,) = stack.properties("ExecutionRole")["Policies"]
    *_, decrypt = policy["PolicyDocument"]["Statement"]
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", key)
    assert decrypt["Condition"]["StringEquals"] == {
        "kms:ViaService": "secretsmanager.eu-central-1.amazonaws.com"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_discovery_is_what_the_gateway_is_set_to(kind: str) -> None:
    used = settings(service(**KINDS[kind])).discovery
    assert used.kind == kind
    if kind == "cloudmap":
        assert (used.namespace, used.service) == ("streaming", "replicas")
    if kind == "ecs":
        assert (used.cluster, used.service) == ("gpus", "replicas")


def test_what_is_given_reaches_the_settings() -> None:
    used = settings(
        service(**ALL_KINDS, MaxSessions="50", ReplicaPort="9000", TrustedProxyCidrs="10.0.0.0/24")
    )
    assert used.metrics.full_at_sessions == 50
    assert used.discovery.port == 9000
    assert [str(network) for network in used.clients.trusted_proxies] == ["10.0.0.0/24"]
    assert [token.get_secret_value() for token in used.clients.tokens] == ["client-token"]
    assert used.fleet.backend == "redis"


def test_session_paths_are_the_same_for_the_load_balancer_and_the_gateway() -> None:
    stack = service(**CLOUDMAP, SessionPaths="/video,/v2/stream")
    (condition,) = stack.properties("SessionRule")["Conditions"]
    assert settings(stack).session.paths == tuple(condition["PathPatternConfig"]["Values"])


def test_without_options_there_is_nothing_of_them() -> None:
    stack = service(**CLOUDMAP)
    assert container(stack)["Secrets"] == []
    assert not {"HttpsListener", "OperatorRule", "RedisIngress"} & set(stack.resources)
    assert "DesiredCount" not in stack.properties("Service")
    assert not [name for name in environment(stack) if name.startswith("GATEWAY_FLEET__")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"CloudMapNamespace": "streaming"}, "cloudmap needs CloudMapNamespace and CloudMapService"),
        ({"DiscoveryKind": "ecs"}, "ecs needs ReplicaService"),
        ({"DiscoveryKind": "static"}, "static needs ReplicasJson"),
        ({"DiscoveryKind": "fleet"}, "fleet needs RedisUrlSecretArn"),
    ],
)
def test_a_kind_without_what_it_needs_is_refused_before_anything_is_made(
    given: dict[str, str], said: str
) -> None:
    (refusal,) = service(**NEEDED, **given).refused()
    assert refusal.endswith(said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_with_what_it_needs_is_not_refused(kind: str) -> None:
    assert service(**KINDS[kind]).refused() == []


def test_with_a_certificate_plain_http_only_leads_to_https() -> None:
    stack = service(**CLOUDMAP, CertificateArn="arn:aws:acm:eu-central-1:123456789012:certificate/0")
    (action,) = stack.properties("HttpListener")["DefaultActions"]
    assert (action["Type"], action["RedirectConfig"]["Protocol"]) == ("redirect", "HTTPS")
    assert stack.properties("SessionRule")["ListenerArn"] == {"Ref": "HttpsListener"}
    plain = service(**CLOUDMAP).properties("SessionRule")
    assert plain["ListenerArn"] == {"Ref": "HttpListener"}
    assert "unencrypted" in stack.template["Parameters"]["CertificateArn"]["Description"]


def test_only_session_paths_are_passed_on_unless_operators_are_named() -> None:
    stack = service(**CLOUDMAP)
    for listener in stack.of_type("AWS::ElasticLoadBalancingV2::Listener").values():
        assert [action["Type"] for action in listener["DefaultActions"]] == ["fixed-response"]
    assert list(stack.of_type("AWS::ElasticLoadBalancingV2::ListenerRule")) == ["SessionRule"]
    named = service(**CLOUDMAP, OperatorCidr="192.0.2.0/24").properties("OperatorRule")
    assert named["Conditions"] == [{"Field": "source-ip", "SourceIpConfig": {"Values": ["192.0.2.0/24"]}}]


def test_each_secret_can_be_given_and_the_gateway_takes_it() -> None:
    """ALL_KINDS leaves no secret of the container out, and with all of them the settings load."""
    named = {one["Fn::If"][1]["Name"] for one in _container_as_written()["Secrets"]}
    stack = service(**ALL_KINDS)
    assert {one["Name"] for one in container(stack)["Secrets"]} == named
    used = settings(stack)
    assert used.fleet.url is not None
    assert used.clients.tokens


def _container_as_written() -> dict[str, Any]:
    """With its conditions."""
    (found,) = template_at(SERVICE_TEMPLATE)["Resources"]["TaskDefinition"]["Properties"][
        "ContainerDefinitions"
    ]
    return dict(found)


@pytest.mark.parametrize("agreement", data_agreements.AGREEMENTS, ids=lambda one: one.__name__)
def test_the_data_template_and_code_agree(agreement: Agreement) -> None:
    agreement(data(), Gateway())


def test_valkey_takes_the_rights_of_the_data_template(tmp_path: Path) -> None:
    rights = data().properties("User")["AccessString"].split()
    server = RedisServer("valkey", tmp_path)
    try:
        assert server.say("ACL", "SETUSER", "streamhold", *rights, ">secret") == "+OK"
        mine, theirs = "{fleet:streamhold:replicas}:z", "app:1"
        assert server.say("ACL", "DRYRUN", "streamhold", "ZADD", mine, "1", "a") == "+OK"
        assert server.say("ACL", "DRYRUN", "streamhold", "ZADD", theirs, "1", "a") != "+OK"
        assert server.say("ACL", "DRYRUN", "streamhold", "FLUSHALL") != "+OK"
    finally:
        server.kill()


def test_the_page_shows_parameters_that_are_enough() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "aws.md").read_text(), re.DOTALL | re.MULTILINE)
    given = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in yaml.safe_load(example).items()
    }
    stack = service(**given)
    assert stack.refused() == []
    assert settings(stack).discovery.kind == given["DiscoveryKind"]


def test_the_page_names_every_alarm_and_every_action() -> None:
    page = (DOCS / "aws.md").read_text()
    for stack in (service(**CLOUDMAP), data()):
        for name in stack.of_type("AWS::CloudWatch::Alarm"):
            assert f"| `{name}`" in page, name
    for actions in Gateway().actions.values():
        assert all(f"`{action}`" in page for action in actions)
