"""Replicas that announce themselves, as a gateway would see them: through a real server of the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.announcing import CannotAnnounce, Place, announcing
from emulator.farm import Farm
from gateway.fleet.announce import FleetUnavailable, streamers_fleet
from gateway.fleet.member import FleetMember
from tests.support.ports import free_port
from tests.support.redis_server import KINDS, RedisServer
from tests.support.waiting import eventually

SHORT_SECONDS = 0.9
LONG_SECONDS = 60.0


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(request.param, tmp_path_factory.mktemp("server"))
    yield server
    server.kill()


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    assert shared.say("FLUSHALL") == "+OK"
    return shared


class Onlooker:
    """What the fleet has, by the replicas' names."""

    def __init__(self, server: RedisServer) -> None:
        self._url = server.url

    async def members(self) -> dict[str, FleetMember]:
        async with streamers_fleet(self._url) as fleet:
            view = await fleet.view()
        # Of two lives of one replica the later one counts.
        return {str(one.report["name"]): one for one in sorted(view.members, key=lambda one: one.since)}

    async def states(self) -> dict[str, str]:
        return {name: member.state.value for name, member in (await self.members()).items()}

    async def until(self, **expected: str) -> dict[str, FleetMember]:
        async def there() -> bool:
            try:
                return await self.states() == expected
            except FleetUnavailable:
                return False

        await eventually(there, f"the fleet has {expected}")
        return await self.members()


async def test_replicas_that_run_are_members_and_none_are_left_at_the_end(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=2, capacity=3) as farm:
        async with announcing(farm, Place(server.url)):
            members = await seen.until(a="serving", b="serving")
            assert dict(members["b"].report) == {
                "url": farm.replicas["b"].url,
                "name": "b",
                "capacity": 3,
                "load": 0,
            }
        assert await seen.states() == {}


async def test_replicas_are_announced_under_the_name_that_others_reach_them_by(server: RedisServer) -> None:
    async with Farm(replicas=1, host="127.0.0.2") as farm:
        async with announcing(farm, Place(server.url, host="emulator")):
            members = await Onlooker(server).until(a="serving")
    assert members["a"].report["url"] == f"http://emulator:{farm.replicas['a'].port}"


async def test_a_killed_replica_expires_and_is_a_new_member_when_it_is_back(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=2) as farm, announcing(farm, Place(server.url, ttl_seconds=SHORT_SECONDS)):
        before = await seen.until(a="serving", b="serving")
        await farm.kill("a")
        assert "a" in await seen.states()
        await seen.until(b="serving")
        await farm.restart("a")
        after = await seen.until(a="serving", b="serving")
    assert after["a"].id != before["a"].id
    assert (after["b"].id, after["b"].since) == (before["b"].id, before["b"].since)


async def test_a_paused_replica_is_the_same_member_when_it_goes_on_in_time(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=1) as farm, announcing(farm, Place(server.url, ttl_seconds=LONG_SECONDS)):
        before = await seen.until(a="serving")
        await farm.pause("a")
        assert await seen.states() == {"a": "serving"}
        await farm.resume("a")
        after = await seen.until(a="serving")
    assert (after["a"].id, after["a"].since) == (before["a"].id, before["a"].since)


async def test_a_replica_that_is_paused_for_longer_expires_and_joins_anew(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=1) as farm, announcing(farm, Place(server.url, ttl_seconds=SHORT_SECONDS)):
        before = await seen.until(a="serving")
        await farm.pause("a")
        await seen.until()
        await farm.resume("a")
        after = await seen.until(a="serving")
    assert after["a"].id == before["a"].id
    assert after["a"].since > before["a"].since


async def test_replicas_that_are_added_replaced_and_removed_say_so(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=1) as farm, announcing(farm, Place(server.url, ttl_seconds=LONG_SECONDS)):
        before = await seen.until(a="serving")
        await farm.add("z")
        await seen.until(a="serving", z="serving")
        await farm.remove("z")
        await seen.until(a="serving")
        await farm.replicas["a"].replace(away_seconds=0.3)
        await seen.until()
        after = await seen.until(a="serving")
    assert after["a"].id != before["a"].id


async def test_a_replica_that_warms_up_is_starting(server: RedisServer) -> None:
    seen = Onlooker(server)
    async with Farm(replicas=1) as farm, announcing(farm, Place(server.url, ttl_seconds=SHORT_SECONDS)):
        await seen.until(a="serving")
        await farm.restart("a", warming_seconds=1.5)
        await seen.until(a="starting")
        await seen.until(a="serving")


async def test_one_that_is_back_while_the_server_is_away_announces_itself_later(
    tmp_path: Path,
) -> None:
    server = RedisServer("redis", tmp_path)
    seen = Onlooker(server)
    async with Farm(replicas=2) as farm, announcing(farm, Place(server.url, ttl_seconds=SHORT_SECONDS)):
        await seen.until(a="serving", b="serving")
        server.kill()
        await farm.restart("a")
        again = RedisServer("redis", tmp_path, port=server.port)
        try:
            await seen.until(a="serving", b="serving")
        finally:
            again.kill()


async def test_another_fleet_and_namespace(server: RedisServer) -> None:
    async with Farm(replicas=1) as farm:
        async with announcing(farm, Place(server.url, name="gpus", namespace="app")):
            async with streamers_fleet(server.url, name="gpus", namespace="app") as fleet:
                assert await Onlooker(server).states() == {}

                async def there() -> bool:
                    return len((await fleet.view()).members) == 1

                await eventually(there, "it is in the other fleet")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place("redis://me:hunter2@127.0.0.1:{port}"), "no usable answer"),
        (Place("amqp://me:hunter2@127.0.0.1:{port}"), "url cannot be used"),
        (Place("redis://127.0.0.1:{port}", name="a:b"), "no colon"),
        (Place("redis://127.0.0.1:{port}", ttl_seconds=0), "at least a millisecond"),
        (Place("redis://127.0.0.1:{port}", ttl_seconds=1e300), "too long"),
    ],
)
async def test_where_nothing_can_be_announced_it_does_not_begin(place: Place, said: str) -> None:
    url = place.url.format(port=free_port())
    async with Farm(replicas=1) as farm:
        with pytest.raises(CannotAnnounce, match=said) as refused:
            async with announcing(farm, Place(url, place.name, place.namespace, place.ttl_seconds)):
                raise AssertionError("it began")
    assert "hunter2" not in str(refused.value)


async def test_an_error_inside_is_not_taken_for_one_of_the_fleet(server: RedisServer) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with Farm(replicas=1) as farm, announcing(farm, Place(server.url)):
            raise TimeoutError("something else")
    assert raised.group_contains(TimeoutError, match="something else")
    assert await Onlooker(server).states() == {}
