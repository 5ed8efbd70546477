"""The transparency cases, against the real gateway process: memory behind a side that stalls, and drain."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.expectations import refusal
from tests.support.gateway_process import GatewayProcess
from tests.support.peer import Ending, Peer
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import ScriptedReplica
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

MIB = 1 << 20


# 12: memory


async def test_a_client_that_stops_reading_costs_no_memory(tmp_path: Path) -> None:
    chunk = b"x" * MIB

    async def send_512_mib(session: Peer) -> None:
        for _ in range(512):
            await session.send(chunk)

    async with (
        ScriptedReplica(serve=send_512_mib) as replica,
        GatewayProcess(tmp_path, [replica.url]) as gateway,
    ):
        async with raw_client(gateway.port) as warm_up:
            for _ in range(4):
                await warm_up.recv()
        await gateway.until_no_sessions()
        before = gateway.memory_bytes()
        async with raw_client(gateway.port) as client:
            client.pause_reading()
            session = replica.sessions[-1]
            await _stalled(session)
            assert session.bytes_sent < 64 * MIB, "the replica was not paused"
            growth = gateway.memory_bytes() - before
            assert growth <= 32 * MIB, f"{growth / MIB:.1f} MiB grown behind a stalled client"
            # The session is only paused: when the client reads again, everything comes, in order and whole.
            client.resume_reading()
            for _ in range(128):
                assert await client.recv() == chunk
            assert gateway.memory_bytes() - before <= 32 * MIB


async def test_a_replica_that_stops_reading_costs_no_memory(tmp_path: Path) -> None:
    async with ScriptedReplica() as replica, GatewayProcess(tmp_path, [replica.url]) as gateway:
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await client.send(b"x" * MIB)
            await session.recv()
            before = gateway.memory_bytes()
            session.pause_reading()
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(_send_many(client, 512))
                await _stalled(client)
                assert client.bytes_sent < 64 * MIB, "the client was not paused"
                growth = gateway.memory_bytes() - before
                sending.cancel()
            assert growth <= 32 * MIB, f"{growth / MIB:.1f} MiB grown behind a stalled replica"
            session.resume_reading()
        await gateway.until_no_sessions()


async def _send_many(peer: Peer, count: int) -> None:
    for _ in range(count):
        await peer.send(b"x" * MIB)


async def _stalled(sender: Peer) -> None:
    """Return once nothing more could be sent for a second: that it lasts is the point."""
    still, last = 0, -1
    while still < 20:
        still, last = (still + 1, last) if sender.bytes_sent == last else (0, sender.bytes_sent)
        await asyncio.sleep(0.05)


# 13: drain (the whole matrix is in test_drain.py)


async def test_sigterm_lets_sessions_run_to_the_deadline_then_1012(tmp_path: Path) -> None:
    short = {"drain__timeout_seconds": 2, "drain__spread_seconds": 0.2}
    async with AsyncExitStack() as stack:
        replica = await stack.enter_async_context(ScriptedReplica())
        gateway = await stack.enter_async_context(GatewayProcess(tmp_path, [replica.url], settings=short))
        clients = [await stack.enter_async_context(raw_client(gateway.port)) for _ in range(3)]
        sessions = [await replica.session() for _ in clients]
        for session, client in zip(sessions, clients, strict=True):
            await session.send("open")
            assert await client.recv() == "open"
        gateway.send_signal(signal.SIGTERM)

        async def refused() -> bool:
            return (await gateway.get("/readyz")).status_code == 503

        await eventually(refused, "readiness turns")
        assert (await refusal(gateway.port)).status == 503
        await sessions[0].send("still served")
        assert await clients[0].recv() == "still served"
        await sessions[0].close(1000, "finished")
        assert await clients[0].ended() == Ending(1000, "finished")
        for client in clients[1:]:
            assert await client.ended() == Ending(1012, "gateway_restarting")
        assert await gateway.wait() == 0
