"""What only a real server can do to a store: its own clock, its failures, access lists, TLS, a cluster."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis import Redis

from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.redis_scripts import COMMANDS, beat_script, leave_script, view_script
from gateway.fleet.redis_store import RedisFleetStore, open_client
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Beat
from tests.gateway.fleet.conftest import Servers
from tests.gateway.fleet.views import seconds
from tests.support.ports import free_port
from tests.support.redis_server import KINDS, Kind, RedisServer
from tests.support.waiting import eventually

SPEC = FleetSpec("gateways", seconds(10))
CONFIG = RedisFleetConfig("app")
TLS = Path(__file__).parent / "tls"
"""A server's certificate for localhost and the authority that signed it, both of no other use."""


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """A server of this test's own, to be ill-treated."""
    server = RedisServer(request.param, tmp_path)
    yield server
    server.kill()


@asynccontextmanager
async def opened(
    url: str, spec: FleetSpec = SPEC, *, timeout_seconds: float = 10.0, cluster: bool = False
) -> AsyncIterator[RedisFleetStore]:
    client = open_client(url, timeout_seconds=timeout_seconds, cluster=cluster)
    try:
        yield RedisFleetStore(client, spec, CONFIG)
    finally:
        await client.aclose()


async def ids(store: RedisFleetStore) -> list[str]:
    return [member.id for member in (await store.view()).members]


async def test_time_is_the_servers(server: RedisServer) -> None:
    async with opened(server.url) as store:
        before = datetime.now(UTC)
        answer = await store.beat(Beat("a"))
        view = await store.view()
        after = datetime.now(UTC)
    assert before <= answer.view.at <= view.at <= after  # the server runs on this machine
    assert answer.view.members[0].since == answer.view.at
    assert view.members[0].since == answer.view.at


async def test_entries_and_keys_expire_by_the_servers_clock(server: RedisServer) -> None:
    async with opened(server.url, FleetSpec("brief", seconds(0.2))) as store:
        view = (await store.beat(Beat("a"))).view
        assert [member.id for member in view.members] == ["a"]
        await eventually(
            lambda: server.say("EXISTS", "{fleet:app:brief}:z", "{fleet:app:brief}:h") == ":0", "gone"
        )
        assert await ids(store) == []
        assert (await store.view()).at - view.at >= seconds(1.2)


async def test_a_server_that_forgot_the_scripts_is_told_them_again(server: RedisServer) -> None:
    async with opened(server.url) as store:
        for number in range(3):
            await store.beat(Beat("a", number=number))
            assert server.say("SCRIPT", "FLUSH") == "+OK"
            assert await ids(store) == ["a"]


async def test_a_server_that_restarted_behind_an_idle_connection_is_no_failure(
    own_server: RedisServer, tmp_path: Path
) -> None:
    async with opened(own_server.url) as store:
        await store.beat(Beat("a"))
        own_server.kill()
        again = RedisServer(own_server.kind, tmp_path, port=own_server.port)
        try:
            answer = await store.beat(Beat("a", number=1))
            assert (answer.found, [member.id for member in answer.view.members]) == (None, ["a"])
        finally:
            again.kill()


async def test_a_server_that_is_down_is_unavailable_at_once(own_server: RedisServer) -> None:
    async with opened(own_server.url) as store:
        await store.beat(Beat("a"))
        own_server.kill()
        for call in (store.beat(Beat("a")), store.view(), store.leave("a")):
            with pytest.raises(FleetUnavailable, match="no usable answer"):
                await call


def in_bulk(*texts: bytes) -> bytes:
    return b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)


TWICE = in_bulk(b"a", b"1\ti\t1\t1\tserving\t{}") * 2


@pytest.mark.parametrize("cluster", [False, True], ids=["one", "cluster"])
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(b"+OK\r\n", id="ok"),
        pytest.param(b":1\r\n", id="number"),
        pytest.param(b"*0\r\n", id="empty"),
        pytest.param(b"*4\r\n" + in_bulk(b"x", b"y") + b":1\r\n*0\r\n", id="no time"),
        pytest.param(b"*4\r\n" + in_bulk(b"9" * 40, b"y") + b":1\r\n*0\r\n", id="no such time"),
        pytest.param(b"*4\r\n" + in_bulk(b"1", b"y") + b":1\r\n*4\r\n" + TWICE, id="one id twice"),
        pytest.param(b"*4\r\n" + in_bulk(b"1", b"y") + b":1\r\n*1\r\n" + in_bulk(b"a"), id="half a pair"),
        pytest.param(b"*4\r\n" + in_bulk(b"1", b"y") + b":1\r\n*2\r\n$-1\r\n$-1\r\n", id="no ids"),
        pytest.param(b"-MOVED somewhere\r\n", id="moved"),
        pytest.param(b"-ERR " + b"no, " * 100_000 + b"\r\n", id="much to say"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_what_is_no_store_is_one_that_gives_no_usable_answer(reply: bytes, cluster: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while reply and await reader.read(65_536):
                writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, opened(url, timeout_seconds=0.3, cluster=cluster) as store:
        for call in (store.beat(Beat("a")), store.view()):
            with pytest.raises(FleetUnavailable, match="no usable answer") as told:
                await call
            assert len(str(told.value)) < 500


async def test_a_cluster_that_is_down_is_unavailable() -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}", cluster=True) as store:
        for call in (store.beat(Beat("a")), store.view(), store.leave("a")):
            with pytest.raises(FleetUnavailable, match="no usable answer"):
                await call


@pytest.mark.parametrize("url", ["redis://127.0.0.1/3", "unix:///nowhere"])
def test_what_no_cluster_has_is_refused_for_one(url: str) -> None:
    with pytest.raises(FleetRefused, match="cannot be used"):
        open_client(url, cluster=True)


async def test_a_server_that_hangs_is_given_up_in_time_and_may_have_applied_the_beat(
    own_server: RedisServer,
) -> None:
    async with opened(own_server.url, timeout_seconds=1) as store:
        await store.beat(Beat("a", report={"load": 1}))
        own_server.freeze()
        started = time.monotonic()
        with pytest.raises(FleetUnavailable):
            await store.beat(Beat("a", number=1, report={"load": 2}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await store.beat(Beat("a", number=2, report={"load": 3}))
        assert time.monotonic() - started < 20  # redis-py's own defaults would retry for as long as they like
        own_server.thaw()

        async def load() -> bool:
            try:
                return (await store.view()).members[0].report != {"load": 1}
            except FleetUnavailable:
                return False

        await eventually(load, "what was sent before the freeze has been applied")
        # No answer is taken for that of another call, and nothing late undoes what is newer.
        answer = await store.beat(Beat("a", number=3, report={"load": 4}))
        assert answer.view.members[0].report == {"load": 4}
        assert (await store.beat(Beat("b"))).view.member("b") is not None
        assert [member.report for member in (await store.view()).members] == [{"load": 4}, {}]


@pytest.mark.parametrize("mode", ["ALL", "WRITE"])
async def test_a_server_that_is_paused_is_slow_or_unavailable(own_server: RedisServer, mode: str) -> None:
    async with opened(own_server.url) as patient, opened(own_server.url, timeout_seconds=0.1) as hasty:
        assert own_server.say("CLIENT", "PAUSE", "1500", mode) == "+OK"
        with pytest.raises(FleetUnavailable):
            await hasty.beat(Beat("b"))
        answer = await patient.beat(Beat("a"))
        assert answer.view.member("a") is not None

        async def answers() -> bool:
            try:
                return (await hasty.beat(Beat("b", number=1))).written
            except FleetUnavailable:
                return False

        await eventually(answers, "it answers again")
        assert await ids(patient) == ["a", "b"]


async def test_a_server_that_is_no_primary_any_more_is_connected_to_anew(
    own_server: RedisServer, servers: Servers
) -> None:
    """After a failover the name may lead to another server, and the old connection would never tell."""
    async with opened(own_server.url) as store:
        await store.beat(Beat("a"))
        assert own_server.say("REPLICAOF", "127.0.0.1", str(servers[own_server.kind].port)) == "+OK"
        with Redis(port=own_server.port) as redis:
            before = _connections(redis)
            with pytest.raises(FleetUnavailable, match="read only replica"):
                await store.beat(Beat("a", number=1))
            assert _connections(redis) > before
        assert own_server.say("REPLICAOF", "NO", "ONE") == "+OK"
        assert (await store.beat(Beat("a", number=2))).written


def _connections(redis: Redis) -> int:
    stats = redis.info("stats")
    assert isinstance(stats, dict)
    return int(stats["total_connections_received"])


async def test_a_flush_makes_a_new_fleet(own_server: RedisServer) -> None:
    async with opened(own_server.url) as store:
        first = await store.beat(Beat("a"))
        assert own_server.say("FLUSHALL") == "+OK"
        second = await store.beat(Beat("a", number=1))
        assert second.found is None
        assert second.view.members[0].since > first.view.members[0].since


async def test_a_key_that_is_something_else_is_told(server: RedisServer) -> None:
    async with opened(server.url) as store:
        assert server.say("SET", "{fleet:app:gateways}:z", "hello") == "+OK"
        with pytest.raises(FleetUnavailable, match="WRONGTYPE"):
            await store.beat(Beat("a"))


async def test_a_user_with_the_commands_listed_can_do_all_and_nothing_else(own_server: RedisServer) -> None:
    rights = ["~{fleet:*", "resetchannels", "-@all", *(f"+{name.lower()}" for name in COMMANDS)]
    assert own_server.say("ACL", "SETUSER", "fleet", "on", ">secret", *rights) == "+OK"
    assert own_server.say("ACL", "SETUSER", "other", "on", ">secret", "~app:*", "+@all") == "+OK"
    url = f"127.0.0.1:{own_server.port}/0"
    async with opened(f"redis://fleet:secret@{url}", FleetSpec("brief", seconds(0.05))) as store:
        await store.beat(Beat("a"))
        assert own_server.say("DEL", "{fleet:app:brief}:z") == ":1"
        await store.beat(Beat("b", ttl=seconds(60)))  # the repair needs its rights too
        assert await store.leave("b")

        async def expired() -> bool:
            return len((await store.beat(Beat("c", ttl=seconds(60)))).view.members) == 1

        await eventually(expired, "the others are expired")
        assert await ids(store) == ["c"]
    async with opened(f"redis://other:secret@{url}") as store:
        with pytest.raises(FleetUnavailable, match=r"(?i)no permissions"):
            await store.beat(Beat("a"))
    for wrong in (f"redis://fleet:wrong@{url}", f"redis://nobody:secret@{url}"):
        async with opened(wrong) as store:
            with pytest.raises(FleetUnavailable) as refusal:
                await store.beat(Beat("a"))
            assert "secret" not in str(refusal.value)


def test_the_commands_listed_are_those_of_the_scripts() -> None:
    text = beat_script() + view_script() + leave_script()
    assert {*re.findall(r"redis\.call\('(\w+)'", text), "EVAL", "EVALSHA"} == set(COMMANDS)
    assert not text.startswith("#!")


@pytest.mark.parametrize("cluster", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cluster_keeps_both_keys_in_one_slot(kind: Kind, tmp_path: Path, cluster: bool) -> None:
    bus = str(free_port())  # its default, 10000 above the other, may be somebody's outgoing connection
    node = RedisServer(kind, tmp_path, options=["--cluster-enabled", "yes", "--cluster-port", bus])
    try:
        assert node.say("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == "+OK"
        await eventually(lambda: node.say("SET", "x", "y") == "+OK", "the cluster is up")
        async with opened(node.url.removesuffix("/0"), cluster=cluster) as store:
            await store.beat(Beat("a"))
            assert await ids(store) == ["a"]
            assert await store.leave("a")
    finally:
        node.kill()


async def test_a_server_without_memory_refuses_every_beat(own_server: RedisServer) -> None:
    async with opened(own_server.url) as store:
        await store.beat(Beat("a"))
        await store.beat(Beat("b", ttl=seconds(0.001)))
        await eventually_ids(store, ["a"])
        assert own_server.say("CONFIG", "SET", "maxmemory", "1") == "+OK"
        for _ in range(2):  # not even the one that would remove what has expired, and has written by then
            with pytest.raises(FleetUnavailable, match="maxmemory"):
                await store.beat(Beat("c"))
        assert own_server.say("CONFIG", "SET", "maxmemory", "0") == "+OK"
        answer = await store.beat(Beat("c"))
        assert [member.id for member in answer.view.members] == ["a", "c"]


async def eventually_ids(store: RedisFleetStore, expected: list[str]) -> None:
    async def there() -> bool:
        return await ids(store) == expected

    await eventually(there, f"the members are {expected}")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_asks_for_a_password_is_told_as_that(kind: Kind, tmp_path: Path) -> None:
    server = RedisServer(kind, tmp_path, options=["--requirepass", "hush"])
    try:
        async with opened(server.url) as store:
            with pytest.raises(FleetUnavailable, match=r"asks for a password|Authentication required"):
                await store.beat(Beat("a"))
        async with opened(server.url.replace("//", "//:wrong@")) as store:
            with pytest.raises(FleetUnavailable, match="invalid username-password pair") as refusal:
                await store.beat(Beat("a"))
        assert "wrong" not in str(refusal.value)
    finally:
        server.kill()


async def test_tls_verifies_the_server(tmp_path: Path) -> None:
    options = ["--tls-cert-file", f"{TLS}/server.crt", "--tls-key-file", f"{TLS}/server.key"]
    options += ["--tls-auth-clients", "no", "--tls-port"]
    port = free_port()
    server = RedisServer("redis", tmp_path, options=[*options, str(port)])
    try:
        async with opened(f"rediss://localhost:{port}/0?ssl_ca_certs={TLS}/authority.crt") as store:
            assert (await store.beat(Beat("a"))).written
        for unverified in (
            f"rediss://localhost:{port}/0",
            f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={TLS}/authority.crt",
        ):
            async with opened(unverified) as store:
                with pytest.raises(FleetUnavailable, match="certificate"):
                    await store.beat(Beat("a"))
    finally:
        server.kill()


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:6379", "redis://127.0.0.1:port", ""])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(FleetRefused, match="url cannot be used"):
        open_client(url)
