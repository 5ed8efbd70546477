"""What a replica is by what AWS has of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.discovery.attributes import Defaults, Found, NoReplica, distinct, listed_from
from gateway.discovery.listing import Listed
from gateway.replicas.endpoint import ReplicaEndpoint

PLAIN = Defaults(port=8000)


def listed(said: Mapping[str, str], *, host: str = "10.0.0.7", port: str | None = "9101") -> Listed:
    return listed_from(host, port, said, PLAIN, takes_sessions=True)


@pytest.mark.parametrize(
    ("said", "endpoint"),
    [
        ({}, ReplicaEndpoint("http://10.0.0.7:9101")),
        ({"name": "a"}, ReplicaEndpoint("http://10.0.0.7:9101", "a")),
        ({"name": "a" * 128}, ReplicaEndpoint("http://10.0.0.7:9101", "a" * 128)),
        ({"scheme": "https"}, ReplicaEndpoint("https://10.0.0.7:9101")),
        ({"port": "9200"}, ReplicaEndpoint("http://10.0.0.7:9200")),
        ({"capacity": "4"}, ReplicaEndpoint("http://10.0.0.7:9101", max_sessions=4)),
        ({"weight": "0.5"}, ReplicaEndpoint("http://10.0.0.7:9101", weight=0.5)),
        ({"primary": "true"}, ReplicaEndpoint("http://10.0.0.7:9101", primary=True)),
        ({"primary": "False"}, ReplicaEndpoint("http://10.0.0.7:9101")),
        ({"cold_start": "yes"}, ReplicaEndpoint("http://10.0.0.7:9101", cold_start=True)),
        ({"capacity": "", "weight": "", "name": ""}, ReplicaEndpoint("http://10.0.0.7:9101")),
        ({"owner": "others", "AVAILABILITY_ZONE": "x"}, ReplicaEndpoint("http://10.0.0.7:9101")),
    ],
)
def test_a_replica_says_what_it_is(said: Mapping[str, str], endpoint: ReplicaEndpoint) -> None:
    assert listed(said) == Listed(endpoint)


def test_one_without_places_is_known_and_takes_no_session() -> None:
    assert listed({"capacity": "0"}) == Listed(ReplicaEndpoint("http://10.0.0.7:9101"), takes_sessions=False)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("2001:db8::7", "http://[2001:db8::7]:9101"),
        ("2001:0db8:0000::0007", "http://[2001:db8::7]:9101"),
        ("replica.internal", "http://replica.internal:9101"),
    ],
)
def test_a_host_is_an_address_or_a_name(host: str, url: str) -> None:
    assert listed({}, host=host).endpoint.url == url


def test_a_port_that_nobody_says_is_the_default() -> None:
    assert listed({}, port=None).endpoint.url == "http://10.0.0.7:8000"
    with pytest.raises(NoReplica, match=r"set discovery\.port"):
        listed_from("10.0.0.7", None, {}, Defaults(), takes_sessions=True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"scheme": "ftp"}, "scheme should be http or https, not 'ftp'"),
        ({"port": "0"}, "port should be a number from 1 to 65535"),
        ({"port": "70000"}, "port should be"),
        ({"port": "٤٢"}, "port should be"),
        ({"capacity": "-1"}, "capacity should be a whole number of 0 or more"),
        ({"capacity": "four"}, "capacity should be"),
        ({"weight": "heavy"}, "weight should be a number"),
        ({"weight": "nan"}, "weight of a replica must be finite"),
        ({"weight": "-1"}, "0 or more"),
        ({"primary": "perhaps"}, "primary should be true or false"),
        ({"cold_start": "2"}, "cold_start should be true or false"),
        ({"name": " "}, "must be printable text"),
        ({"name": "a" * 129}, "must have at most 128 characters, not 129$"),
    ],
)
def test_what_cannot_be_one_is_told_why(said: Mapping[str, str], reason: str) -> None:
    with pytest.raises(NoReplica, match=reason):
        listed(said)


@pytest.mark.parametrize("host", ["", "not a host", "a/b", "user@host"])
def test_a_host_that_is_none_makes_no_replica(host: str) -> None:
    with pytest.raises(NoReplica):
        listed({}, host=host)


def found(id: str, url: str = "http://a:1", *, healthy: bool = True, takes: bool = True) -> Found:
    return Found(id, Listed(ReplicaEndpoint(url, id), takes), healthy)


def names(*ones: Found) -> list[tuple[str | None, bool]]:
    return [(one.endpoint.name, one.takes_sessions) for one in distinct(ones)]


def test_of_several_with_one_id_the_last_counts() -> None:
    (one,) = distinct([found("i", "http://a:1"), found("i", "http://b:1")])
    assert one.key == "http://b:1"


def test_of_several_at_one_url_a_healthy_one_counts() -> None:
    assert names(found("i"), found("j", "http://A:1/", healthy=False)) == [("i", True)]
    assert names(found("i"), found("j")) == [("j", True)]


def test_an_unhealthy_one_takes_no_session_unless_all_are() -> None:
    one, other = found("i", "http://a:1"), found("j", "http://b:1", healthy=False)
    assert names(one, other) == [("i", True), ("j", False)]
    assert names(other, found("k", "http://c:1", healthy=False)) == [("j", True), ("k", True)]
    assert names(other, found("k", "http://c:1", healthy=False, takes=False)) == [("j", True), ("k", False)]
