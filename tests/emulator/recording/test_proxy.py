"""What passes a recording proxy passes unchanged, and is in the file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from emulator.farm import Farm
from emulator.faults import Abort, Refuse
from emulator.recording.format import Answer, Binary, Closed, Text
from emulator.recording.proxy import BadAddress, address_of
from tests.emulator.recording.support import recorded
from tests.emulator.sessions import session
from tests.support.waiting import eventually

PATIENCE_SECONDS = 20.0
OPTIONS = {"compression": None, "proxy": None, "max_size": None}

Handler = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def peer(handler: Handler, *subprotocols: str) -> AsyncIterator[str]:
    """A server of our own, for what no replica says."""
    spoken = [Subprotocol(name) for name in subprotocols] or None
    async with serve(handler, "127.0.0.1", 0, subprotocols=spoken, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}"


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def test_a_session_with_a_replica_passes_and_is_recorded_whole(tmp_path: Path) -> None:
    async with Farm(1) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        async with session(f"{proxy.url}/v1/stream?token=secret&x=1") as client:
            opened = await client.open(client_id="me")
            media = await client.segment("a pier")
            await client.socket.close(1000, "done")
        async with session(farm.replicas["a"].ws_url) as direct:
            await direct.open()
            assert await direct.segment("a pier") == media
        seen = next(event for event in farm.events().events if event.kind == "upgrade_received")
        assert (seen.detail["path"], seen.detail["query"]) == ("/v1/stream", "token=secret&x=1")
        (conversation,) = proxy.read().conversations
    said = [step.said for step in conversation.steps]
    assert b"".join(part.data or b"" for part in said if isinstance(part, Binary)) == media
    assert isinstance(said[0], Text)
    assert "me" in said[0].text
    assert len([part for part in said if isinstance(part, Text)]) > len(opened.messages)
    assert said[-1] == Closed(1000, "done")
    assert conversation.steps[-1].side == "c"
    assert conversation.upgrade is not None
    assert conversation.upgrade.query == "token=***&x=1"


async def test_headers_and_the_chosen_subprotocol_pass(tmp_path: Path) -> None:
    seen: list[ServerConnection] = []

    async def look(connection: ServerConnection) -> None:
        seen.append(connection)
        await echo(connection)

    headers = {"Authorization": "Bearer secret", "X-Request-Id": "7"}
    offered = [Subprotocol("v1"), Subprotocol("v2")]
    async with peer(look, "v2") as url, recorded(tmp_path, url) as proxy:
        async with connect(
            proxy.url + "/a%2Fb/", additional_headers=headers, subprotocols=offered, origin=None, proxy=None
        ) as client:
            assert client.subprotocol == "v2"
            await client.send("x")
            assert await client.recv() == "x"
        (conversation,) = proxy.read().conversations
    request = seen[0].request
    assert request is not None
    assert request.path == "/a%2Fb/"
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["X-Request-Id"] == "7"
    assert request.headers["Sec-WebSocket-Protocol"] == "v1, v2"
    assert conversation.answer.subprotocol == "v2"
    assert conversation.upgrade is not None
    assert ("Authorization", "***") in conversation.upgrade.headers
    assert "secret" not in (tmp_path / "recording.jsonl").read_text()


async def test_messages_keep_their_kind_and_size(tmp_path: Path) -> None:
    messages: list[str | bytes] = ["", "é漢", b"", b"\x00\xff", "x" * 3_000_000, bytes(3_000_000)]
    async with peer(echo) as url, recorded(tmp_path, url) as proxy:
        async with connect(proxy.url, max_size=None, compression=None, proxy=None) as client:
            for message in messages:
                await client.send(message)
                assert await client.recv() == message
        steps = proxy.read().conversations[0].steps
    said = [step.said for step in steps if step.side == "c" and not isinstance(step.said, Closed)]
    assert [part.text if isinstance(part, Text) else part.data for part in said] == messages


@pytest.mark.parametrize(
    ("code", "reason"), [(1000, ""), (1001, "bye"), (1011, "é" * 61), (4321, "own"), (None, "")]
)
@pytest.mark.parametrize("by", ["client", "server"])
async def test_close_codes_and_reasons_pass_both_ways(
    tmp_path: Path, code: int | None, reason: str, by: str
) -> None:
    ended = asyncio.get_running_loop().create_future()

    async def server(connection: ServerConnection) -> None:
        if by == "server":
            await connection.close(cast(int, code), reason)
        await connection.wait_closed()
        ended.set_result((connection.close_code, connection.close_reason))

    async with peer(server) as url, recorded(tmp_path, url) as proxy:
        async with connect(proxy.url, compression=None, proxy=None) as client:
            if by == "client":
                await client.close(cast(int, code), reason)
            await client.wait_closed()
            async with asyncio.timeout(PATIENCE_SECONDS):
                far = await ended
        there = far if by == "client" else (client.close_code, client.close_reason)
        step = proxy.read().conversations[0].steps[-1]
    assert there == (1005 if code is None else code, reason)
    assert (step.side, step.said) == (by[0], Closed(1005 if code is None else code, reason))


@pytest.mark.parametrize("by", ["client", "server"])
async def test_a_connection_that_is_cut_is_cut_on_the_other_side(tmp_path: Path, by: str) -> None:
    ended = asyncio.get_running_loop().create_future()

    async def server(connection: ServerConnection) -> None:
        await connection.recv()
        if by == "server":
            connection.transport.abort()
        await connection.wait_closed()
        ended.set_result(connection.close_code)

    async with peer(server) as url, recorded(tmp_path, url) as proxy:
        client = await connect(proxy.url, compression=None, proxy=None)
        await client.send("go")
        if by == "client":
            client.transport.abort()
        await client.wait_closed()
        async with asyncio.timeout(PATIENCE_SECONDS):
            far = await ended
        assert (far if by == "client" else client.close_code) == 1006
        await eventually(
            lambda: proxy.read().conversations[0].steps[-1].said == Closed(1006, ""), "the end is recorded"
        )
        assert proxy.read().conversations[0].steps[-1].side == by[0]


async def test_a_message_that_was_cut_off_never_arrives(tmp_path: Path) -> None:
    async with Farm(1, faults={"a": [Abort()]}) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        async with session(f"{proxy.url}/v1/stream") as client:
            await client.open()
            await client.send({"type": "segment_prompt_source", "prompt": "p"})
            assert (await client.to_the_end()).code is None
        await eventually(
            lambda: proxy.read().conversations[0].steps[-1].said == Closed(1006, ""), "the end is recorded"
        )


async def test_a_refused_upgrade_is_the_replicas_own(tmp_path: Path) -> None:
    async with Farm(1) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{proxy.url}/elsewhere", proxy=None)
        (conversation,) = proxy.read().conversations
    body = "no sessions on this path: they are at /v1/stream and /ws\n"
    assert refused.value.response.status_code == 404
    assert refused.value.response.body == body.encode()
    assert (conversation.answer.status, conversation.answer.body) == (404, body)
    assert conversation.steps == ()


async def test_a_replica_that_is_not_there_is_a_502(tmp_path: Path) -> None:
    async with Farm(1, faults={"a": [Refuse()]}) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{proxy.url}/v1/stream", proxy=None)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{proxy.http}/health")).status_code == 502
        (conversation,) = proxy.read().conversations
    assert refused.value.response.status_code == 502
    assert conversation.answer.status == 502
    assert "gave no answer" in conversation.answer.body


async def test_health_routes_pass_and_are_recorded(tmp_path: Path) -> None:
    async with Farm(1) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        async with httpx.AsyncClient(trust_env=False) as client:
            ready = await client.get(f"{proxy.http}/readyz")
            missing = await client.get(f"{proxy.http}/nothing")
        async with session(f"{proxy.url}/v1/stream"):
            pass
        requests = proxy.read().requests
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert missing.status_code == 404
    assert [(entry.path, entry.status) for entry in requests] == [("/readyz", 200), ("/nothing", 404)]
    assert requests[0].body["status"] == "ready"


async def test_two_sessions_at_once_are_told_apart(tmp_path: Path) -> None:
    async with peer(echo) as url, recorded(tmp_path, url) as proxy:
        async with session(proxy.url) as one, session(proxy.url) as two:
            for client, text in ((one, "1"), (two, "2"), (one, "3")):
                await client.socket.send(text)
                await client.socket.recv()
        said = [
            [step.said.text for step in entry.steps if isinstance(step.said, Text) and step.side == "c"]
            for entry in proxy.read().conversations
        ]
    assert said == [["1", "3"], ["2"]]


async def test_a_client_that_does_not_read_stops_the_replica(tmp_path: Path) -> None:
    sent = 0

    async def flood(connection: ServerConnection) -> None:
        nonlocal sent
        try:
            for _ in range(2000):
                await connection.send(bytes(65536))
                sent += 1
        except ConnectionClosed:
            return

    async with peer(flood) as url, recorded(tmp_path, url) as proxy:
        async with connect(proxy.url, compression=None, proxy=None, max_queue=1) as client:
            before = -1

            async def stands_still() -> bool:
                nonlocal before
                before, moved = sent, sent != before
                return sent > 0 and not moved

            await eventually(stands_still, "nothing more is taken from the replica", every=0.3)
            assert sent < 2000
            client.transport.abort()
            await eventually(
                lambda: proxy.read().conversations[0].steps[-1].said == Closed(1006, ""),
                "its end is recorded",
            )


async def test_the_end_of_the_recording_is_told_to_both_sides(tmp_path: Path) -> None:
    ended = asyncio.get_running_loop().create_future()

    async def server(connection: ServerConnection) -> None:
        await connection.wait_closed()
        ended.set_result(connection.close_code)

    async with peer(server) as url:
        async with recorded(tmp_path, url) as proxy:
            client = await connect(proxy.url, compression=None, proxy=None)
        await client.wait_closed()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await ended, client.close_code) == (1001, 1001)
        assert proxy.read().conversations[0].answer == Answer(
            101, None, proxy.read().conversations[0].answer.headers
        )
        assert proxy.read().conversations[0].steps == ()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ws://127.0.0.1:9101", "ws://127.0.0.1:9101"),
        ("http://replica:80/", "ws://replica:80"),
        ("wss://replica", "wss://replica"),
        ("ws://[::1]:9101", "ws://[::1]:9101"),
    ],
)
def test_addresses_are_read(text: str, address: str) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replica:80",
        "ws://",
        "ws://a/v1/stream",
        "ws://a?x",
        "ws://a:b",
        "ftp://a",
        "ws://u:p@a",
        "ws://[a",
    ],
)
def test_other_addresses_are_refused_in_words(text: str) -> None:
    with pytest.raises(BadAddress, match="must be ws://host:port"):
        address_of(text)
