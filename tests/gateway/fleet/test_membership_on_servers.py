"""Members on a real server that is slowed, stopped, emptied and killed: told once, good again by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.fleet.membership import FleetMembership
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.redis_store import RedisFleetStore, open_client
from gateway.fleet.spec import FleetSpec
from gateway.fleet.step import fleet_membership_lifecycle_step
from tests.gateway.fleet.views import seconds
from tests.support.redis_server import KINDS, RedisServer
from tests.support.waiting import eventually

SPEC = FleetSpec("gateways", seconds(6))
Lines = Callable[[str], list[str]]


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(request.param, tmp_path)
    yield server
    server.kill()


@asynccontextmanager
async def member(server: RedisServer, name: str) -> AsyncIterator[FleetMembership]:
    """A member that beats ten times a second, and gives a beat up after two seconds."""
    client = open_client(server.url, timeout_seconds=0.9)

    @asynccontextmanager
    async def closing() -> AsyncIterator[None]:
        yield
        await client.aclose()

    async with fleet_membership_lifecycle_step(
        SPEC,
        store=RedisFleetStore(client, SPEC, RedisFleetConfig("app")),
        every=seconds(0.1),
        report=lambda: {"load": 10 if name == "a" else 0},
        member_id=name,
        depends_on=[closing()],
    ) as membership:
        yield membership


def names(membership: FleetMembership) -> list[str]:
    return [each.id for each in membership.sighting.view.members]


async def together(one: FleetMembership, other: FleetMembership) -> None:
    def seen() -> bool:
        return all(
            each.fresh and [member.id for member in each.sighting.view.serving()] == ["a", "b"]
            for each in (one, other)
        )

    await eventually(seen, "both see both serving")


async def test_members_see_each_other_come_and_go(server: RedisServer) -> None:
    async with member(server, "a") as a:
        async with member(server, "b") as b:
            await together(a, b)
            await eventually(lambda: a.excess(0.1, seconds(0.01)) == 5, "the fleet has settled")
            assert b.excess(0.1, seconds(0.01)) == 0
            assert a.share(3) + b.share(3) == 3
            await eventually(lambda: a.status().hash == b.status().hash, "both hold the same view")
        await eventually(lambda: names(a) == ["a"], "b has left")
        assert a.excess(0.1, seconds(3600)) == 0


async def test_a_server_that_is_killed_and_comes_back_is_told_in_two_lines(
    own_server: RedisServer, tmp_path: Path, lines: Lines
) -> None:
    async with member(own_server, "a") as a, member(own_server, "b") as b:
        await together(a, b)
        own_server.kill()
        await eventually(lambda: a.status().failed_beats > 5, "beats fail")
        assert names(a) == ["a", "b"]
        assert a.share(3) + b.share(3) == 3
        assert a.excess(0.1, seconds(0)) == 0
        age = a.status().age_seconds
        await eventually(lambda: a.status().age_seconds > age, "the view ages")
        again = RedisServer(own_server.kind, tmp_path, port=own_server.port)
        try:
            await together(a, b)
            for name in "ab":
                for event in ("fleet_beat_failed", "fleet_beats_again"):
                    assert len([line for line in lines(event) if f"member={name}" in line]) == 1
        finally:
            again.kill()


async def test_a_server_that_stands_still_drops_nobody_who_comes_back_within_the_ttl(
    own_server: RedisServer, lines: Lines
) -> None:
    async with member(own_server, "a") as a, member(own_server, "b") as b:
        await together(a, b)
        since = a.sighting.view.members[0].since
        own_server.freeze()
        await eventually(lambda: a.status().failed_beats >= 1 and b.status().failed_beats >= 1, "beats fail")
        assert names(a) == ["a", "b"]
        own_server.thaw()
        await together(a, b)
        assert a.sighting.view.at - since > seconds(0)
        if not lines("fleet_entry_was_expired"):  # a busy machine may have let more than the ttl go by
            assert a.sighting.view.members[0].since == since
    assert lines("fleet_id_shared") == []


async def test_a_server_that_is_paused_is_a_slow_server(own_server: RedisServer) -> None:
    async with member(own_server, "a") as a, member(own_server, "b") as b:
        await together(a, b)
        seen = a.sighting.view.at
        assert own_server.say("CLIENT", "PAUSE", "300", "ALL") == "+OK"
        await eventually(lambda: a.sighting.view.at > seen + seconds(0.3), "it answers after the pause")
        await together(a, b)


async def test_a_flushed_server_makes_everyone_a_new_member(own_server: RedisServer, lines: Lines) -> None:
    async with member(own_server, "a") as a, member(own_server, "b") as b:
        await together(a, b)
        await eventually(lambda: a.excess(0.1, seconds(0.05)) == 5, "the fleet has settled")
        flushed_at = a.sighting.view.at
        assert own_server.say("FLUSHALL") == "+OK"
        await eventually(lambda: a.sighting.view.members[0].since > flushed_at, "a is new")
        assert a.excess(0.1, seconds(60)) == 0
        await together(a, b)
        assert a.sighting.unsettled_at is not None
    told = "".join(lines("fleet_entry_was_expired"))
    assert "member=a" in told
    assert "member=b" in told
