"""A streamer that announces itself, as another process sees it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.announce import Announcement, MemberState, announced, announcer_id, streamers_fleet
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.spec import FleetSpec
from tests.gateway.fleet.scripted_store import FAILS, ScriptedStore
from tests.gateway.fleet.views import seconds
from tests.support.redis_server import RedisServer
from tests.support.waiting import eventually

SPEC = FleetSpec("replicas", seconds(10))
A = Announcement("http://a:8000", "a", 2)


async def test_it_is_serving_soon_and_gone_at_the_end() -> None:
    store = MemoryFleetStore(SPEC, MemoryServer())
    sessions = 0
    async with announced(A, store, load=lambda: sessions) as membership:
        sessions = 1

        async def serving() -> bool:
            (member,) = (await store.view()).members
            assert member.id == membership.id
            return (member.state, member.report) == (
                MemberState.SERVING,
                {"url": "http://a:8000", "name": "a", "capacity": 2, "load": 1},
            )

        await eventually(serving, "it serves")
    assert (await store.view()).members == ()


async def test_one_process_announces_several() -> None:
    store = MemoryFleetStore(SPEC, MemoryServer())
    async with announced(A, store), announced(Announcement("http://b:8000"), store):
        assert {member.report["url"] for member in (await store.view()).members} == {
            "http://a:8000",
            "http://b:8000",
        }
    assert announcer_id() != announcer_id()


async def test_a_store_that_does_not_answer_stops_the_start() -> None:
    with pytest.raises(FleetUnavailable, match="connection refused"):
        async with announced(A, ScriptedStore(MemoryServer(), FAILS)):
            raise AssertionError("it began")
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("http://127.0.0.1", {}, "url cannot be used"),
        ("redis://127.0.0.1", {"name": "a:b"}, "no colon"),
        ("redis://127.0.0.1", {"namespace": "{}"}, "no brace"),
        ("redis://127.0.0.1", {"ttl": seconds(0)}, "ttl"),
    ],
)
async def test_a_fleet_that_breaks_a_rule_is_refused(url: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        async with streamers_fleet(url, **options):  # type: ignore[arg-type]
            raise AssertionError("it began")


async def test_over_a_real_server(server: RedisServer) -> None:
    async with streamers_fleet(server.url, ttl=seconds(5)) as fleet:
        async with announced(A, fleet, state=lambda: MemberState.DRAINING, on_stop="linger"):
            assert len((await fleet.view()).members) == 1
        (member,) = (await fleet.view()).members
        assert (member.state, member.report["url"]) == (MemberState.DRAINING, "http://a:8000")
