"""Where settings come from: the file, the environment over it, and neither."""

from __future__ import annotations

import json
import textwrap
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.affinity import Affinity
from gateway.errors import SettingsInvalid
from gateway.replicas.config import RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.outlier import OutlierPolicy
from gateway.settings import (
    AdmissionSettings,
    RouterSettings,
    SessionSettings,
    Settings,
    inspect,
    load,
)

SEED_BLOCK = """\
router:
  host: 0.0.0.0
  port: 9000
  replicas:
    - url: http://streamer-a:8000
      primary: true
    - url: http://streamer-b:8000
  health_check:
    path: /health
    interval_seconds: 5
    failure_threshold: 3
"""
REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


def write(directory: Path, text: str, name: str = "gateway.yaml") -> None:
    (directory / name).write_text(textwrap.dedent(text))


def test_the_router_block_of_the_seed_loads_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, SEED_BLOCK)
    settings = load({}, tmp_path)
    assert settings.router.config() == RouterConfig(
        replicas=[
            ReplicaEndpoint("http://streamer-a:8000", primary=True),
            ReplicaEndpoint("http://streamer-b:8000"),
        ]
    )


def test_the_repositorys_own_file_fits_the_emulators_replicas() -> None:
    root = Path(__file__).parents[3]
    settings = load({}, root)
    assert [(one.name, one.url) for one in settings.router.endpoints()] == [
        ("a", "http://127.0.0.1:9101"),
        ("b", "http://127.0.0.1:9102"),
        ("c", "http://127.0.0.1:9103"),
    ]
    assert settings.router.host == "127.0.0.1"
    policy = settings.router.health_policy()
    assert policy.path == "/readyz"
    assert "warming" not in policy.expect_body["status"]


def test_the_environment_alone_is_enough(tmp_path: Path) -> None:
    settings = load(REPLICAS, tmp_path)
    assert settings.router.endpoints() == [ReplicaEndpoint("http://a:1")]


def test_variables_win_over_the_file(tmp_path: Path) -> None:
    write(tmp_path, SEED_BLOCK)
    environ = {
        "GATEWAY_ROUTER__PORT": "9100",
        "GATEWAY_ROUTER__HEALTH_CHECK__INTERVAL_SECONDS": "0.5",
        "GATEWAY_SESSION__PATHS": '["/only"]',
        **REPLICAS,
    }
    settings = load(environ, tmp_path)
    assert settings.router.port == 9100
    assert settings.router.health_check.interval_seconds == 0.5
    assert settings.router.health_check.failure_threshold == 3
    assert settings.session.paths == ("/only",)
    assert settings.router.endpoints() == [ReplicaEndpoint("http://a:1")]


def test_a_mapping_in_a_variable_replaces_the_files_and_a_more_specific_variable_adds_to_it(
    tmp_path: Path,
) -> None:
    write(tmp_path, SEED_BLOCK.replace("path: /health", "path: /ready"))
    environ = {
        "GATEWAY_ROUTER__HEALTH_CHECK__TIMEOUT_SECONDS": "1",
        "GATEWAY_ROUTER__HEALTH_CHECK": '{"interval_seconds": 7}',
    }
    check = load(environ, tmp_path).router.health_check
    assert (check.path, check.interval_seconds, check.timeout_seconds) == ("/health", 7, 1)


def test_a_whole_section_can_be_one_variable(tmp_path: Path) -> None:
    settings = load({"GATEWAY_ROUTER": '{"port": 1, "replicas": [{"url": "http://a:1"}]}'}, tmp_path)
    assert (settings.router.port, len(settings.router.replicas)) == (1, 1)


@pytest.mark.parametrize(
    "foreign",
    [
        {"GATEWAY_PORT": "tcp://10.0.0.1:9000"},
        {"GATEWAY_SERVICE_HOST": "10.0.0.1", "GATEWAY_PORT_9000_TCP_ADDR": "10.0.0.1"},
        {"GATEWAY_ROUTER": "tcp://10.0.0.1:9000"},
        {"GATEWAYS__X": "1", "MY_GATEWAY_ROUTER__PORT": "x"},
    ],
)
def test_variables_that_others_set_are_left_alone(tmp_path: Path, foreign: dict[str, str]) -> None:
    assert load(REPLICAS | foreign, tmp_path) == load(REPLICAS, tmp_path)


def test_only_the_variables_that_are_handed_in_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_ROUTER__PORT", "1")
    monkeypatch.setenv("ROUTER", '{"port": 2}')
    assert load(REPLICAS, tmp_path).router.port == 9000


def test_null_in_a_variable_takes_a_value_away(tmp_path: Path) -> None:
    write(tmp_path, SEED_BLOCK + "    unhealthy_interval_seconds: 30\n")
    environ = {"GATEWAY_ROUTER__HEALTH_CHECK__UNHEALTHY_INTERVAL_SECONDS": "null"}
    assert load(environ, tmp_path).router.health_check.unhealthy_interval_seconds is None


def test_the_config_variable_names_the_file(tmp_path: Path) -> None:
    write(tmp_path, "router: {replicas: [{url: 'http://there:1'}]}", "other.yaml")
    write(tmp_path, SEED_BLOCK)
    for named in ("other.yaml", str(tmp_path / "other.yaml")):
        assert load({"GATEWAY_CONFIG": named}, tmp_path).router.replicas[0].url == "http://there:1"
    assert load({"GATEWAY_CONFIG": ""}, tmp_path).router.replicas[0].url == "http://streamer-a:8000"


def test_without_any_configuration_the_message_holds_the_lines_that_would_start_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid) as invalid:
        load({}, tmp_path)
    [problem] = invalid.value.problems
    lines = [line for line in problem.message.splitlines() if line.startswith(" ")]
    write(tmp_path, "\n".join(lines))
    assert load({}, tmp_path).router.endpoints() == [ReplicaEndpoint("http://127.0.0.1:9101")]


def test_a_file_with_the_other_ending_is_pointed_out(tmp_path: Path) -> None:
    write(tmp_path, SEED_BLOCK, "gateway.yml")
    [problem] = inspect({}, tmp_path).problems
    assert "gateway.yml" in problem.message


def test_sections_that_are_commented_out_mean_their_defaults(tmp_path: Path) -> None:
    write(tmp_path, "router:\n  replicas: [{url: 'http://a:1'}]\n  health_check:\nsession:\ndrain:\n")
    assert load({}, tmp_path) == load(REPLICAS, tmp_path.parent / "nowhere")


def test_later_keys_that_are_null_and_later_sections_at_their_only_value_are_fine(tmp_path: Path) -> None:
    write(
        tmp_path,
        """\
        router: {replicas: [{url: 'http://a:1'}]}
        session: {protocol: passthrough}
        affinity: {key: none}
        admission: {max_sessions: 10, max_sessions_per_client: null}
        fleet: {backend: none, url: null}
        discovery: {kind: static}
        admin: {token: null}
        """,
    )
    assert load({}, tmp_path).admission.max_sessions == 10


def test_the_defaults_are_those_of_the_manual(tmp_path: Path) -> None:
    settings = load(REPLICAS, tmp_path)
    assert settings.session == SessionSettings(
        paths=("/v1/stream", "/ws"),
        protocol="streaming",
        connect_timeout_seconds=5,
        connect_attempts=3,
        idle_timeout_seconds=300,
        ping_interval_seconds=20,
        ping_timeout_seconds=10,
        slow_consumer_timeout_seconds=60,
        max_message_bytes=67108864,
        resume=True,
        resume_attempts=3,
        max_state_bytes=16777216,
        snapshot_every=1,
        on_unhealthy="keep",
        segment_stall_seconds=None,
    )
    assert settings.selection.policy == "priority"
    assert settings.selection.slow_start_seconds == 0
    assert settings.placed_by() == Affinity("none")
    assert settings.outlier.policy() == OutlierPolicy(5, 30, 300, 0.5)
    assert settings.admission == AdmissionSettings(
        max_sessions=1000, queue_size=100, queue_timeout_seconds=30, max_sessions_per_client=None
    )
    assert (settings.drain.timeout_seconds, settings.drain.spread_seconds) == (30, 2)
    assert settings.clients.allowed_origins == ("*",)
    assert settings.router.health_policy() == settings.router.health_policy().from_config(
        settings.router.config()
    )


@pytest.mark.parametrize(
    ("policy", "key", "expected"),
    [
        ("rendezvous", "none", Affinity("client_ip")),
        ("rendezvous", "query:room", Affinity("query", "room")),
        ("weighted", "none", Affinity("none")),
        ("weighted", "header:X-Room", Affinity("header", "x-room")),
    ],
)
def test_rendezvous_without_a_key_goes_by_the_address(
    tmp_path: Path, policy: str, key: str, expected: Affinity
) -> None:
    environ = REPLICAS | {"GATEWAY_SELECTION__POLICY": policy, "GATEWAY_AFFINITY__KEY": key}
    assert load(environ, tmp_path).placed_by() == expected


def test_values_arrive_in_their_types(tmp_path: Path) -> None:
    environ = REPLICAS | {
        "GATEWAY_CLIENTS__TOKENS": '["hush"]',
        "GATEWAY_CLIENTS__TRUSTED_PROXIES": '["10.1.2.3/8", "::1"]',
        "GATEWAY_ROUTER__HEALTH_CHECK__EXPECT_BODY": '{"state": "up", "ready": [true, 1]}',
    }
    settings = load(environ, tmp_path)
    assert [token.get_secret_value() for token in settings.clients.tokens] == ["hush"]
    assert settings.clients.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1"))
    assert settings.router.health_policy().expect_body == {"state": ("up",), "ready": (True, 1)}


def test_settings_of_a_router_config_read_no_file_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "router: [")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWAY_ROUTER__PORT", "nonsense")
    config = RouterConfig(
        "127.0.0.1", 0, [ReplicaEndpoint("http://A:80/", "a", True, 2.0, 4)], "ready", 1.0, 0.5, 2, 1
    )
    assert Settings.for_router(config).router.config() == config


def test_settings_made_by_hand_keep_the_rules_too() -> None:
    with pytest.raises(ValidationError, match="no replica is configured"):
        Settings()
    router = RouterSettings.model_validate({"replicas": [{"url": "http://a:1"}]})
    with pytest.raises(ValidationError, match="ping_interval_seconds"):
        Settings(router=router, session=SessionSettings(ping_interval_seconds=300))


def test_loading_leaves_nothing_behind_for_settings_made_by_hand(tmp_path: Path) -> None:
    load(REPLICAS | {"GATEWAY_ROUTER__PORT": "1", "GATEWAY_DRAIN__SPREAD_SECONDS": "9"}, tmp_path)
    settings = Settings.for_router(RouterConfig(replicas=[ReplicaEndpoint("http://b:1")]))
    assert (settings.router.port, settings.drain.spread_seconds) == (9000, 2)


def test_settings_do_not_change(tmp_path: Path) -> None:
    settings = load(REPLICAS, tmp_path)
    with pytest.raises(ValidationError, match="frozen"):
        settings.router.port = 1


def test_the_sources_are_named_without_their_values(tmp_path: Path) -> None:
    write(tmp_path, SEED_BLOCK)
    environ = {"GATEWAY_CLIENTS__TOKENS": json.dumps(["hush"])}
    assert inspect(environ, tmp_path).sources == ("gateway.yaml", "GATEWAY_CLIENTS__TOKENS")
