"""Drain: what a termination signal does to the gateway, by every way to launch it and to signal it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.expectations import refusal
from tests.support.gateway_process import LAUNCHES, GatewayProcess, Launch
from tests.support.peer import Ending, Peer, PeerEndedError
from tests.support.raw_client import HandshakeRefusedError, connect, raw_client
from tests.support.scripted_replica import ScriptedReplica
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

PATIENT: dict[str, object] = {"drain__timeout_seconds": 30}
"""A deadline that no test waits for: sessions end by themselves, or by a second signal."""

SHORT: dict[str, object] = {"drain__timeout_seconds": 1.5, "drain__spread_seconds": 0.2}

SIGNALS: dict[str, tuple[signal.Signals, bool]] = {
    "SIGTERM": (signal.SIGTERM, False),
    "SIGINT": (signal.SIGINT, False),
    "SIGTERM to the group": (signal.SIGTERM, True),
    "SIGINT to the group": (signal.SIGINT, True),
}

FOR_MANY = ("SIGTERM", "SIGINT to the group")
"""What a platform and what a terminal sends; the other two differ from these only in the main process."""

GONE = Ending(1012, "gateway_restarting")


@pytest.fixture
async def replica() -> AsyncIterator[ScriptedReplica]:
    async with ScriptedReplica() as replica:
        yield replica


async def open_session(
    stack: AsyncExitStack, gateway: GatewayProcess, replica: ScriptedReplica
) -> tuple[Peer, Peer]:
    """A client and the replica's side of its session, which has said something."""
    client = await stack.enter_async_context(raw_client(gateway.port))
    session = await replica.session()
    await session.send("open")
    assert await client.recv() == "open"
    return client, session


async def until_draining(gateway: GatewayProcess) -> None:
    """Return once every worker refuses: readiness is 503, many times in a row where there are several."""

    async def not_ready() -> bool:
        return await gateway.answers("/readyz", 503)

    async def all_not_ready() -> bool:
        return all([await not_ready() for _ in range(1 if gateway.workers == 1 else 12)])

    await eventually(all_not_ready, "readiness turns 503")


@pytest.mark.parametrize(("workers", "how"), [(1, how) for how in SIGNALS] + [(2, how) for how in FOR_MANY])
@pytest.mark.parametrize("launch", ["granian", "asgi", "serve"])
async def test_a_signal_stops_new_sessions_and_lets_open_ones_finish(
    tmp_path: Path, replica: ScriptedReplica, how: str, launch: Launch, workers: int
) -> None:
    gateway = GatewayProcess(tmp_path, [replica.url], settings=PATIENT, launch=launch, workers=workers)
    async with gateway, AsyncExitStack() as stack:
        pairs = [await open_session(stack, gateway, replica) for _ in range(2 * workers)]
        number, group = SIGNALS[how]
        gateway.send_signal(number, group=group)
        await _until_refusing(gateway, pairs)
        for client, session in pairs:
            assert client.open, "a signal cut an open session"
            await client.send("ping")
            assert await session.recv() == "ping"
            await session.send("still served")
            assert await client.recv() == "still served"
            await session.close(1000, "finished")
            assert await client.ended() == Ending(1000, "finished")
        assert await gateway.wait() == 0, gateway.output()
        assert "Traceback" not in gateway.output()


async def _until_refusing(gateway: GatewayProcess, pairs: list[tuple[Peer, Peer]]) -> None:
    """Of several workers one without a session is gone at once, so a connect that it refuses or drops on its
    way out is a refusal too.
    """
    if gateway.workers == 1:
        await until_draining(gateway)
        assert (await refusal(gateway.port)).status == 503
        assert (await gateway.get("/healthz")).status_code == 200
        return
    await eventually(lambda: _refused(gateway), "new sessions are refused")


async def _refused(gateway: GatewayProcess) -> bool:
    for _ in range(6):
        try:
            peer = await connect(gateway.port)
        except HandshakeRefusedError as refused:
            if refused.status != 503:
                raise
        except (OSError, EOFError):
            return True
        else:
            await peer.aclose()
            return False
    return True


@pytest.mark.parametrize("launch", ["granian", "asgi", "serve"])
async def test_at_the_deadline_a_session_that_has_spoken_sees_the_close_alone(
    tmp_path: Path, replica: ScriptedReplica, launch: Launch
) -> None:
    async with (
        GatewayProcess(tmp_path, [replica.url], settings=SHORT, launch=launch) as gateway,
        AsyncExitStack() as stack,
    ):
        pairs = [await open_session(stack, gateway, replica) for _ in range(3)]
        gateway.send_signal(signal.SIGTERM)
        for client, session in pairs:
            with pytest.raises(PeerEndedError) as ended:
                await client.recv()
            assert ended.value.ending == GONE
            assert (await session.ended()).fault is None
        assert await gateway.wait() == 0, gateway.output()


async def test_at_the_deadline_a_session_that_has_not_spoken_is_told_first(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with GatewayProcess(tmp_path, [replica.url], settings=SHORT) as gateway:
        async with raw_client(gateway.port) as client:
            await replica.session()
            gateway.send_signal(signal.SIGTERM)
            assert json.loads(await client.recv())["type"] == "going_away"
            assert await client.ended() == GONE
        assert await gateway.wait() == 0, gateway.output()


async def test_two_workers_both_end_their_sessions_at_the_deadline(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    gateway = GatewayProcess(tmp_path, [replica.url], settings=SHORT, workers=2)
    async with gateway, AsyncExitStack() as stack:
        pairs = [await open_session(stack, gateway, replica) for _ in range(8)]
        gateway.send_signal(signal.SIGINT, group=True)
        for client, _ in pairs:
            assert await client.ended() == GONE
        assert await gateway.wait() == 0, gateway.output()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_under_serve_a_second_signal_ends_it_now(
    tmp_path: Path, replica: ScriptedReplica, number: signal.Signals, workers: int
) -> None:
    gateway = GatewayProcess(tmp_path, [replica.url], settings=PATIENT, launch="serve", workers=workers)
    async with gateway, AsyncExitStack() as stack:
        pairs = [await open_session(stack, gateway, replica) for _ in range(2 * workers)]
        gateway.send_signal(number)
        await _until_refusing(gateway, pairs)
        await _until_a_signal_is_a_second_one()
        assert all(client.open for client, _ in pairs)
        gateway.send_signal(number)
        for client, _ in pairs:
            assert (await client.ended()).fault is None
        # Far sooner than the deadline; how it ends when it is told to end now is not a promise.
        await gateway.wait(15)


async def test_a_second_ctrl_c_ends_the_verbatim_command_now(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with (
        GatewayProcess(tmp_path, [replica.url], settings=PATIENT) as gateway,
        AsyncExitStack() as stack,
    ):
        client, _ = await open_session(stack, gateway, replica)
        gateway.send_signal(signal.SIGINT, group=True)
        await until_draining(gateway)
        await _until_a_signal_is_a_second_one()
        assert client.open
        gateway.send_signal(signal.SIGINT, group=True)
        assert (await client.ended()).fault is None
        await gateway.wait(15)


async def _until_a_signal_is_a_second_one() -> None:
    """Signals within one second count as one: the only place where a test must let time pass."""
    await asyncio.sleep(1.3)


async def test_without_sessions_a_signal_ends_it_at_once(tmp_path: Path, replica: ScriptedReplica) -> None:
    async with GatewayProcess(tmp_path, [replica.url], settings=PATIENT) as gateway:
        gateway.send_signal(signal.SIGTERM)
        assert await gateway.wait(15) == 0, gateway.output()


@pytest.mark.parametrize("launch", LAUNCHES)
async def test_a_signal_that_comes_while_the_worker_starts_is_not_lost(
    tmp_path: Path, replica: ScriptedReplica, launch: Launch
) -> None:
    async with GatewayProcess(tmp_path, [replica.url], launch=launch, wait_for=None) as gateway:
        # A signal that reaches a forked Python before its first step is forgotten by Python itself.
        await eventually(lambda: _worker_runs(gateway), "the worker is being started", every=0.005)
        gateway.send_signal(signal.SIGTERM)
        # Before the worker is this program at all, the signal simply ends it.
        assert await gateway.wait(20) in (0, 1), gateway.output()


def _worker_runs(gateway: GatewayProcess) -> bool:
    """Whether the first worker has had some time of a processor."""
    if "Spawning worker-1" not in gateway.output():
        return False
    return any(sum(worker.cpu_times()[:2]) > 0 for worker in gateway.tree()[1:])


async def test_a_session_in_the_middle_of_opening_is_not_lost_to_a_drain(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    """Its handshake was under way when the signal came: it opens, and lasts until it ends."""
    slow: dict[str, Any] = {**PATIENT, "session__connect_timeout_seconds": 10}
    replica.answer_upgrades.clear()
    async with GatewayProcess(tmp_path, [replica.url], settings=slow) as gateway:
        async with AsyncExitStack() as stack:
            async with asyncio.TaskGroup() as tasks:
                opening = tasks.create_task(connect(gateway.port))
                await eventually(lambda: replica.upgrades, "the replica has the upgrade request")
                gateway.send_signal(signal.SIGTERM)
                await until_draining(gateway)
                replica.answer_upgrades.set()
            client = opening.result()
            stack.push_async_callback(client.aclose)
            session = await replica.session()
            await session.send("served")
            assert await client.recv() == "served"
            await session.close(1000, "finished")
            assert await client.ended() == Ending(1000, "finished")
        assert await gateway.wait() == 0, gateway.output()


INTERFACES: tuple[Launch, ...] = ("granian", "asgi")

AT_ONCE: dict[str, object] = {"drain__timeout_seconds": 1, "drain__spread_seconds": 0}


@pytest.mark.parametrize("launch", INTERFACES)
async def test_a_client_whose_replica_hangs_is_refused_at_the_deadline(
    tmp_path: Path, replica: ScriptedReplica, launch: Launch
) -> None:
    """Not only when the replica has had its time."""
    patient = {**AT_ONCE, "session__connect_timeout_seconds": 30}
    replica.answer_upgrades.clear()
    async with GatewayProcess(tmp_path, [replica.url], settings=patient, launch=launch) as gateway:
        async with asyncio.TaskGroup() as tasks:
            refused = tasks.create_task(refusal(gateway.port))
            await eventually(lambda: replica.upgrades, "the replica has the upgrade request")
            gateway.send_signal(signal.SIGTERM)
        assert refused.result().status == 503
        assert await gateway.wait(20) == 0, gateway.output()
        assert "Traceback" not in gateway.output()


@pytest.mark.parametrize("half", [b"GET /healthz HTTP/1.1\r\nHo", b"GET /v1/stream HTTP/1.1\r\nUpgrade:"])
@pytest.mark.parametrize("launch", INTERFACES)
async def test_half_a_request_does_not_keep_it_running(
    tmp_path: Path, replica: ScriptedReplica, launch: Launch, half: bytes
) -> None:
    async with GatewayProcess(tmp_path, [replica.url], settings=AT_ONCE, launch=launch) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        try:
            writer.write(half)
            await writer.drain()
            assert await gateway.answers("/healthz"), "another's request, which came later"
            gateway.send_signal(signal.SIGTERM)
            assert await gateway.wait(20) == 0, gateway.output()
        finally:
            writer.transport.abort()


async def test_readiness_and_status_are_served_while_draining(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with (
        GatewayProcess(tmp_path, [replica.url], settings=PATIENT) as gateway,
        AsyncExitStack() as stack,
    ):
        client, session = await open_session(stack, gateway, replica)
        gateway.send_signal(signal.SIGTERM)
        await until_draining(gateway)
        answers: dict[str, httpx.Response] = {
            route: await gateway.get(route) for route in ("/healthz", "/status", "/router/replicas/sessions")
        }
        assert {route: answer.status_code for route, answer in answers.items()} == dict.fromkeys(answers, 200)
        entry = answers["/router/replicas/sessions"].json()["replicas"][0]
        assert entry["active_sessions"] == 1
        await session.close(1000, "finished")
        await client.ended()
        assert await gateway.wait() == 0
