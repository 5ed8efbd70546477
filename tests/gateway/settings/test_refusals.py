"""What is refused, where the message says the problem is, and what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.errors import Problem, SettingsInvalid
from gateway.settings import inspect, load
from gateway.settings.words import STARTER

GOOD = "router: {replicas: [{url: 'http://a:1'}]}\n"
REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


def problems(directory: Path, text: str | bytes, environ: dict[str, str] | None = None) -> list[Problem]:
    path = directory / "gateway.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(inspect(environ or {}, directory).problems)


def keys(found: list[Problem]) -> set[str]:
    return {problem.key for problem in found}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("null\n", "is empty"),
        ("- a\n- b\n", "not a list"),
        ("router\n", "not a single value"),
        ("router: [\n", "line 2, column 1"),
        ("router:\n\tport: 1\n", "line 2, column 1"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("router: &a\n  x: *a\n", "refers to itself"),
        ("router: 2024-13-45\n", "put it in quotes"),
        (f"router: {{port: {'9' * 5000}}}\n", "has a number of 5000 digits at line 1"),
        (f"router: {{port: 0x{'f' * 9000}}}\n", "has a number of 9002 digits at line 1"),
        ("router: !!python/object:os.system {}\n", "line 1"),
        ("[" * 5000, "nested too deeply"),
        (b"router: \xff\xfe\n", "not UTF-8"),
        ("router: \x07\n", "a character that YAML does not allow"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_as_a_whole(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.source == "gateway.yaml"
    assert said in problem.message


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    [problem] = problems(tmp_path, bomb)
    assert "too large" in problem.message


def test_a_file_that_is_named_but_missing_is_refused_even_with_replicas_in_the_environment(
    tmp_path: Path,
) -> None:
    [problem] = inspect(REPLICAS | {"GATEWAY_CONFIG": "gone.yaml"}, tmp_path).problems
    assert problem.source == "gone.yaml"
    assert "there is no such file" in problem.message
    assert "GATEWAY_CONFIG" in problem.message


def test_a_directory_is_refused(tmp_path: Path) -> None:
    [problem] = inspect({"GATEWAY_CONFIG": str(tmp_path)}, tmp_path).problems
    assert "is a directory" in problem.message


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for named in ("pipe", "/dev/zero", "/dev/tty"):
        [problem] = inspect({"GATEWAY_CONFIG": named}, tmp_path).problems
        assert (problem.source, "name a regular file" in problem.message) == (named, True)


def test_the_null_device_is_an_empty_file(tmp_path: Path) -> None:
    [problem] = inspect({"GATEWAY_CONFIG": os.devnull}, tmp_path).problems
    assert problem.message == f"is empty (GATEWAY_CONFIG names this file); these lines would do:\n{STARTER}"


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, "#" * (256 * 1024) + "\n")
    assert "is above 256 KiB" in problem.message
    assert problems(tmp_path, GOOD + "#" * (256 * 1024 - len(GOOD))) == []


def test_thousands_of_unknown_keys_are_all_found_and_some_are_guessed_at(tmp_path: Path) -> None:
    many = "".join(f"  prt{number}: 1\n" for number in range(10_000))
    found = problems(tmp_path, f"router:\n  replicas: [{{url: 'http://a:1'}}]\n{many}")
    assert len(found) == 10_000
    assert 0 < sum("did you mean" in one.message for one in found) <= 200


def test_a_key_that_is_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, GOOD + "drain:\n  timeout_seconds: 1\n  timeout_seconds: 2\n")
    assert problem.source == "gateway.yaml:4"
    assert problem.key == "drain.timeout_seconds"
    assert "line 3" in problem.message


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("router: {replicas: []}", "router.replicas", "- url: http://"),
        ("router: {}", "router.replicas", "- url: http://"),
        ("drain: {}", "router.replicas", "- url: http://"),
        ("router: {replicas: [{name: a}]}", "router.replicas[0].url", "missing"),
        ("router: {replicas: ['http://a']}", "router.replicas[0]", "mapping"),
        ("router: {replicas: 'http://a'}", "router.replicas", "list"),
        ("router: {replicas: [{url: 'ftp://a'}]}", "router.replicas[0].url", "http:// or https://"),
        ("router: {replicas: [{url: 'http://a/x'}]}", "router.replicas[0].url", "without a path"),
        ("router: {replicas: [{url: 'http://a?x'}]}", "router.replicas[0].url", "query/fragment"),
        ("router: {replicas: [{url: 'http://a#x'}]}", "router.replicas[0].url", "query/fragment"),
        ("router: {replicas: [{url: 'http://a', weight: -1}]}", "router.replicas[0].weight", "0 or more"),
        ("router: {replicas: [{url: 'http://a', weight: .inf}]}", "router.replicas[0].weight", "finite"),
        ("router: {replicas: [{url: 'http://a', weight: .nan}]}", "router.replicas[0].weight", "finite"),
        (
            "router: {replicas: [{url: 'http://a', max_sessions: 0}]}",
            "router.replicas[0].max_sessions",
            "1 or",
        ),
        ("router: {replicas: [{url: 'http://a'}, {url: 'http://A:80/'}]}", "router.replicas", "Duplicate"),
        (
            "router: {replicas: [{url: 'http://a', name: x}, {url: 'http://b', name: x}]}",
            "router.replicas",
            "Duplicate",
        ),
        (
            "router: {replicas: [{url: 'http://a', primary: true}, {url: 'http://b', primary: true}]}",
            "router.replicas",
            "primary",
        ),
        ("router: {replicas: [{url: 'http://a', nmae: x}]}", "router.replicas[0].nmae", "did you mean name?"),
        ("router: {replicas: [{url: 'http://a', name: 9}]}", "router.replicas[0].name", "quotes"),
        ("router: {replicas: [{url: 'http://a', name: ' '}]}", "router.replicas[0].name", "blank"),
        ('router: {replicas: [{url: "http://a", name: "\\e[2J"}]}', "router.replicas[0].name", "printable"),
        ('router: {replicas: [{url: "http://a", name: "\\ud800"}]}', "router.replicas[0].name", "printable"),
        (
            "router: {replicas: [{url: 'http://a'}, {url: 'http://b', name: 'a:80'}]}",
            "router.replicas",
            "called so",
        ),
    ],
)
def test_replicas_that_cannot_be_used(tmp_path: Path, text: str, key: str, said: str) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.key == key
    assert said in problem.message
    assert problem.source.startswith("gateway.yaml")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("router.port", "70000", "at most 65535"),
        ("router.port", "yes", "not true"),
        ("router.port", "null", "whole number"),
        ("router.host", "''", "empty"),
        ("router.host", "'user:word@a'", "without a user name or a password"),
        ("router.health_check.interval_seconds", "0", "more than 0"),
        ("router.health_check.interval_seconds", "-1", "more than 0"),
        ("router.health_check.timeout_seconds", ".nan", "a finite number above 0, not nan"),
        ("router.health_check.timeout_seconds", ".inf", "a finite number above 0, not inf"),
        ("router.health_check.timeout_seconds", "2s", "number of seconds, as in 5 or 0.5, not '2s'"),
        ("router.health_check.failure_threshold", "0", "1 or more"),
        ("router.health_check.recovery_threshold", "0", "1 or more"),
        ("router.health_check.recovery_threshold", "1.5", "whole number"),
        ("router.health_check.jitter", "1", "below 1"),
        ("router.health_check.expect_status", "[99]", "200 to 599"),
        ("router.health_check.expect_body", "{status: {a: b}}", "plain values"),
        ("router.health_check.expect_body", "[a]", "mapping"),
        ("router.health_check.path", "'/a b'", "path on the replica"),
        ("router.health_check.unhealthy_interval_seconds", "0", "more than 0"),
        ("session.paths", "[]", "at least one"),
        ("session.paths", "[/a, /a]", "more than once"),
        ("session.paths[0]", "[ws]", "such as /v1/stream"),
        ("session.paths[0]", "[/ws/]", "slash at its end"),
        ("session.paths[0]", "['/{x}']", "braces"),
        ("session.paths[1]", "[/ws, /status]", "gateway's own"),
        ("session.paths[0]", "[/schema/openapi.json]", "gateway's own"),
        ("session.paths[0]", "[/schema/x]", "gateway's own"),
        ("session.protocol", "passthru", "did you mean passthrough?"),
        ("session.connect_timeout_seconds", "0", "more than 0"),
        ("session.connect_timeout_seconds", ".inf", "a finite number above 0, not inf"),
        ("session.connect_timeout_seconds", "nan", "a finite number above 0, not nan"),
        ("drain.timeout_seconds", ".nan", "a finite number of 0 or more, not nan"),
        ("router.on", "1", "is not a setting"),
        ("router.null", "1", "is not a setting"),
        ("router.2024-01-01", "1", "is not a setting"),
        ("session.connect_attempts", "0", "1 or more"),
        ("session.ping_interval_seconds", "300", "below session.idle_timeout_seconds (300)"),
        ("session.idle_timeout_seconds", "5", "above session.ping_interval_seconds (20)"),
        ("session.max_message_bytes", "0", "1 or more"),
        ("session.resume", "maybe", "true or false"),
        ("session.resume_attempts", "0", "1 or more"),
        ("session.max_state_bytes", "16 MiB", "whole number"),
        ("session.snapshot_every", "0", "1 or more"),
        ("session.on_unhealthy", "stay", "keep, drain or close"),
        ("session.segment_stall_seconds", "0", "more than 0"),
        ("session.idle_timeout", "5", "did you mean idle_timeout_seconds?"),
        ("selection.policy", "random", "least_sessions, weighted, p2c or rendezvous"),
        ("selection.slow_start_seconds", "-1", "0 or more"),
        ("selection.policy", "prioriti", "did you mean priority?"),
        ("affinity.key", "query", "query:NAME"),
        ("affinity.key", "init:preset", "init:client_id"),
        ("affinity.key", "null", "should be text"),
        ("outlier.consecutive_losses", "0", "1 or more"),
        ("outlier.base_seconds", "0", "more than 0"),
        ("outlier.base_seconds", "301", "at most outlier.max_seconds (300)"),
        ("outlier.max_seconds", "29", "at least outlier.base_seconds (30)"),
        ("outlier.max_ejected_share", "1.5", "at most 1"),
        ("outlier.max_ejected_share", ".nan", "a finite number from 0 to 1"),
        ("admission.max_sessions", "0", "1 or more"),
        ("admission.queue_size", "-1", "0 or more"),
        ("admission.queue_timeout_seconds", "0", "more than 0"),
        ("admission.max_sessions_per_client", "0", "1 or more"),
        ("drain.timeout_seconds", "-1", "0 or more"),
        ("fleet.backend", "etcd", "none, memory or redis"),
        ("fleet.url", "http://:hush@a:6379", "redis://HOST:6379/0"),
        ("fleet.url", "redis://", "redis://HOST:6379/0"),
        ("fleet.url", "redis://:hush@a:0", "redis://HOST:6379/0"),
        ("fleet.url", "redis://a/x", "a database by its number"),
        ("fleet.url", "redis://a?passwort=hush", "it may set client_name, db, password"),
        ("fleet.url", "redis://a/99999999999999999999", "a database by its number"),
        ("fleet.url", "redis://a?db=hush", "a database by its number"),
        ("fleet.url", "unix:///a?db=", "a database by its number"),
        ("fleet.url", "redis://a?ssl_ca_certs=/a", "for rediss:// alone"),
        ("fleet.url", "7", "text"),
        ("fleet.name", "'a:b'", "no colon"),
        ("fleet.name", "''", "at least one character"),
        ("fleet.namespace", "'{a}'", "no brace"),
        ("fleet.member_id", "'a\tb'", "no tab"),
        ("fleet.ttl_seconds", "6", "above twice fleet.every_seconds (3)"),
        ("fleet.ttl_seconds", ".inf", "a finite number above 0"),
        ("fleet.ttl_seconds", "1000000", "at most 86400"),
        ("fleet.every_seconds", "5", "below half of fleet.ttl_seconds (10)"),
        ("fleet.every_seconds", "0", "0.001 or more"),
        ("fleet.every_seconds", "1e-9", "0.001 or more"),
        ("fleet.on_stop", "stay", "leave or linger"),
        ("fleet.linger_for_seconds", "0", "0.001 or more"),
        ("fleet.report_max_bytes", "10", "256 or more"),
        ("fleet.shed", "true", "needs other gateways"),
        ("fleet.shed", "maybe", "true or false"),
        ("fleet.shed_tolerance", "-0.1", "0 or more"),
        ("fleet.shed_tolerance", ".inf", "a finite number of 0 or more"),
        ("fleet.shed_per_second", "0", "more than 0"),
        ("fleet.settle_seconds", "-1", "0 or more"),
        ("discovery.kind", "consul", "should be static, fleet, cloudmap or ecs"),
        ("discovery.namespace", "'a b'", "a name or an ARN"),
        ("discovery.cluster", "''", "a name or an ARN"),
        ("discovery.port", "0", "1 or more"),
        ("discovery.port", "70000", "at most 65535"),
        ("discovery.scheme", "ftp", "should be http or https"),
        ("discovery.region", "Frankfurt", "a region such as eu-central-1"),
        ("discovery.endpoint_url", "localhost:5000", "a URL such as http://127.0.0.1:5000"),
        ("discovery.endpoint_url", "'http://me:x@a:1'", "without a user name"),
        ("discovery.interval_seconds", "0", "more than 0"),
        ("discovery.timeout_seconds", "soon", "a number of seconds"),
        ("discovery.confirm_seconds", "-1", "0 or more"),
        ("metrics.interval_seconds", "0", "more than 0"),
        ("metrics.namespace", "AWS/Streamhold", "do not begin with AWS/"),
        ("metrics.service", "':a'", "does not begin with a colon"),
        ("metrics.full_at_sessions", "0", "1 or more"),
        ("router.cold_start.idle_seconds", "0", "more than 0"),
        ("router.cold_start.connect_timeout_seconds", ".inf", "a finite number above 0"),
        ("discovery.name", "'a:b'", "no colon"),
        ("runtime.mode", "fleet", "fleet.backend"),
        ("runtime.mode", "sometimes", "auto, single_process, fleet or serverless"),
        ("clients.allowed_origins[0]", "['https://a.example/x']", "origin such as"),
        ("clients.trusted_proxies[0]", "[10.0.0.0/99]", "10.0.0.0/8"),
        ("sesion.paths", "[/a]", "did you mean session?"),
        ("1.x", "1", "not a setting"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path: Path, key: str, value: str, said: str) -> None:
    *sections, last = key.partition("[")[0].split(".")
    nested = "".join(f"{'  ' * depth}{name}:\n" for depth, name in enumerate(sections))
    body = f"{nested}{'  ' * len(sections)}{last}: {value}\n"
    text = body + (GOOD if not key.startswith("router") else "  replicas: [{url: 'http://a:1'}]\n")
    [problem] = problems(tmp_path, text)
    # An unknown section is told as such, whatever is in it.
    assert problem.key in (key, sections[0])
    assert said in problem.message
    assert problem.source in (f"gateway.yaml:{line}" for line in range(1, len(sections) + 2))


def test_a_setting_without_its_section_is_led_there(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, GOOD + "queue_size: 0\n")
    assert problem.message == "is not a setting; did you mean admission.queue_size?"


def test_a_variable_hides_no_mistake_of_the_file(tmp_path: Path) -> None:
    text = "router: {replicas: [{url: 'http://a:1'}], health_check: 5}\n"
    [problem] = problems(tmp_path, text, {"GATEWAY_ROUTER__HEALTH_CHECK__PATH": "/ready"})
    assert (problem.source, problem.key) == ("gateway.yaml:1", "router.health_check")
    assert "should be a mapping of keys to values, not 5" in problem.message


def test_a_redis_fleet_needs_its_servers_address(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, GOOD + "fleet: {backend: redis}\n")
    assert problem.key == "fleet.url"
    assert "redis://HOST:6379/0" in problem.message
    assert (
        problems(tmp_path, GOOD, {"GATEWAY_FLEET__BACKEND": "redis", "GATEWAY_FLEET__URL": "redis://a"}) == []
    )


@pytest.mark.parametrize("url", ["redis://:hush@a/3", "redis://:hush@a?db=3", "unix:///a"])
def test_what_no_cluster_has_is_refused_for_one(tmp_path: Path, url: str) -> None:
    fleet = f"fleet: {{backend: redis, url: '{url}', cluster: true}}\n"
    [problem] = problems(tmp_path, GOOD + fleet)
    assert problem.key == "fleet.url"
    assert "no cluster has" in problem.message
    assert "hush" not in problem.message
    assert problems(tmp_path, GOOD + fleet.replace("true", "false")) == []
    assert problems(tmp_path, GOOD + "fleet: {backend: redis, url: 'rediss://a:1/0', cluster: true}\n") == []


@pytest.mark.parametrize("session", ["{protocol: passthrough}", "{resume: false}"])
def test_only_sessions_that_can_resume_are_shed(tmp_path: Path, session: str) -> None:
    shedding = GOOD + "fleet: {backend: redis, url: 'redis://a', shed: true}\n"
    assert problems(tmp_path, shedding) == []
    [problem] = problems(tmp_path, f"{shedding}session: {session}\n")
    assert problem.key == "fleet.shed"
    assert "needs session.protocol streaming and session.resume" in problem.message


DISCOVERED = "fleet: {backend: redis, url: 'redis://a'}\ndiscovery: {kind: fleet}\n"


def test_where_replicas_announce_themselves_none_need_be_configured(tmp_path: Path) -> None:
    assert problems(tmp_path, DISCOVERED) == []
    assert problems(tmp_path, GOOD + DISCOVERED) == []


def test_without_discovery_no_replicas_are_refused_whatever_the_fleet(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, DISCOVERED.replace("kind: fleet", "kind: static"))
    assert problem.key == "router.replicas"
    assert "no replica is configured" in problem.message


def test_replicas_announce_themselves_only_where_there_is_a_backend(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, "discovery: {kind: fleet}\n")
    assert (problem.source, problem.key) == ("gateway.yaml:1", "discovery.kind")
    assert "needs a fleet.backend" in problem.message


def test_replicas_and_gateways_are_two_fleets(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, DISCOVERED.replace("kind: fleet", "kind: fleet, name: gateways"))
    assert problem.key == "discovery.name"
    assert "the gateways' own fleet" in problem.message


CLOUDMAP = "discovery: {kind: cloudmap, namespace: streaming, service: replicas}\n"


@pytest.mark.parametrize("text", [CLOUDMAP, "discovery: {kind: ecs, service: replicas}\n"])
def test_where_aws_lists_replicas_none_need_be_configured(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []
    assert problems(tmp_path, GOOD + text) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("discovery: {kind: cloudmap}\n", ["discovery.namespace", "discovery.service"]),
        ("discovery: {kind: cloudmap, namespace: a}\n", ["discovery.service"]),
        ("discovery: {kind: ecs}\n", ["discovery.service"]),
    ],
)
def test_what_aws_is_asked_for_has_a_name(tmp_path: Path, text: str, missing: list[str]) -> None:
    told = problems(tmp_path, text)
    assert [problem.key for problem in told] == missing
    assert all("is missing: discovery.kind" in problem.message for problem in told)


def test_the_whole_list_is_not_asked_for_more_often_than_anything(tmp_path: Path) -> None:
    text = CLOUDMAP.replace("}", ", interval_seconds: 60}")
    [problem] = problems(tmp_path, text)
    assert problem.key == "discovery.full_interval_seconds"
    assert "at least discovery.interval_seconds (60), not 30" in problem.message


def test_asking_aws_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.settings.settings.find_spec", lambda name: None)
    [problem] = problems(tmp_path, CLOUDMAP)
    assert (problem.key, problem.source) == ("discovery.kind", "gateway.yaml:1")
    assert "pip install '.[aws]' in a clone" in problem.message


def test_a_redis_fleet_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.settings.settings.find_spec", lambda name: None)
    [problem] = problems(tmp_path, GOOD + "fleet: {backend: redis, url: 'redis://a'}\n")
    assert (problem.key, problem.source) == ("fleet.backend", "gateway.yaml:2")
    assert "pip install '.[fleet]' in a clone" in problem.message


@pytest.mark.parametrize(
    "url", ["http://:hush@a", "redis://a?db=hush", "redis://:hush@a/x", "redis://:hush@a:0", "hush"]
)
def test_no_message_repeats_a_part_of_the_fleets_address(tmp_path: Path, url: str) -> None:
    for problem in (
        *problems(tmp_path, GOOD + f"fleet: {{url: '{url}'}}\n"),
        *problems(tmp_path, GOOD, {"GATEWAY_FLEET__URL": url}),
    ):
        assert "hush" not in str(problem)


@pytest.mark.parametrize("text", ["", "ten", "1.5"])
def test_a_variable_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    [problem] = problems(tmp_path, GOOD, {"GATEWAY_ROUTER__PORT": text})
    assert (problem.source, problem.key) == ("GATEWAY_ROUTER__PORT", "router.port")
    assert "whole number" in problem.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("GATEWAY_ROUTR__PORT", "did you mean GATEWAY_ROUTER__PORT?"),
        ("GATEWAY_ROUTER__PROT", "did you mean GATEWAY_ROUTER__PORT?"),
        ("GATEWAY_router__port", "did you mean GATEWAY_ROUTER__PORT?"),
        ("GATEWAY_HEALTH_CHECK__PATH", "did you mean GATEWAY_ROUTER__HEALTH_CHECK__PATH?"),
        ("GATEWAY_FLEET__TTL", "did you mean GATEWAY_FLEET__TTL_SECONDS?"),
        ("GATEWAY_HEALTH_CHECK__INTERVAL_SECONDS", "is not a setting"),
        ("GATEWAY___PORT", "is not a setting"),
        ("GATEWAY_ROUTER__", "is not a setting"),
        ("GATEWAY_ROUTER__PORT__X", "is not a setting"),
        ("GATEWAY_ROUTER__REPLICAS__0__URL", "set GATEWAY_ROUTER__REPLICAS as a whole, as JSON"),
        ("GATEWAY_ADMIN__TOKEN", "not available in this version"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(tmp_path: Path, name: str, said: str) -> None:
    [problem] = problems(tmp_path, GOOD, {name: "1"})
    assert problem.source == name
    assert said in problem.message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("http://a:1", "is not JSON (line 1, column 1"),
        ("[{", "is not JSON (line 1, column 3"),
        ('[{"url": "http://a:1", "url": "http://b:1"}]', "twice"),
        ('[{"url": "http://a:1", "weight": NaN}]', "NaN"),
        ("", "is not JSON"),
        (f'[{{"url": "http://a:1", "max_sessions": {"9" * 5000}}}]', "has a number of 5000 digits"),
    ],
)
def test_bad_json_in_a_variable_is_one_problem(tmp_path: Path, value: str, said: str) -> None:
    [problem] = inspect({"GATEWAY_ROUTER__REPLICAS": value}, tmp_path).problems
    assert (problem.source, problem.key) == ("GATEWAY_ROUTER__REPLICAS", "router.replicas")
    assert said in problem.message


def test_a_key_of_ours_that_a_variable_has_twice_is_named(tmp_path: Path) -> None:
    value = '[{"url": "http://a:1", "url": "http://b:1"}]'
    [problem] = inspect({"GATEWAY_ROUTER__REPLICAS": value}, tmp_path).problems
    assert "has the key 'url' twice" in problem.message


def test_a_section_in_a_variable_that_is_broken_json_is_one_problem(tmp_path: Path) -> None:
    [problem] = inspect({"GATEWAY_ROUTER": "{"}, tmp_path).problems
    assert problem.source == "GATEWAY_ROUTER"


def test_the_environment_does_not_hide_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    found = problems(tmp_path, "router: [1]\n", {"GATEWAY_ROUTER__PORT": "1", **REPLICAS})
    assert keys(found) == {"router"}


def test_an_unreadable_file_does_not_hide_what_is_wrong_with_the_environment(tmp_path: Path) -> None:
    found = problems(tmp_path, "router: [", {"GATEWAY_ROUTER__PORT": "x", "GATEWAY_SESSION__X": "1"})
    assert {problem.source for problem in found} == {
        "gateway.yaml",
        "GATEWAY_ROUTER__PORT",
        "GATEWAY_SESSION__X",
    }


def test_every_problem_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
router:
  prt: 1
  replicas:
    - url: ftp://a
      weight: -1
    - {url: 'http://b/x', max_sessions: 0, nmae: b}
    - {weight: 1}
    - {url: 'http://c', primary: true}
    - {url: 'http://C/', primary: true}
  health_check: {interval_seconds: 0}
session:
  idle_timeout_seconds: 10
  connect_attempts: x
"""
    found = problems(tmp_path, text, {"GATEWAY_RUNTIME__MODE": "never", "GATEWAY_X__Y": "1"})
    assert keys(found) == {
        "router.prt",
        "router.replicas[0].url",
        "router.replicas[0].weight",
        "router.replicas[1].url",
        "router.replicas[1].max_sessions",
        "router.replicas[1].nmae",
        "router.replicas[2].url",
        "router.replicas",
        "router.health_check.interval_seconds",
        "session.idle_timeout_seconds",
        "session.connect_attempts",
        "runtime.mode",
        "",
    }
    assert [problem.message for problem in found if problem.key == "router.replicas"] != []
    lines = [int(one.source.rpartition(":")[2]) for one in found if one.source.startswith("gateway.yaml:")]
    assert lines == sorted(lines)
    assert [one.source for one in found[-2:]] == ["GATEWAY_X__Y", "GATEWAY_RUNTIME__MODE"]


SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (GOOD + f"clients: {{tokens: {SECRET}}}", {}),
        (GOOD + f"clients: {{tokens: {{{SECRET}: 1}}}}", {}),
        (GOOD + f"clients: {{tokens: ['{SECRET} with a space']}}", {}),
        (GOOD + f"clients: {{tokens: [[{SECRET}]]}}", {}),
        (GOOD + f"clients:\n  tokens: ['{SECRET}\n", {}),
        (GOOD + f"clients:\n  tokens: [*{SECRET}]\n", {}),
        (GOOD + f"clients:\n  tokens: [!{SECRET} x]\n", {}),
        (GOOD + f"clients:\n  tokens: [&{SECRET}{SECRET}? ]: x\n", {}),
        (GOOD + f"admin: {{token: {SECRET}}}", {}),
        (GOOD + f"clients: {{token: {SECRET}}}", {}),
        (GOOD + f"clients: {{tokens: {{{SECRET}: 1, {SECRET}: 2}}}}", {}),
        (GOOD, {"GATEWAY_CLIENTS__TOKENS": f'{{"{SECRET}": 1, "{SECRET}": 2}}'}),
        (GOOD, {"GATEWAY_CLIENTS": f'{{"tokens": {{"{SECRET}": 1, "{SECRET}": 2}}}}'}),
        (GOOD + f"router: {{host: 'user:{SECRET}@a'}}", {}),
        (GOOD, {"GATEWAY_CLIENTS__TOKENS": SECRET}),
        (GOOD, {"GATEWAY_CLIENTS__TOKENS": f'["{SECRET}'}),
        (GOOD, {"GATEWAY_CLIENTS__TOKENS": f'"{SECRET}"'}),
        (GOOD, {"GATEWAY_CLIENTS__TOKENS": f'["{SECRET} x"]'}),
        (GOOD, {"GATEWAY_CLIENTS__TOKEN": SECRET}),
        (GOOD, {"GATEWAY_ADMIN__TOKEN": SECRET}),
        (f"router: {{replicas: [{{url: 'http://user:{SECRET}@a:1'}}]}}", {}),
        (f"router: {{replicas: [{{url: 'ftp://user:{SECRET}@a:1'}}]}}", {}),
        (f"router: {{replicas: [{{url: 'user:{SECRET}@a:1'}}]}}", {}),
        (f"router: {{replicas: [{{url: 'http://user:{SECRET}/@a:1/x'}}]}}", {}),
        (f"router: {{replicas: [{{url: 'http://user:x {SECRET}@a:1'}}]}}", {}),
        (f"router: {{replicas: ['http://user:{SECRET}@a:1']}}", {}),
        (f"router: {{replicas: [{{url: 'http://u:{SECRET}@a'}}, {{url: 'http://u:{SECRET}@a'}}]}}", {}),
        (
            "router:\n  replicas:\n"
            f"    - {{url: 'http://u:{SECRET}@a', primary: true}}\n"
            "    - {url: 'http://b', primary: true}\n",
            {},
        ),
    ],
)
def test_secrets_are_in_no_message(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    (tmp_path / "gateway.yaml").write_text(text)
    with pytest.raises(SettingsInvalid) as invalid:
        load(environ, tmp_path)
    assert SECRET not in str(invalid.value)
    assert SECRET not in repr(invalid.value.problems)
    assert invalid.value.__cause__ is None
