from __future__ import annotations

import dataclasses
import math
import re

import pytest

from gateway.replicas.config import HealthPolicy, RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint, replicas_problems
from gateway.replicas.model import Replica, ReplicaHealth, ReplicaStatus
from gateway.replicas.urls import join_url, normalised_url, url_problem, websocket_url


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "http://a/",
        "https://replica-1.internal:8443",
        "http://stream_a:8000",
        "http://10.0.0.7:9101",
        "http://[::1]:9101/",
        "HTTP://A",
    ],
)
def test_base_urls_are_accepted_and_kept_as_given(url: str) -> None:
    config = RouterConfig(replicas=[ReplicaEndpoint(url)])
    assert config.replicas[0].url == url
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://a/v1", "without a path"),
        ("http://a//", "without a path"),
        ("http://a?x=1", "query/fragment"),
        ("http://a/?", "query/fragment"),
        ("http://a#top", "query/fragment"),
        ("http://a/v1?x", "query/fragment"),
        ("ws://a", "http:// or https://"),
        ("a:8000", "http:// or https://"),
        ("", "http:// or https://"),
        ("http://", "host"),
        ("http://:80", "host"),
        ("http://-a", "host"),
        ("http://a:0", "port"),
        ("http://a:99999", "Port out of range"),
        ("http://a:http", "not a URL"),
        ("http://[::1", "not a URL"),
        ("http://a b", "spaces"),
        ("http://a\n", "control characters"),
        ("http://bücher", "non-ASCII"),
        ("http://user:word@a", "password"),
    ],
)
def test_other_urls_are_refused_in_the_readers_words(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        RouterConfig(replicas=[ReplicaEndpoint(url)])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"replicas": []}, "at least one replica"),
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"port": None}, "port must be a whole number from 0 to 65535, not None"),
        ({"host": None}, "host should be text, not None"),
        ({"host": ""}, "host should not be empty"),
        ({"host": "user:word@a"}, "host should be a host name or an IP address, without a user name"),
        ({"replicas": None}, "replicas must be a list of ReplicaEndpoint, not a NoneType"),
        ({"replicas": "http://a"}, "replicas must be a list of ReplicaEndpoint, not a str"),
        ({"replicas": ["http://a"]}, "replicas must list ReplicaEndpoint(...), not a str"),
        ({"replicas": [ReplicaEndpoint(None)]}, "replica URL must be text"),  # type: ignore[arg-type]
        ({"replicas": [ReplicaEndpoint("http://a", weight="x")]}, "not 'x'"),  # type: ignore[arg-type]
        ({"replicas": [ReplicaEndpoint("http://a", weight=10**400)]}, "must be finite"),
        ({"replicas": [ReplicaEndpoint("http://a", max_sessions="1")]}, "not '1'"),  # type: ignore[arg-type]
        ({"health_check_path": None}, "health_check_path must be a path"),
        ({"failure_threshold": "3"}, "failure_threshold must be 1 or more, not '3'"),
        *(
            ({"replicas": [ReplicaEndpoint("http://a", name)]}, "printable text and not blank")  # type: ignore[arg-type]
            for name in ("", " ", "a\n", "\x1b[2J", "\ud800", "\u200b", 7)
        ),
        ({"replicas": [ReplicaEndpoint("http://a"), ReplicaEndpoint("http://b", "a:80")]}, "'a:80'"),
        ({"replicas": [ReplicaEndpoint("http://b", "a:80"), ReplicaEndpoint("http://a")]}, "called so"),
        ({"replicas": [ReplicaEndpoint("http://a:9"), ReplicaEndpoint("https://a:9")]}, "called so"),
        ({"health_check_interval_seconds": 0}, "health_check_interval_seconds must be more than 0"),
        (
            {"health_check_interval_seconds": math.nan},
            "interval_seconds must be a finite number above 0",
        ),
        ({"health_check_timeout_seconds": -1}, "health_check_timeout_seconds must be more than 0"),
        ({"health_check_timeout_seconds": math.inf}, "must be a finite number above 0, not inf"),
        ({"health_check_timeout_seconds": "2"}, "must be a finite number above 0, not '2'"),
        ({"health_check_path": "http://a/health"}, "health_check_path must be a path"),
        ({"health_check_path": "/he alth"}, "health_check_path must be a path"),
        ({"failure_threshold": 0}, "failure_threshold must be 1 or more"),
        ({"recovery_threshold": 0}, "recovery_threshold must be 1 or more"),
        ({"replicas": [ReplicaEndpoint("http://a"), ReplicaEndpoint("http://a")]}, "Duplicate"),
        ({"replicas": [ReplicaEndpoint("http://a"), ReplicaEndpoint("http://A:80/")]}, "Duplicate"),
        ({"replicas": [ReplicaEndpoint("http://a", "x"), ReplicaEndpoint("http://b", "x")]}, "Duplicate"),
        (
            {
                "replicas": [
                    ReplicaEndpoint("http://a", primary=True),
                    ReplicaEndpoint("http://b", primary=True),
                ]
            },
            "only one replica may be primary",
        ),
        ({"replicas": [ReplicaEndpoint("http://a", weight=-1)]}, "weight"),
        ({"replicas": [ReplicaEndpoint("http://a", weight=math.nan)]}, "weight"),
        ({"replicas": [ReplicaEndpoint("http://a", weight=math.inf)]}, "weight"),
        ({"replicas": [ReplicaEndpoint("http://a", max_sessions=0)]}, "max_sessions"),
    ],
)
def test_a_config_that_cannot_work_is_a_value_error(changes: dict[str, object], told: str) -> None:
    good = {"replicas": [ReplicaEndpoint("http://a")]}
    with pytest.raises(ValueError, match=re.escape(told)):
        RouterConfig(**{**good, **changes})  # type: ignore[arg-type]


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="failure_threshold") as caught:
        RouterConfig(port=-1, failure_threshold=0)
    assert len(str(caught.value).splitlines()) == 3


def test_defaults_and_order_of_the_public_fields() -> None:
    config = RouterConfig(
        "127.0.0.1", 9001, [ReplicaEndpoint("http://a", "one", True, 2.0)], "/up", 1, 0.5, 4, 5
    )
    assert dataclasses.astuple(config)[3:] == ("/up", 1, 0.5, 4, 5)
    defaults = RouterConfig(replicas=[ReplicaEndpoint("http://a")])
    assert (defaults.host, defaults.port, defaults.health_check_path) == ("0.0.0.0", 9000, "/health")
    assert (defaults.health_check_interval_seconds, defaults.health_check_timeout_seconds) == (5.0, 2.0)
    assert (defaults.failure_threshold, defaults.recovery_threshold) == (3, 2)
    assert dataclasses.astuple(defaults.replicas[0]) == ("http://a", None, False, 1.0, None, False)


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://A:80/", "http://a"),
        ("HTTPS://a:443", "https://a"),
        ("http://a:443", "http://a:443"),
        ("http://[0:0:0:0:0:0:0:1]:80", "http://[::1]"),
        ("http://a:8000//", "http://a:8000"),
        ("not a url/", "not a url"),
        ("http://[::1", "http://[::1"),
    ],
)
def test_one_spelling_of_a_url(url: str, normal: str) -> None:
    assert normalised_url(url) == normal
    assert normalised_url(normal) == normal


@pytest.mark.parametrize("url", ["http://a:8000", "http://a:8000/"])
@pytest.mark.parametrize("path", ["/health", "health"])
def test_a_joined_path_has_one_slash(url: str, path: str) -> None:
    assert join_url(url, path) == "http://a:8000/health"


@pytest.mark.parametrize(
    ("url", "path", "query", "expected"),
    [
        ("http://a:8000/", b"/v1/stream", b"t=a%2Fb&t=c", "ws://a:8000/v1/stream?t=a%2Fb&t=c"),
        ("https://a", b"/v1/stream/", b"", "wss://a/v1/stream/"),
        ("http://[::1]:9", "/ws", "", "ws://[::1]:9/ws"),
        ("http://a", b"/%2e%2e/%FF", b"", "ws://a/%2e%2e/%FF"),
    ],
)
def test_a_websocket_url_keeps_path_and_query_as_sent(
    url: str, path: bytes | str, query: bytes | str, expected: str
) -> None:
    assert websocket_url(url, path, query) == expected


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        (ReplicaEndpoint("http://a:8000", "one"), "one"),
        (ReplicaEndpoint("http://a:8000/"), "a:8000"),
        (ReplicaEndpoint("https://a"), "a:443"),
        (ReplicaEndpoint("http://[::1]:9101"), "[::1]:9101"),
        (ReplicaEndpoint("nonsense"), "nonsense"),
    ],
)
def test_a_replica_without_a_name_is_called_by_host_and_port(endpoint: ReplicaEndpoint, name: str) -> None:
    assert endpoint.display_name == name


def test_duplicates_name_both_spellings() -> None:
    (problem,) = replicas_problems([ReplicaEndpoint("http://a"), ReplicaEndpoint("http://A/")])
    assert "'http://A/'" in problem
    assert "'http://a'" in problem


def test_a_health_policy_takes_over_what_a_config_says() -> None:
    config = RouterConfig(
        replicas=[ReplicaEndpoint("http://a")],
        health_check_path="/up",
        health_check_interval_seconds=1,
        health_check_timeout_seconds=0.5,
        failure_threshold=4,
        recovery_threshold=5,
    )
    policy = HealthPolicy.from_config(config)
    assert policy == HealthPolicy("/up", 1, 0.5, 4, 5)
    assert policy.expect_status == (200, 204)
    assert policy.expect_body == {"status": ("ok", "ready")}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"interval_seconds": 0}, "interval_seconds must be more than 0"),
        ({"unhealthy_interval_seconds": 0}, "unhealthy_interval_seconds must be more than 0"),
        ({"jitter": 1.0}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"expect_status": ()}, "expect_status"),
        ({"expect_status": (42,)}, "expect_status"),
        ({"path": "/a#b"}, "path"),
    ],
)
def test_a_health_policy_that_cannot_work_is_a_value_error(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        HealthPolicy(**changes)  # type: ignore[arg-type]


def test_a_replica_takes_sessions_only_when_nothing_speaks_against_it() -> None:
    healthy = ReplicaHealth(ReplicaStatus.HEALTHY)
    endpoint = ReplicaEndpoint("http://a", max_sessions=1)
    assert Replica(endpoint, healthy).takes_sessions
    assert not Replica(endpoint).takes_sessions
    assert not Replica(endpoint, healthy, draining=True).takes_sessions
    assert not Replica(endpoint, healthy, removed=True).takes_sessions
    assert not Replica(endpoint, healthy, sessions=1).takes_sessions
