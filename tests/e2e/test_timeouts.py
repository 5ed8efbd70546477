"""Sessions that the gateway ends because of a silence or a stall, against the real process."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from websockets.exceptions import InvalidState

from tests.support.expectations import refusal, told_in_band
from tests.support.gateway_process import GatewayProcess
from tests.support.peer import Ending, Peer
from tests.support.raw_client import connect, raw_client
from tests.support.scripted_replica import ScriptedReplica
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

MIB = 1 << 20


def limits(**seconds: float) -> dict[str, object]:
    return {f"session__{name}_seconds": value for name, value in seconds.items()}


async def test_a_session_without_messages_ends_idle(tmp_path: Path) -> None:
    idle = limits(idle_timeout=1.5, ping_interval=0.4, ping_timeout=5)
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=idle) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            assert await client.ended() == Ending(1001, "idle_timeout")
            assert (await session.ended()).code == 1001
            assert session.pings, "pings are no messages: they keep nothing open"


async def test_messages_one_way_keep_a_session_open(tmp_path: Path) -> None:
    idle = limits(idle_timeout=1, ping_interval=0.4)
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=idle) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            for _ in range(10):
                await session.send("tick")
                assert await client.recv() == "tick"
                await asyncio.sleep(0.2)
            assert client.open


async def test_a_replica_that_answers_no_ping_is_lost(tmp_path: Path) -> None:
    pings = limits(idle_timeout=60, ping_interval=0.3, ping_timeout=0.5)
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=pings) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            session.answer_pings = False
            await session.send("the last word")
            assert await client.recv() == "the last word"
            ending = await client.ended()
            assert ending.code == 1011
            assert ending.reason in ("replica_lost", "ping_timeout")
        await gateway.until_no_sessions()


async def test_a_replica_that_answers_pings_is_kept(tmp_path: Path) -> None:
    pings = limits(idle_timeout=60, ping_interval=0.2, ping_timeout=0.5)
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=pings) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await eventually(lambda: len(session.pings) >= 6, "several pings came")
            assert client.open


@pytest.mark.parametrize("slow", ["client", "replica"])
async def test_a_side_that_takes_nothing_is_cut_off(tmp_path: Path, slow: str) -> None:
    patience = limits(slow_consumer_timeout=1, idle_timeout=60)
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=patience) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            sink, source = (client, session) if slow == "client" else (session, client)
            sink.pause_reading()
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(_fill(source))
                ending = await source.ended(30)
                sending.cancel()
            assert ending == Ending(1008, "slow_consumer")
            await gateway.until_no_sessions()


async def _fill(peer: Peer) -> None:
    """Send until the connection closes."""
    with contextlib.suppress(InvalidState):
        while peer.open:
            await peer.send(b"x" * MIB)


async def test_pings_of_both_sides_are_answered(tmp_path: Path) -> None:
    async with ScriptedReplica() as replica, GatewayProcess(tmp_path, [replica.url]) as gateway:
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await client.ping(b"from the client")
            await eventually(lambda: client.pongs == [b"from the client"], "the client's ping is answered")
            await session.ping(b"from the replica")
            await eventually(lambda: session.pongs == [b"from the replica"], "the replica's ping is answered")


async def test_the_gateways_own_cap_on_sessions_is_told_in_band(tmp_path: Path) -> None:
    one: dict[str, object] = {"admission__max_sessions": 1}
    async with ScriptedReplica() as replica, GatewayProcess(tmp_path, [replica.url], settings=one) as gateway:
        async with raw_client(gateway.port), raw_client(gateway.port) as second:
            assert await told_in_band(second, "gpu_unavailable") == Ending(1013, "queue_full")
        await gateway.until_no_sessions()
        async with raw_client(gateway.port) as third:
            await replica.session()
            assert third.open


async def test_clients_are_let_in_by_token_and_origin(tmp_path: Path) -> None:
    guarded: dict[str, object] = {
        "clients__tokens": ["s3cret"],
        "clients__allowed_origins": ["https://app.example"],
    }
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=guarded) as gateway,
    ):
        assert (await refusal(gateway.port)).status == 401
        allowed = [("Authorization", "Bearer s3cret"), ("Origin", "https://app.example")]
        peer = await connect(gateway.port, headers=allowed)
        await peer.aclose()
        assert len(replica.upgrades) == 1
        assert "s3cret" not in gateway.output()
