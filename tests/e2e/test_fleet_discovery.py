"""Replicas that announce themselves, gateways that find them, and a server between them that can fail."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.fleet.announce import streamers_fleet
from gateway.fleet.store import Beat
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import Clients, clients_of
from tests.support.long_session import After, LongSession, Prompt
from tests.support.processes import BIN, RunningProcess
from tests.support.redis_server import KINDS, RedisServer
from tests.support.streaming_client import drive_session
from tests.support.undisturbed import assert_undisturbed, resumes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TTL_SECONDS = 2.0
FAST = ("--segment-seconds", "0.05")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(request.param, tmp_path)
    yield server
    server.kill()


def discovering(server: RedisServer, **more: object) -> dict[str, object]:
    """The settings of a gateway that is told of no replica."""
    return {
        "fleet__backend": "redis",
        "fleet__url": server.url,
        "fleet__ttl_seconds": TTL_SECONDS,
        "fleet__every_seconds": 0.4,
        "fleet__settle_seconds": 3 * TTL_SECONDS,
        "discovery__kind": "fleet",
        **more,
    }


def gateway_for(folder: Path, server: RedisServer, **more: Any) -> GatewayProcess:
    """It serves before it knows a replica."""
    return GatewayProcess(folder, settings=discovering(server, **more), wait_for="/readyz?own=1")


def announcing_emulator(folder: Path, server: RedisServer, *, replicas: int = 3) -> EmulatorProcess:
    words = ("--announce", server.url, "--announce-ttl", str(TTL_SECONDS))
    return EmulatorProcess(folder, *words, *FAST, replicas=replicas)


def announcer(folder: Path, server: RedisServer, name: str, url: str, *options: str) -> RunningProcess:
    """`python -m gateway announce` beside a replica."""
    command: list[str | Path] = [BIN / "python", "-m", "gateway", "announce", "--url", url, "--name", name]
    command += ["--redis", server.url, "--ttl", str(TTL_SECONDS), *options]
    return RunningProcess(command, log=folder / f"announcer-{name}.log")


async def replicas(gateway: GatewayProcess) -> dict[str, Mapping[str, Any]]:
    """The entries of /status by name."""
    return {one["name"]: one for one in (await gateway.get("/status")).json()["replicas"]}


async def until_known(gateway: GatewayProcess, *names: str) -> None:
    """Return once these are the gateway's replicas, healthy and taking sessions."""

    async def known() -> bool:
        found = await replicas(gateway)
        return list(found) == list(names) and all(
            one["status"] == "healthy" and not (one["draining"] or one["removed"]) for one in found.values()
        )

    try:
        await eventually(known, f"the replicas are {names}", timeout=40)
    except AssertionError as error:
        raise gateway.failure(f"{error}; they are {await replicas(gateway)}") from None


async def until_marked(gateway: GatewayProcess, name: str, mark: str) -> None:
    async def marked() -> bool:
        found = await replicas(gateway)
        return name in found and found[name][mark] is True

    await eventually(marked, f"{name} is {mark}", timeout=40)


@asynccontextmanager
async def asked_throughout(gateway: GatewayProcess) -> AsyncIterator[list[int]]:
    """What /readyz answers all the while."""
    answers: list[int] = []

    async def ask() -> None:
        while True:
            answers.append((await gateway.get("/readyz")).status_code)
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask())
        yield answers
        asking.cancel()


def events(gateway: GatewayProcess, event: str) -> list[str]:
    """The gateway's log lines of an event."""
    return [line for line in gateway.output().splitlines() if f" {event} " in f"{line} "]


async def test_replicas_join_are_killed_come_back_and_stop_while_sessions_run(
    tmp_path: Path, server: RedisServer
) -> None:
    async with gateway_for(tmp_path, server) as gateway, clients_of(gateway) as clients:
        not_ready = await gateway.get("/readyz")
        assert (not_ready.status_code, not_ready.json()["reason"]) == (503, "no_replica_known")
        assert (await gateway.get("/readyz?own=1")).status_code == 200
        refused = await drive_session(gateway.ws)
        assert (refused.close_code, refused.close_reason) == (1013, "no_healthy_replica")

        async with announcing_emulator(tmp_path, server) as emulator:
            await until_known(gateway, "a", "b", "c")
            assert (await gateway.get("/readyz")).status_code == 200
            found = await replicas(gateway)
            assert {name: one["url"] for name, one in found.items()} == emulator.urls
            assert {one["max_sessions"] for one in found.values()} == {4}
            assert (await drive_session(gateway.ws)).completed

            staying = await _session_on(gateway, clients, "a")
            await emulator.kill("b")
            await until_known(gateway, "a", "c")
            await emulator.restart("b")
            await until_known(gateway, "a", "b", "c")
            assert staying.story.resumed == []
            staying.let_go()
            await staying.over()
            staying.assert_served()

        await eventually(lambda: _has_none(gateway), "the replicas that stopped are gone", timeout=40)
        assert (await gateway.get("/readyz")).json()["reason"] == "no_replica_known"


async def test_a_session_on_a_replica_that_is_killed_goes_on_at_another(
    tmp_path: Path, server: RedisServer
) -> None:
    async with announcing_emulator(tmp_path, server, replicas=2) as emulator:
        async with gateway_for(tmp_path, server) as gateway:
            await until_known(gateway, "a", "b")
            asked = [Prompt("one", 1), Prompt("two", 2), Prompt("three", 3)]
            await emulator.arm("a", "kill", point="segment", segment=1)
            session = LongSession(gateway.ws, asked)
            assert_undisturbed(await session.run(), asked)
            assert resumes(session.story) == [(1, "b")]
            await until_known(gateway, "b")


@pytest.mark.parametrize(
    ("policy", "moves"), [("keep", False), ("drain", True), ("close", True)], ids=["keep", "drain", "close"]
)
async def test_sessions_on_a_replica_that_vanished_follow_on_unhealthy(
    tmp_path: Path, policy: str, moves: bool
) -> None:
    """The replica is well, but nobody speaks for it any more."""
    server, gate = RedisServer("valkey", tmp_path), asyncio.Event()
    async with AsyncExitStack() as running:
        running.callback(server.kill)
        emulator = await running.enter_async_context(EmulatorProcess(tmp_path, *FAST, replicas=2))
        silenced, other = [
            await running.enter_async_context(announcer(tmp_path, server, name, url))
            for name, url in emulator.urls.items()
        ]
        gateway = await running.enter_async_context(
            gateway_for(tmp_path, server, session__on_unhealthy=policy)
        )
        await until_known(gateway, "a", "b")
        session = LongSession(gateway.ws, [Prompt("one", 1), After(gate), Prompt("two", 2)])
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(session.run())
            await eventually(lambda: session.story.completed == 1, "the session has a segment")
            silenced.kill_group()
            if moves:
                await eventually(lambda: session.story.resumed, "the session goes on elsewhere", timeout=40)
                await until_known(gateway, "b")
            else:
                await until_marked(gateway, "a", "removed")
                assert (await gateway.sessions())[emulator.urls["a"]]["active_sessions"] == 1
                assert (await drive_session(gateway.ws)).completed
                totals = await emulator.sessions_total()
                assert totals == {"a": 1, "b": 1}, "the next session is not given to it"
            gate.set()
        assert_undisturbed(living.result(), session.asked)
        assert [name for _, name in resumes(session.story)] == (["b"] if moves else [])
        await until_known(gateway, "b")
        assert other.returncode is None


async def test_a_session_that_cannot_move_ends_where_the_policy_is_to_close(tmp_path: Path) -> None:
    server = RedisServer("redis", tmp_path)
    closing = {"session__on_unhealthy": "close", "session__protocol": "passthrough"}
    async with AsyncExitStack() as running:
        running.callback(server.kill)
        emulator = await running.enter_async_context(EmulatorProcess(tmp_path, *FAST, replicas=2))
        for name, url in emulator.urls.items():
            process = await running.enter_async_context(announcer(tmp_path, server, name, url))
            if name == "a":
                silenced = process
        gateway = await running.enter_async_context(gateway_for(tmp_path, server, **closing))
        await until_known(gateway, "a", "b")
        clients = await running.enter_async_context(clients_of(gateway))
        held = await _session_on(gateway, clients, "a")
        silenced.kill_group()
        story = await held.over()
        assert (story.close_code, story.close_reason) == (1011, "replica_lost")


async def test_a_draining_replica_keeps_its_sessions_and_gets_no_new_one(
    tmp_path: Path, server: RedisServer
) -> None:
    async with AsyncExitStack() as running:
        emulator = await running.enter_async_context(EmulatorProcess(tmp_path, *FAST, replicas=2))
        speakers = {
            name: await running.enter_async_context(announcer(tmp_path, server, name, url))
            for name, url in emulator.urls.items()
        }
        gateway = await running.enter_async_context(gateway_for(tmp_path, server))
        clients = await running.enter_async_context(clients_of(gateway))
        await until_known(gateway, "a", "b")
        staying = await _session_on(gateway, clients, "a")
        speakers["a"].send_signal(signal.SIGUSR1)
        await until_marked(gateway, "a", "draining")
        assert (await gateway.get("/readyz")).status_code == 200
        assert (await drive_session(gateway.ws)).completed
        assert await emulator.sessions_total() == {"a": 1, "b": 1}
        speakers["a"].send_signal(signal.SIGTERM)
        await until_marked(gateway, "a", "removed")
        staying.let_go()
        await staying.over()
        staying.assert_served()
        assert staying.story.resumed == []
        await until_known(gateway, "b")


async def test_with_the_server_away_replicas_and_sessions_stay_as_they_were(
    tmp_path: Path, server: RedisServer
) -> None:
    async with announcing_emulator(tmp_path, server) as emulator:
        async with gateway_for(tmp_path, server) as gateway, clients_of(gateway) as clients:
            await until_known(gateway, "a", "b", "c")
            staying = await _session_on(gateway, clients, "a")
            async with asked_throughout(gateway) as ready:
                server.kill()
                await gateway.until(lambda: bool(events(gateway, "discovery_failed")), "it is told of")
                await asyncio.sleep(3 * TTL_SECONDS)  # every entry would have expired
                assert (await drive_session(gateway.ws)).completed
                await until_known(gateway, "a", "b", "c")
                again = RedisServer(server.kind, tmp_path, port=server.port)
                try:
                    await gateway.until(
                        lambda: bool(events(gateway, "discovery_answers_again")), "it is back"
                    )
                    await _until_members(again, 3)
                    await asyncio.sleep(2 * TTL_SECONDS)  # whoever was thought to be missing would go
                    await until_known(gateway, "a", "b", "c")
                    await emulator.kill("c")
                    await until_known(gateway, "a", "b")
                finally:
                    again.kill()
            assert set(ready) == {200}
            assert staying.story.resumed == []
            staying.let_go()
            await staying.over()
            staying.assert_served()
            # The server is killed once more at the end, which may be told of as well.
            assert len(events(gateway, "discovery_answers_again")) == 1
            assert [line for line in events(gateway, "replica_removed") if "replica=c" not in line] == []


async def test_an_emptied_server_moves_nothing(tmp_path: Path, server: RedisServer) -> None:
    async with announcing_emulator(tmp_path, server) as emulator:
        closing = gateway_for(tmp_path, server, session__on_unhealthy="close")
        async with closing as gateway, clients_of(gateway) as clients:
            await until_known(gateway, "a", "b", "c")
            staying = await _session_on(gateway, clients, "a")
            async with asked_throughout(gateway) as ready:
                for _ in range(3):
                    assert server.say("FLUSHALL") == "+OK"
                    await _until_members(server, 3)
                await asyncio.sleep(2 * TTL_SECONDS)
            assert set(ready) == {200}
            assert events(gateway, "replica_removed") == []
            assert staying.story.resumed == []
            staying.let_go()
            await staying.over()
            staying.assert_served()
            assert await emulator.sessions_total() == {"a": 1, "b": 0, "c": 0}


async def test_a_server_that_stands_still_moves_nothing(tmp_path: Path, server: RedisServer) -> None:
    async with announcing_emulator(tmp_path, server), gateway_for(tmp_path, server) as gateway:
        await until_known(gateway, "a", "b", "c")
        async with asked_throughout(gateway) as ready:
            server.freeze()
            await gateway.until(lambda: bool(events(gateway, "discovery_failed")), "it is told of")
            assert (await drive_session(gateway.ws)).completed
            await asyncio.sleep(2 * TTL_SECONDS)
            server.thaw()
            await gateway.until(lambda: bool(events(gateway, "discovery_answers_again")), "it is back")
            await asyncio.sleep(2 * TTL_SECONDS)
        assert set(ready) == {200}
        await until_known(gateway, "a", "b", "c")
        assert events(gateway, "replica_removed") == []
        assert len(events(gateway, "discovery_failed")) == 1


async def test_what_is_no_announcement_is_told_of_once_and_harms_nothing(
    tmp_path: Path, server: RedisServer
) -> None:
    async with announcing_emulator(tmp_path, server, replicas=1) as emulator:
        async with gateway_for(tmp_path, server) as gateway, streamers_fleet(server.url) as fleet:
            await until_known(gateway, "a")
            bad: dict[str, dict[str, int | float | str]] = {
                "no-url": {"url": "10.0.0.7:8000"},
                "less-than-none": {"url": "http://10.0.0.7:8000", "capacity": -1},
                "says-nothing": {},
                "has-a-password": {"url": "http://me:hunter2@10.0.0.7:8000"},
            }
            for name, report in bad.items():
                await fleet.beat(Beat(name, report=report))
            await fleet.beat(Beat("same-url", report={"url": emulator.urls["a"], "name": "newer"}))
            await gateway.until(lambda: set(bad) <= set(_told_of(gateway)), "each is told of")
            await until_known(gateway, "newer")
            await fleet.leave("same-url")
            await until_known(gateway, "a")
            assert sorted(_told_of(gateway)) == sorted(bad)
            assert "hunter2" not in gateway.output()
            assert (await drive_session(gateway.ws)).completed


async def test_configured_replicas_are_there_beside_those_that_announce_themselves(
    tmp_path: Path, server: RedisServer
) -> None:
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as fixed:
        listed = [{"url": fixed.urls["a"], "name": "fixed"}]
        async with GatewayProcess(tmp_path, listed, settings=discovering(server)) as gateway:
            async with announcing_emulator(tmp_path, server, replicas=2):
                await until_known(gateway, "fixed", "a", "b")
            await until_known(gateway, "fixed")
            assert (await drive_session(gateway.ws)).completed


async def _session_on(gateway: GatewayProcess, clients: Clients, name: str) -> Any:
    """A client that stays, and the replica that has it."""
    held = clients.come(f"on {name}")
    await held.until_served()
    assert (await replicas(gateway))[name]["active_sessions"] == 1
    return held


def _told_of(gateway: GatewayProcess) -> list[str]:
    """Members of which the gateway has said that they are no replica, once for each time."""
    return [line.partition(" who=")[2].split()[0] for line in events(gateway, "discovery_ignored")]


async def _has_none(gateway: GatewayProcess) -> bool:
    return await replicas(gateway) == {}


async def _until_members(server: RedisServer, count: int) -> None:
    async with streamers_fleet(server.url) as fleet:

        async def there() -> bool:
            return len((await fleet.view()).members) == count

        await eventually(there, f"{count} replicas are announced")
