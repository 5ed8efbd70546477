"""Which replicas a view of the streamers' fleet lists."""

from __future__ import annotations

import pytest

from gateway.discovery.belief import Patience
from gateway.discovery.fleet import FleetSource, listing_of
from gateway.discovery.listing import Listed
from gateway.discovery.watch import Pace
from gateway.errors import SourceUnavailable
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Beat
from gateway.replicas.endpoint import ReplicaEndpoint
from tests.gateway.fleet.scripted_store import FAILS, ScriptedStore
from tests.gateway.fleet.views import member, seconds, view

SPEC = FleetSpec("replicas", seconds(10))
PACE = Pace(3, 2, Patience(10, 30))


@pytest.mark.parametrize(("state", "takes"), [("serving", True), ("starting", False), ("draining", False)])
def test_only_serving_members_take_sessions(state: str, takes: bool) -> None:
    listing = listing_of(view(member("m", state, url="http://a:8000", name="a", capacity=4)))
    endpoint = ReplicaEndpoint("http://a:8000", "a", max_sessions=4)
    assert listing.replicas == (Listed(endpoint, takes_sessions=takes),)


def test_a_replica_without_places_takes_no_session() -> None:
    (listed,) = listing_of(view(member("m", url="http://a:8000", capacity=0))).replicas
    assert not listed.takes_sessions


def test_of_two_members_at_one_url_the_one_that_joined_last_counts() -> None:
    killed = member("z-before", "draining", since=10, url="http://a:8000", capacity=1)
    again = member("a-again", since=20, url="http://A:8000/", capacity=4)
    (listed,) = listing_of(view(killed, again)).replicas
    assert (listed.endpoint.max_sessions, listed.takes_sessions) == (4, True)


def test_what_is_no_announcement_is_left_out_and_named() -> None:
    listing = listing_of(view(member("bad", url="nonsense"), member("good", url="http://a:8000"), "mute"))
    assert [listed.endpoint.url for listed in listing.replicas] == ["http://a:8000"]
    assert {problem.who for problem in listing.problems} == {"bad", "mute"}


def test_a_name_that_is_too_long_is_told_without_being_repeated() -> None:
    (problem,) = listing_of(view(member("long", url="http://a:8000", name="n" * 100_000))).problems
    assert (problem.who, "not 100000" in problem.reason) == ("long", True)
    assert len(problem.reason) < 100


async def test_a_source_reads_the_store_and_joins_nothing() -> None:
    store = MemoryFleetStore(SPEC, MemoryServer())
    await store.beat(Beat("m", report={"url": "http://a:8000"}))
    source = FleetSource(store, PACE)
    assert await source.revision() is None
    assert [listed.key for listed in (await source.listing()).replicas] == ["http://a:8000"]
    assert [one.id for one in (await store.view()).members] == ["m"]


async def test_a_store_that_does_not_answer_makes_the_source_unavailable() -> None:
    source = FleetSource(ScriptedStore(MemoryServer(), FAILS), PACE)
    with pytest.raises(SourceUnavailable, match="connection refused"):
        await source.listing()
