"""The replica's connection against real sockets: what a replica can say and do, and how it is told."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop
from websockets.frames import Frame, Opcode

from gateway.session import upstream as module
from gateway.session.events import Closed, Event, Message, Ping, Pong
from gateway.session.upstream import FRAGMENT_BYTES, Refused, Unreachable, Upstream, connect
from tests.support.peer import Peer, PeerEndedError
from tests.support.scripted_replica import Accept, Refuse, Reset, ScriptedReplica
from tests.support.waiting import PATIENCE_SECONDS, eventually

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

CAP_BYTES = 4 * 1024 * 1024

PIER = "Ein Steg über dem Meer \N{WATER WAVE}"


class Listener:
    """The session, as the replica's connection sees it."""

    def __init__(self) -> None:
        self.flow: list[str] = []
        self.waiting: asyncio.Queue[Event] = asyncio.Queue()

    def upstream_event(self, event: Event) -> None:
        self.waiting.put_nowait(event)

    def upstream_paused(self) -> None:
        self.flow.append("paused")

    def upstream_resumed(self) -> None:
        self.flow.append("resumed")

    async def next(self) -> Event:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.waiting.get()


@dataclass
class Session:
    """Both ends of one open connection."""

    upstream: Upstream
    peer: Peer
    listener: Listener = field(default_factory=Listener)

    async def is_over(self) -> None:
        """The connection is gone, and nothing was told after its end."""
        await self.upstream.closed()
        assert self.listener.waiting.empty()


async def attempt(
    port: int,
    *headers: tuple[str, str],
    target: str = "/v1/stream",
    timeout_seconds: float = PATIENCE_SECONDS,
) -> Upstream | Unreachable | Refused:
    return await connect(
        f"ws://127.0.0.1:{port}{target}",
        headers,
        timeout_seconds=timeout_seconds,
        max_message_bytes=CAP_BYTES,
    )


@asynccontextmanager
async def connected(
    port: int, *headers: tuple[str, str], target: str = "/v1/stream"
) -> AsyncIterator[Upstream]:
    upstream = await attempt(port, *headers, target=target)
    assert isinstance(upstream, Upstream)
    try:
        yield upstream
    finally:
        upstream.abort()
        await upstream.closed()


@pytest.fixture
async def replica() -> AsyncIterator[ScriptedReplica]:
    async with ScriptedReplica() as replica:
        yield replica


@pytest.fixture
async def session(replica: ScriptedReplica) -> AsyncIterator[Session]:
    async with connected(replica.port) as upstream:
        session = Session(upstream, await replica.session())
        upstream.listen(session.listener)
        yield session


def frames(opcode: Opcode, parts: Iterable[bytes]) -> bytes:
    """One message, a frame a part."""
    first, *rest = parts
    wire = Frame(opcode, first, fin=not rest).serialize(mask=False)
    for index, part in enumerate(rest, start=1):
        wire += Frame(Opcode.CONT, part, fin=index == len(rest)).serialize(mask=False)
    return wire


# -- opening


async def test_the_replica_sees_path_query_and_headers_as_they_are_given(replica: ScriptedReplica) -> None:
    said = [
        ("X-One", "1"),
        ("cookie", "a=1"),
        ("X-One", "2"),
        ("Sec-WebSocket-Protocol", "a, b"),
        ("X-Note", "grüße"),
    ]
    async with connected(replica.port, *said, target="/v1/str%65am?t=a%2Fb&t=c"):
        await replica.session()
    (request,) = replica.upgrades
    assert request.target == "/v1/str%65am?t=a%2Fb&t=c"
    names = {name for name, _ in said}
    seen = [(name, value.encode("latin-1").decode()) for name, value in request.headers if name in names]
    assert seen == said


@pytest.mark.parametrize("chosen", ["b", None])
async def test_the_subprotocol_is_the_one_that_the_replica_chose(
    replica: ScriptedReplica, chosen: str | None
) -> None:
    replica.upgrade = Accept(lambda _offered: chosen)
    async with connected(replica.port, ("Sec-WebSocket-Protocol", "a, b")) as upstream:
        assert upstream.subprotocol == chosen


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 429, 500, 502, 503])
async def test_a_status_is_told_with_what_helps_the_client(replica: ScriptedReplica, status: int) -> None:
    replica.upgrade = Refuse(
        status,
        [
            ("Retry-After", "7"),
            ("WWW-Authenticate", "Bearer"),
            ("Location", "/elsewhere"),
            ("Set-Cookie", "a=b"),
        ],
        b"no",
    )
    assert await attempt(replica.port) == Refused(
        status, ((b"retry-after", b"7"), (b"www-authenticate", b"Bearer"))
    )
    assert replica.connections == 1, "a redirect is not followed"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"7", True),
        (b'Bearer realm="a b",\tscope=x', True),
        ("Bearer realm=grüße".encode("latin-1"), True),
        ("Bearer realm=grüße".encode(), True),
        (b"7\x00", False),
        (b"7\x01", False),
        (b"7\r8", False),
        (b"7\n8", False),
        (b"7\x7f8", False),
        (b"7\x1b[31m8", False),
    ],
)
@pytest.mark.parametrize("name", [b"Retry-After", b"WWW-Authenticate"])
async def test_a_header_that_no_server_may_pass_on_is_left_out(name: bytes, value: bytes, kept: bool) -> None:
    head = b"HTTP/1.1 503 No\r\n" + name + b": " + value + b"\r\nContent-Length: 0\r\n\r\n"
    async with answering(lambda _head: head, asyncio.Event()) as port:
        assert await attempt(port) == Refused(503, ((name.lower(), value),) if kept else ())


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes] | None, ended: asyncio.Event) -> AsyncIterator[int]:
    """A server that answers each request with raw octets, None for silence; `ended` is set when its client
    has gone.
    """

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if answer is not None:
                writer.write(answer(head))
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            ended.set()
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 599 Whatever\r\nContent-Length: 0\r\n\r\n", 599),
        (b"HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", 503),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", 503),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200),
        (b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", 426),
    ],
)
async def test_odd_answers_are_answers(answer: bytes, status: int) -> None:
    ended = asyncio.Event()
    async with answering(lambda _head: answer, ended) as port:
        assert await attempt(port) == Refused(status, ())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: wrong\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=["another protocol", "binary", "no status", "wrong key", "no key"],
)
async def test_what_is_no_http_answer_is_unreachable(answer: bytes) -> None:
    ended = asyncio.Event()
    async with answering(lambda _head: answer, ended) as port:
        outcome = await attempt(port)
        assert isinstance(outcome, Unreachable)
        assert outcome.reason
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()


async def test_a_refused_connection_is_unreachable(replica: ScriptedReplica) -> None:
    await replica.kill()
    assert isinstance(await attempt(replica.port), Unreachable)


async def test_a_connection_reset_before_the_answer_is_unreachable(replica: ScriptedReplica) -> None:
    replica.upgrade = Reset()
    assert isinstance(await attempt(replica.port), Unreachable)


async def test_a_host_that_does_not_exist_is_unreachable() -> None:
    outcome = await connect(
        "ws://host.invalid:9/", [], timeout_seconds=PATIENCE_SECONDS, max_message_bytes=CAP_BYTES
    )
    assert isinstance(outcome, Unreachable)


async def test_no_answer_in_time_is_unreachable_and_the_connection_is_cut() -> None:
    ended = asyncio.Event()
    async with answering(None, ended) as port:
        outcome = await attempt(port, timeout_seconds=0.1)
        assert isinstance(outcome, Unreachable)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()


async def test_an_answer_after_the_timeout_opens_nothing(replica: ScriptedReplica) -> None:
    replica.answer_upgrades.clear()
    outcome = await attempt(replica.port, timeout_seconds=0.1)
    assert isinstance(outcome, Unreachable)
    replica.answer_upgrades.set()
    await eventually(lambda: replica.connections == 1 and not replica.open_sessions, "no session stays open")


async def test_a_cancelled_opening_leaves_no_connection() -> None:
    ended, asked = asyncio.Event(), asyncio.Event()

    def answer(_head: bytes) -> bytes:
        asked.set()
        return b""

    async with answering(answer, ended) as port:
        # A half-open handshake ends at its own deadline at the latest.
        opening = asyncio.create_task(attempt(port, timeout_seconds=0.5))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asked.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await ended.wait()


async def test_an_opening_cancelled_as_it_succeeds_leaves_no_connection(replica: ScriptedReplica) -> None:
    """However many turns of the loop the handshake takes: a cancellation in each of them is clean."""
    for turns in range(40):
        opening = asyncio.create_task(attempt(replica.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        try:
            upstream = await opening
        except asyncio.CancelledError:
            continue
        assert isinstance(upstream, Upstream)
        upstream.abort()
        await upstream.closed()
    await eventually(lambda: not replica.open_sessions, "every session has ended")


def glued(*parts: bytes) -> Callable[[bytes], bytes]:
    """An answer of 101 with the replica's first frames right behind it."""

    def answer(head: bytes) -> bytes:
        found = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
        assert found is not None
        digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        return (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
        ) + b"".join(frames(Opcode.TEXT, [part]) for part in parts)

    return answer


async def test_a_first_frame_glued_to_the_101_is_kept_for_the_listener() -> None:
    async with answering(glued(b"at once"), asyncio.Event()) as port, connected(port) as upstream:
        listener = Listener()
        upstream.listen(listener)
        assert await listener.next() == Message("at once")


async def test_a_listener_that_drops_the_replica_at_its_first_word_hears_no_second_one() -> None:
    class Drops(Listener):
        def upstream_event(self, event: Event) -> None:
            super().upstream_event(event)
            upstream.mute()

    ended = asyncio.Event()
    async with answering(glued(b"refused", b"too late"), ended) as port, connected(port) as upstream:
        upstream.pause_writing()
        listener = Drops()
        upstream.listen(listener)
        upstream.resume_writing()
        upstream.abort()
        await ended.wait()
        assert await listener.next() == Message("refused")
        assert (listener.waiting.qsize(), listener.flow) == (0, [])


async def test_early_messages_and_an_early_end_wait_for_the_listener(replica: ScriptedReplica) -> None:
    async with connected(replica.port) as upstream:
        peer = await replica.session()
        await peer.send("1")
        await peer.send(b"2")
        await peer.close(1013, "session_rejected")
        listener = Listener()
        upstream.listen(listener)
        assert [await listener.next() for _ in range(3)] == [
            Message("1"),
            Message(b"2"),
            Closed(1013, "session_rejected"),
        ]
        await peer.ended()


# -- messages


@pytest.mark.parametrize("data", ["", b"", "text", b"\x00\xff", PIER, PIER * 100_000, b"x" * CAP_BYTES])
async def test_a_message_of_the_replica_arrives_whole(session: Session, data: str | bytes) -> None:
    await session.peer.send(data)
    assert await session.listener.next() == Message(data)


@pytest.mark.parametrize(
    "data",
    [
        "", b"", "text", PIER, PIER * 100_000, b"x" * CAP_BYTES,
        b"x" * (FRAGMENT_BYTES // 4), b"x" * (FRAGMENT_BYTES // 4 + 1),
        b"x" * FRAGMENT_BYTES, b"x" * (FRAGMENT_BYTES + 1), b"x" * 2 * FRAGMENT_BYTES,
        "é" * (FRAGMENT_BYTES // 4 + 1), "a" + "é" * FRAGMENT_BYTES,
    ],
    ids=lambda data: f"{type(data).__name__}-{len(data)}",
)  # fmt: skip
async def test_a_message_to_the_replica_arrives_whole(session: Session, data: str | bytes) -> None:
    session.upstream.send(Message(data))
    session.upstream.send(Message("next"))
    assert await session.peer.recv() == data
    assert await session.peer.recv() == "next"


async def test_fragments_are_joined(session: Session) -> None:
    await session.peer.send_raw(frames(Opcode.BINARY, [b"", b"a", b"", b"bc", b""]))
    assert await session.listener.next() == Message(b"abc")
    await session.peer.send_raw(frames(Opcode.BINARY, [b"d", b"e"]))
    assert await session.listener.next() == Message(b"de")


async def test_a_character_split_between_fragments_arrives(session: Session) -> None:
    await session.peer.send_raw(frames(Opcode.TEXT, [bytes([octet]) for octet in PIER.encode()]))
    assert await session.listener.next() == Message(PIER)


async def test_a_ping_between_fragments_is_answered_and_breaks_nothing(session: Session) -> None:
    await session.peer.send_raw(
        Frame(Opcode.BINARY, b"a", fin=False).serialize(mask=False)
        + Frame(Opcode.PING, b"still there?").serialize(mask=False)
        + Frame(Opcode.CONT, b"b").serialize(mask=False)
    )
    assert await session.listener.next() == Message(b"ab")
    await eventually(lambda: session.peer.pongs == [b"still there?"], "the ping is answered")


async def test_a_hundred_thousand_fragments_are_one_message(session: Session) -> None:
    first, more, last = b"\x02\x02ab", b"\x00\x02ab", b"\x80\x02ab"
    await session.peer.send_raw(first + more * 99_998 + last)
    assert await session.listener.next() == Message(b"ab" * 100_000)


async def test_every_ping_of_a_replica_that_reads_is_answered(session: Session) -> None:
    for number in range(50):
        await session.peer.ping(b"%d" % number)
    wanted = [b"%d" % number for number in range(50)]
    await eventually(lambda: session.peer.pongs == wanted, "each ping is answered, in order")
    assert session.listener.waiting.empty()


async def test_a_replica_that_pings_and_does_not_read_is_owed_one_pong(session: Session) -> None:
    upstream, peer, listener = session.upstream, session.peer, session.listener
    peer.pause_reading()
    await _until_nothing_is_taken(upstream)
    unsent_bytes = upstream.unsent_bytes
    pings = (Frame(Opcode.PING, b"%125d" % number).serialize(mask=False) for number in range(10_000))
    await peer.send_raw(b"".join(pings))
    await peer.send("behind them")
    assert await listener.next() == Message("behind them")
    assert upstream.unsent_bytes == unsent_bytes
    peer.resume_reading()
    await eventually(lambda: peer.pongs, "it is answered once it reads")
    await peer.ping(b"one more")
    await eventually(lambda: peer.pongs[1:], "and again")
    assert peer.pongs == [b"%125d" % 9_999, b"one more"]


async def test_a_ping_of_ours_brings_a_pong(session: Session) -> None:
    session.upstream.send(Ping(b"1"))
    assert await session.listener.next() == Pong(b"1")
    assert session.peer.pings == [b"1"]


async def test_a_pong_of_ours_arrives(session: Session) -> None:
    session.upstream.send(Pong(b"1"))
    await eventually(lambda: session.peer.pongs == [b"1"], "the pong arrives")


# -- caps and breaches


@pytest.mark.parametrize(
    "wire",
    [
        frames(Opcode.BINARY, [b"x" * (CAP_BYTES + 1)]),
        frames(Opcode.TEXT, [b"x" * (CAP_BYTES + 1)]),
        frames(Opcode.BINARY, [b"x" * (CAP_BYTES // 2), b"x" * (CAP_BYTES // 2), b"x"]),
        frames(Opcode.BINARY, [b"x" * (CAP_BYTES // 2)] * 4),
    ],
    ids=["one frame", "one text frame", "fragments", "more fragments after it"],
)
async def test_a_message_above_the_cap_ends_the_connection_with_1009(session: Session, wire: bytes) -> None:
    with suppress(ConnectionError):  # the connection may be gone before all of it was sent
        await session.peer.send_raw(wire)
    assert await session.listener.next() == Closed(None)
    assert session.upstream.too_big
    await session.is_over()


async def test_the_replica_is_told_of_its_message_above_the_cap(session: Session) -> None:
    await session.peer.send_raw(frames(Opcode.BINARY, [b"x" * CAP_BYTES, b"x"]))
    assert (await session.peer.ended()).code == 1009
    assert session.upstream.too_big


async def test_fragments_up_to_the_cap_arrive(session: Session) -> None:
    await session.peer.send_raw(frames(Opcode.BINARY, [b"x" * (CAP_BYTES // 4)] * 4))
    assert await session.listener.next() == Message(b"x" * CAP_BYTES)
    assert not session.upstream.too_big


async def test_nothing_is_delivered_from_behind_a_message_above_the_cap(session: Session) -> None:
    await session.peer.send("before")
    with suppress(ConnectionError):
        await session.peer.send_raw(
            frames(Opcode.BINARY, [b"x" * (CAP_BYTES + 1)]) + frames(Opcode.TEXT, [b"y"])
        )
    assert await session.listener.next() == Message("before")
    assert await session.listener.next() == Closed(None)
    await session.is_over()


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (frames(Opcode.TEXT, [b"\xff\xfe"]), 1007),
        (frames(Opcode.TEXT, [b"\xc3", b"x"]), 1007),
        (Frame(Opcode.CONT, b"x").serialize(mask=False), 1002),
        (Frame(Opcode.CONT, b"x", fin=False).serialize(mask=False), 1002),
        (Frame(Opcode.BINARY, b"x", fin=False).serialize(mask=False) * 2, 1002),
        (frames(Opcode.BINARY, [b"x", b"y"])[:3] + frames(Opcode.BINARY, [b"z"]), 1002),
        (frames(Opcode.BINARY, [b"x", b"y"])[:3] + frames(Opcode.TEXT, [b"z"]), 1002),
        (b"\x83\x00", 1002),
        *((bytes([0x89 | reserved, 0]), 1002) for reserved in (0x40, 0x20, 0x10)),
        (b"\x88\x02" + (1005).to_bytes(2, "big"), 1002),
        (b"\x88\x02" + (999).to_bytes(2, "big"), 1002),
        (b"\x88\x01\x03", 1002),
    ],
    ids=[
        "text that is not UTF-8",
        "fragments that are not UTF-8",
        "continuation of nothing",
        "unfinished continuation of nothing",
        "unfinished message inside another",
        "whole message inside another",
        "whole text inside another",
        "unknown opcode",
        "ping with the first reserved bit",
        "ping with the second reserved bit",
        "ping with the third reserved bit",
        "close code that may not be sent",
        "close code that does not exist",
        "half a close code",
    ],
)
async def test_a_breach_of_the_protocol_ends_the_connection_and_is_a_loss(
    session: Session, wire: bytes, code: int
) -> None:
    await session.peer.send("before")
    await session.peer.send_raw(wire)
    assert await session.listener.next() == Message("before")
    assert await session.listener.next() == Closed(None)
    assert (await session.peer.ended()).code == code
    assert not session.upstream.too_big
    await session.is_over()


# -- ends


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (4001, "session_gone", Closed(4001, "session_gone")),
        (1000, "", Closed(1000, "")),
        (1013, "session_rejected", Closed(1013, "session_rejected")),
        (1011, "é" * 61, Closed(1011, "é" * 61)),
        (None, "", Closed(1005, "")),
    ],
)
async def test_a_replicas_close_is_told_and_answered(
    session: Session, code: int | None, reason: str, told: Closed
) -> None:
    await session.peer.send("last words")
    await session.peer.close(code, reason)
    assert await session.listener.next() == Message("last words")
    assert await session.listener.next() == told
    ending = await session.peer.ended()
    assert (ending.code, ending.fault) == (code or 1000, None)
    await session.is_over()


async def test_a_close_with_the_code_0_is_told_as_it_is_and_answered_legally(session: Session) -> None:
    await session.peer.send_raw(b"\x88\x05\x00\x00bye")
    assert await session.listener.next() == Closed(0, "bye")
    ending = await session.peer.ended()
    assert ending.fault is None
    assert ending.code is not None
    assert ending.code >= 1000
    await session.is_over()


@pytest.mark.parametrize("wire", [b"\x83\x00", b"\x88\x01\x03", b"\x82\x7f" + b"\xff" * 8])
async def test_a_broken_frame_leaves_no_error_that_nobody_asked_for(
    replica: ScriptedReplica, wire: bytes
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    listener = Listener()
    upstream = await attempt(replica.port)
    assert isinstance(upstream, Upstream)
    upstream.listen(listener)
    peer = await replica.session()
    await peer.send_raw(wire)
    assert await listener.next() == Closed(None)
    await peer.ended()
    del upstream  # nobody waits for its end
    for _ in range(10):
        await asyncio.sleep(0)
        gc.collect()
    assert complaints == []


@pytest.mark.parametrize(
    ("closed", "code", "reason"),
    [
        (Closed(4002, "bye"), 4002, "bye"),
        (Closed(1001, "client_gone"), 1001, "client_gone"),
        (Closed(1005), 1000, ""),
        (Closed(None), 1011, ""),
        (Closed(1000, "é" * 100), 1000, "é" * 61),
    ],
)
async def test_a_close_of_ours_arrives_behind_the_messages(
    session: Session, closed: Closed, code: int, reason: str
) -> None:
    session.upstream.send(Message("last words"))
    session.upstream.send(closed)
    session.upstream.send(Message("too late"))
    session.upstream.send(Closed(1000))
    assert await session.peer.recv() == "last words"
    with pytest.raises(PeerEndedError):
        await session.peer.recv()
    ending = await session.peer.ended()
    assert (ending.code, ending.reason, ending.fault) == (code, reason, None)
    assert await session.listener.next() == Closed(code, reason)
    await session.is_over()


async def test_an_abort_in_mid_message_is_an_end_without_a_code(session: Session) -> None:
    await session.peer.send("whole")
    await session.peer.abort_mid_message()
    told = [await session.listener.next()]
    if told == [Message("whole")]:  # a reset may overtake what was in the socket
        told = [await session.listener.next()]
    assert told == [Closed(None)]
    await session.is_over()


async def test_an_abort_between_fragments_delivers_no_part(session: Session) -> None:
    await session.peer.send_raw(Frame(Opcode.BINARY, b"half", fin=False).serialize(mask=False))
    session.peer.end_of_stream()
    assert await session.listener.next() == Closed(None)
    await session.is_over()


async def test_nothing_is_sent_to_a_replica_that_has_gone(session: Session) -> None:
    await session.peer.close(1000)
    assert isinstance(await session.listener.next(), Closed)
    for event in (Message("late"), Message(b"x" * 2 * FRAGMENT_BYTES), Ping(), Closed(1000)):
        session.upstream.send(event)
    await session.upstream.closed()
    session.upstream.send(Message("later still"))
    session.upstream.pause_reading()
    session.upstream.resume_reading()
    session.upstream.abort()
    assert session.upstream.unsent_bytes == 0


async def test_a_replica_that_ignores_our_close_is_cut(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_TIMEOUT_SECONDS", 0.05)
    session.peer.pause_reading()
    session.upstream.send(Closed(1000))
    await session.upstream.closed()
    session.peer.resume_reading()
    await session.peer.ended()
    assert await session.listener.next() == Closed(None)


async def test_giving_up_on_the_close_cuts_the_connection(session: Session) -> None:
    session.peer.pause_reading()
    session.upstream.send(Closed(1000))
    waiting = asyncio.create_task(session.upstream.closed())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    session.peer.resume_reading()
    await session.peer.ended()


async def test_a_close_is_answered_though_reading_was_paused(session: Session) -> None:
    session.upstream.pause_reading()
    session.upstream.send(Closed(4002, "bye"))
    await session.upstream.closed()
    assert await session.listener.next() == Closed(4002, "bye")


# -- backpressure


async def test_a_replica_that_is_not_read_is_held_up_and_nothing_is_lost(session: Session) -> None:
    session.upstream.pause_reading()
    messages = 64
    sending = asyncio.create_task(_send_all(session.peer, [b"x" * (1 << 20)] * messages))
    await eventually(lambda: session.peer.bytes_sent > 0 or not sending.done(), "it sends")
    done, _ = await asyncio.wait([sending], timeout=0.3)
    assert not done, "the kernel's buffers are full"
    assert session.listener.waiting.qsize() <= 1
    session.upstream.resume_reading()
    for _ in range(messages):
        assert await session.listener.next() == Message(b"x" * (1 << 20))
    await sending


async def test_pausing_twice_and_resuming_twice_is_harmless(session: Session) -> None:
    for _ in range(2):
        session.upstream.pause_reading()
    for _ in range(2):
        session.upstream.resume_reading()
    await session.peer.send("a")
    assert await session.listener.next() == Message("a")


async def test_a_replica_that_does_not_read_pauses_the_session(session: Session) -> None:
    upstream, listener = session.upstream, session.listener
    session.peer.pause_reading()
    sent = 0
    while not listener.flow:
        upstream.send(Message(b"x" * (1 << 20)))
        sent += 1
        await asyncio.sleep(0)
        assert sent < 512, "the session is told before the memory fills"
    assert listener.flow == ["paused"]
    assert upstream.unsent_bytes > 0
    assert upstream.sent_bytes >= sent * (1 << 20)
    session.peer.resume_reading()
    for _ in range(sent):
        assert await session.peer.recv() == b"x" * (1 << 20)
    await eventually(lambda: listener.flow == ["paused", "resumed"], "the session is told to go on")
    assert upstream.unsent_bytes == 0


async def test_what_a_replica_has_taken_is_known_to_the_byte(session: Session) -> None:
    """Else small messages that keep coming would hide, or feign, what a slow replica takes."""
    upstream = session.upstream
    session.peer.pause_reading()
    await _until_nothing_is_taken(upstream)
    taken_bytes = upstream.sent_bytes - upstream.unsent_bytes
    sizes = (0, 125, 126, 65_535, 65_536, FRAGMENT_BYTES, FRAGMENT_BYTES + 1)
    texts = (".", "é" * 20, PIER * 1000, PIER * 50_000)
    events: list[Event] = [
        *map(Message, texts),
        *(Message(b"x" * size) for size in sizes),
        Ping(b"1"),
        Pong(),
    ]
    for event in events:
        upstream.send(event)
        assert upstream.sent_bytes - upstream.unsent_bytes == taken_bytes
    session.peer.resume_reading()
    await eventually(lambda: upstream.unsent_bytes == 0, "all is taken")


async def test_a_listener_that_comes_late_is_told_that_the_replica_does_not_read(
    replica: ScriptedReplica,
) -> None:
    async with connected(replica.port) as upstream:
        (await replica.session()).pause_reading()
        while not upstream.unsent_bytes > 4 * FRAGMENT_BYTES:
            upstream.send(Message(b"x" * (1 << 20)))
            await asyncio.sleep(0)
        listener = Listener()
        upstream.listen(listener)
        assert listener.flow == ["paused"]


async def _until_nothing_is_taken(upstream: Upstream) -> None:
    """Return once the kernel's buffers towards the replica are full."""
    while True:
        before = upstream.unsent_bytes
        upstream.send(Message(b"x" * (1 << 20)))
        await asyncio.sleep(0.01)
        if before and upstream.unsent_bytes >= before + (1 << 20):
            return


async def _send_all(peer: Peer, messages: list[bytes]) -> None:
    for message in messages:
        await peer.send(message)
