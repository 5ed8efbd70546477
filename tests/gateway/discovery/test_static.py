"""Configured replicas and discovered ones, together."""

from __future__ import annotations

from itertools import permutations

from gateway.discovery.listing import Listed
from gateway.discovery.static import with_configured
from gateway.replicas.endpoint import ReplicaEndpoint

A, B, C = (ReplicaEndpoint(f"http://{name}:8000", name) for name in "abc")


def test_configured_replicas_come_first_in_their_order() -> None:
    found = with_configured([C, B], [Listed(A)])
    assert found.endpoints == (C, B, A)


def test_the_order_of_a_listing_does_not_count() -> None:
    nameless = ReplicaEndpoint("http://b:9000")
    for order in permutations([A, B, C, nameless]):
        assert with_configured([], map(Listed, order)).endpoints == (A, B, nameless, C)


def test_a_configured_replica_that_is_listed_too_keeps_what_is_configured() -> None:
    again = ReplicaEndpoint("http://A:8000/", "other", weight=7.0, max_sessions=1)
    found = with_configured([A], [Listed(again, takes_sessions=False)])
    assert found.endpoints == (A,)
    assert found.withheld == {"http://a:8000"}
    assert found.problems == ()


def test_one_that_takes_no_session_is_withheld() -> None:
    found = with_configured([], [Listed(A), Listed(B, takes_sessions=False)])
    assert found.endpoints == (A, B)
    assert found.withheld == {"http://b:8000"}


def test_a_name_that_is_taken_gives_way_to_host_and_port() -> None:
    second = ReplicaEndpoint("http://z:8000", "a", max_sessions=2)
    found = with_configured([A], [Listed(second)])
    assert [endpoint.display_name for endpoint in found.endpoints] == ["a", "z:8000"]
    assert found.endpoints[1].max_sessions == 2


def test_where_that_is_taken_as_well_it_is_left_out_and_told_of() -> None:
    squatter = ReplicaEndpoint("http://a:8000", "z:8000")
    found = with_configured([squatter], [Listed(ReplicaEndpoint("http://z:8000")), Listed(B)])
    assert found.endpoints == (squatter, B)
    (problem,) = found.problems
    assert problem.who == "http://z:8000"
    assert "z:8000" in problem.reason
