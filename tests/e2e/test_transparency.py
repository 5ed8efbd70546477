"""The transparency cases, against the real gateway process: what passes through it, octet for octet.

The gateway must not be the thing that users of a session notice. The number above a section is that of the
case; routing and load are in the files beside this one.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.session.events import wire_code
from tests.support.gateway_process import GatewayProcess
from tests.support.peer import Ending, Headers, Peer, PeerEndedError
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import Accept, ScriptedReplica
from tests.support.standing_gateway import StandingGateway

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("each_protocol")]

MIB = 1 << 20


# 1: size of messages


async def test_messages_arrive_intact_whatever_their_size(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            for size in (0, 1, 125, 126, 65_535, 65_536, MIB - 1, MIB + 1, 8 * MIB):
                for message in (b"\x00\xff" * (size // 2) + b"b" * (size % 2), "t" * size):
                    await session.send(message)
                    assert await client.recv() == message
                    await client.send(message)
                    assert await session.recv() == message


async def test_a_fragmented_message_arrives_whole(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            for parts in ([b"a", b"", b"c"], [b"x" * 50_000] * 40, [b"y" * (5 * MIB)] * 4):
                await session.send_fragments(parts)
                assert await client.recv() == b"".join(parts)
                await client.send_fragments(parts)
                assert await session.recv() == b"".join(parts)


@pytest.mark.parametrize("sender", ["replica", "client"])
@pytest.mark.parametrize("parts", [1, 8])
async def test_a_message_over_the_cap_ends_both_sides_with_1009(
    tmp_path: Path, sender: str, parts: int
) -> None:
    cap = {"session__max_message_bytes": MIB}
    async with ScriptedReplica() as replica, GatewayProcess(tmp_path, [replica.url], settings=cap) as gateway:
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            source, sink = (session, client) if sender == "replica" else (client, session)
            await source.send(b"x" * MIB)
            assert await sink.recv() == b"x" * MIB
            await source.send_fragments([b"x" * (MIB // parts)] * parts + [b"x"])
            assert await client.ended() == Ending(1009, "message_too_big")
            assert await session.ended() == Ending(1009, "message_too_big")
        await gateway.until_no_sessions()


async def test_a_client_frame_above_what_the_door_reads_ends_the_session_legally(
    standing: StandingGateway,
) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            sending = asyncio.ensure_future(client.send(b"x" * (16 * MIB + 1)))
            assert (await session.ended()).fault is None
            assert (await client.ended()).fault is None
            await sending
        await gateway.until_no_sessions()


# 2: codes and reasons


@pytest.mark.parametrize("launch", ["granian", "asgi"])
async def test_the_replicas_close_reaches_the_client_unchanged(tmp_path: Path, launch: Any) -> None:
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], launch=launch) as gateway,
    ):
        for code, reason in (
            (4001, "session_gone"),
            (1000, "done"),
            (1001, ""),
            (1013, "session_rejected"),
            (3000, "é" * 61),
            (4999, "x" * 123),
        ):
            async with raw_client(gateway.port) as client:
                session = await replica.session()
                await session.send("a message first")
                await session.close(code, reason)
                assert await client.recv() == "a message first"
                assert await client.ended() == Ending(code, reason)
        await gateway.until_no_sessions()


async def test_a_close_without_a_code_ends_as_a_normal_one(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await session.close(None)
            assert await client.ended() in (Ending(1000, ""), Ending(1005, ""))


@pytest.mark.parametrize("launch", ["granian", "asgi"])
async def test_the_clients_close_code_reaches_the_replica(tmp_path: Path, launch: Any) -> None:
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], launch=launch) as gateway,
    ):
        for code in (4002, 1000, 1001, 3999):
            async with raw_client(gateway.port) as client:
                session = await replica.session()
                await client.send("last words")
                await client.close(code, "bye")
                assert await session.recv() == "last words"
                # Granian's door knows no reasons of clients, so none is made up.
                assert await session.ended() == Ending(code, "")
        await gateway.until_no_sessions()


@given(st.one_of(st.none(), st.integers(0, 65_535)))
@settings(max_examples=300)
def test_no_code_goes_on_the_wire_that_may_not(code: int | None) -> None:
    sent = wire_code(code)
    assert sent in range(1000, 1015) or sent in range(3000, 5000)
    assert sent not in (1004, 1005, 1006)


# 3: a replica that is gone


@pytest.mark.parametrize("how", ["mid-message", "reset", "end of stream"])
async def test_a_lost_replica_is_1011_and_nothing_else_after_its_first_message(
    standing: StandingGateway, how: str
) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await session.send("one")
            assert await client.recv() == "one"
            await _lose(session, how)
            with pytest.raises(PeerEndedError) as ended:
                await client.recv()
            assert ended.value.ending == Ending(1011, "replica_lost")
        await gateway.until_no_sessions()


async def test_a_reset_right_behind_data_is_noticed_at_once(tmp_path: Path) -> None:
    """Data and reset are often read in one turn of the event loop, and a loop can lose the reset then."""
    no_pings: dict[str, object] = {"session__ping_interval_seconds": 200}
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], settings=no_pings) as gateway,
    ):
        for size in (1_100, 16_000, 65_535, 65_536, 100_000) * 3:
            async with raw_client(gateway.port) as client:
                session = await replica.session()
                await session.send("one")
                assert await client.recv() == "one"
                await session.abort_mid_message(announced_bytes=size)
                assert await client.ended() == Ending(1011, "replica_lost"), size


@pytest.mark.parametrize("how", ["mid-message", "reset", "end of stream"])
async def test_a_replica_lost_before_its_first_message_is_told_in_band_too(
    standing: StandingGateway, how: str
) -> None:
    async with standing.serving() as (replica, gateway):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await client.send("hello")
            assert await session.recv() == "hello"
            await _lose(session, how)
            message = json.loads(await client.recv())
            assert (message["type"], message["code"], message["retryable"]) == (
                "error",
                "worker_failed",
                True,
            )
            assert await client.ended() == Ending(1011, "replica_lost")
        await gateway.until_no_sessions()


async def test_a_vanished_client_ends_the_replicas_side_legally(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        for how in ("mid-message", "reset", "end of stream"):
            async with raw_client(gateway.port) as client:
                session = await replica.session()
                await client.send("hello")
                assert await session.recv() == "hello"
                await _lose(client, how)
                assert (await session.ended()).fault is None
        await gateway.until_no_sessions()


async def _lose(peer: Peer, how: str) -> None:
    match how:
        case "mid-message":
            await peer.abort_mid_message()
        case "reset":
            peer.abort()
        case _:
            peer.end_of_stream()


# 4: subprotocols


@pytest.mark.parametrize("chosen", ["b", None])
async def test_the_handshake_carries_the_replicas_choice_of_subprotocol(
    standing: StandingGateway, chosen: str | None
) -> None:
    async with standing.serving(upgrade=Accept(lambda _offered: chosen)) as (replica, gateway):
        async with raw_client(gateway.port, subprotocols=["a", "b"]) as client:
            assert client.subprotocol == chosen
        assert replica.upgrades[0].values("Sec-WebSocket-Protocol") == ["a, b"]
        async with raw_client(gateway.port):
            pass
        assert replica.upgrades[1].values("Sec-WebSocket-Protocol") == []


# 5: the query


async def test_the_replica_sees_path_and_query_octet_for_octet(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        targets = [
            "/v1/stream?t=a%2Fb&t=c",
            "/ws?q=%E2%82%AC+%20&&=x",
            "/v1/stream?",
            "/ws",
            "/v1/stream?a=1?b#",
        ]
        for target in targets[:-1]:
            async with raw_client(gateway.port, target):
                pass
        assert [request.target.rstrip("?") for request in replica.upgrades] == [
            t.rstrip("?") for t in targets[:-1]
        ]


# 6: headers


async def test_end_to_end_headers_pass_and_the_proxys_own_do_not(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        passed: Headers = [
            ("Origin", "https://app.example"),
            ("Authorization", "Bearer t0k3n"),
            ("Cookie", "a=1; b=2"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("X-Custom", "one"),
            ("X-Custom", "two"),
            ("X-Request-Id", "given-by-the-client"),
            ("User-Agent", "browser/1"),
        ]
        hops: Headers = [
            ("Connection", "X-Hop"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Proxy-Authorization", "Basic eDp5"),
            ("Sec-WebSocket-Extensions", "permessage-deflate"),
            ("X-Forwarded-For", "203.0.113.9"),
        ]
        async with raw_client(gateway.port, headers=passed + hops) as client:
            await replica.session()
            assert not [name for name, _ in client.headers if name.lower() == "sec-websocket-extensions"]
        (request,) = replica.upgrades
        for name in {name for name, _ in passed}:
            sent = [value for key, value in passed if key == name]
            assert ", ".join(request.values(name)) == ", ".join(sent), name
        for name in ("X-Hop", "Keep-Alive", "TE", "Proxy-Authorization"):
            assert request.values(name) == [], name
        assert request.values("Host") == [f"127.0.0.1:{replica.port}"]
        assert request.values("Connection") == ["Upgrade"]
        assert len(request.values("Sec-WebSocket-Key")) == 1
        assert request.values("Sec-WebSocket-Version") == ["13"]
        # Nobody vouched for the client's own X-Forwarded-For: what counts is the peer that the gateway saw.
        assert request.values("X-Forwarded-For") == ["127.0.0.1"]
        assert request.values("X-Forwarded-Proto") == ["http"]
        assert request.values("X-Forwarded-Host") == [f"127.0.0.1:{gateway.port}"]


async def test_a_request_id_is_made_where_the_client_has_none(standing: StandingGateway) -> None:
    async with standing.serving() as (replica, gateway):
        for _ in range(2):
            async with raw_client(gateway.port):
                pass
        first, second = (request.values("X-Request-Id") for request in replica.upgrades)
        assert len(first) == len(second) == 1
        assert first != second
