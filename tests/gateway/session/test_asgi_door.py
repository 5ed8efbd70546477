"""Granian's door against a server in the test's hands: what is read, what is sent, what is held back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.session.asgi_door import (
    MAX_HELD_MESSAGES,
    QUIET_SECONDS,
    QUIET_TIMEOUT_SECONDS,
    AsgiDoor,
    opening_request,
)
from gateway.session.asgi_writer import HIGH_WATER_BYTES, LOW_WATER_BYTES, MAX_UNWATCHED_BYTES
from gateway.session.events import Closed, Event, Message, Ping, Pong
from tests.gateway.session.asgi_server import SCOPE, EagerServer, Server
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

CHUNK = b"x" * 64 * 1024


class Listener:
    """The session, as a door sees it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.flow: list[str] = []

    def downstream_event(self, event: Event) -> None:
        self.events.append(event)

    def downstream_paused(self) -> None:
        self.flow.append("paused")

    def downstream_resumed(self) -> None:
        self.flow.append("resumed")


@asynccontextmanager
async def opened(
    server: Server, listener: Listener | None = None, subprotocol: str | None = None
) -> AsyncIterator[AsgiDoor]:
    """A door that has been accepted, and whose session ends with the block."""
    ended, ready = asyncio.Event(), asyncio.Event()

    async def serve(door: AsgiDoor) -> None:
        await door.accept(listener or Listener(), subprotocol)
        ready.set()
        await ended.wait()

    door = AsgiDoor(server.scope, server.receive, server.send)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(door.run(serve))
        await ready.wait()
        await settle()
        yield door
        ended.set()


@pytest.fixture(params=[Server, EagerServer])
def new_server(request: pytest.FixtureRequest) -> type[Server]:
    """Either of the servers that there are."""
    kind: type[Server] = request.param
    return kind


@pytest.fixture
async def server(new_server: type[Server]) -> Server:
    return new_server()


def no_task_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


# -- opening


@pytest.mark.parametrize("subprotocol", [None, "b"])
async def test_an_accept_carries_the_subprotocol(subprotocol: str | None) -> None:
    server = Server()
    async with opened(server, subprotocol=subprotocol) as door:
        assert door.accepted
        assert server.sent == [{"type": "websocket.accept", "subprotocol": subprotocol}]
    assert no_task_is_left()


async def test_a_refusal_is_an_http_answer() -> None:
    server = Server()

    async def serve(door: AsgiDoor) -> None:
        assert not door.accepted
        await door.refuse(503, [(b"retry-after", b"7")], b"busy")
        assert not door.accepted

    await AsgiDoor(server.scope, server.receive, server.send).run(serve)
    assert server.sent == [
        {
            "type": "websocket.http.response.start",
            "status": 503,
            "headers": [(b"retry-after", b"7"), (b"content-length", b"4")],
        },
        {"type": "websocket.http.response.body", "body": b"busy"},
    ]
    assert no_task_is_left()


async def test_a_client_that_goes_before_the_connect_is_not_served() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "websocket.disconnect", "code": 1006}

    async def serve(door: AsgiDoor) -> None:
        raise AssertionError("nobody is there")

    await AsgiDoor(SCOPE, receive, Server().send).run(serve)


# -- reading


async def test_what_the_client_says_arrives_in_order_and_kind() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener):
        server.says("a", b"b", "", b"", "ü")
        await settle()
        assert listener.events == [Message(data) for data in ("a", b"b", "", b"", "ü")]


async def test_a_receive_is_pending_whenever_the_client_is_quiet() -> None:
    server = Server()
    async with opened(server) as door:
        assert server.pending_receives == 1
        server.says("a")
        await settle()
        assert server.pending_receives == 1
        door.pause_reading()
        await settle()
        assert server.pending_receives == 1


async def test_held_messages_are_few_and_come_in_order_once_reading_goes_on() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.pause_reading()
        server.says("1")
        await settle()
        assert (listener.events, server.pending_receives) == ([], 1)
        server.says("2", "3", "4")
        await settle()
        assert (listener.events, server.pending_receives) == ([], 0)
        door.resume_reading()
        assert listener.events == [Message("1"), Message("2")], "at once"
        await settle()
        assert listener.events == [Message(data) for data in "1234"]
        assert server.pending_receives == 1
    assert MAX_HELD_MESSAGES == 2


async def test_a_session_that_pauses_on_a_held_message_gets_no_other() -> None:
    server = Server()

    class Reluctant(Listener):
        def downstream_event(self, event: Event) -> None:
            super().downstream_event(event)
            door.pause_reading()

    listener = Reluctant()
    async with opened(server, listener) as door:
        server.says(*"12345")
        for count in range(1, 6):
            await settle()
            assert listener.events == [Message(data) for data in "12345"[:count]]
            door.resume_reading()


async def test_resuming_what_is_not_paused_changes_nothing() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.resume_reading()
        server.says("a")
        await settle()
        assert listener.events == [Message("a")]


@pytest.mark.parametrize(
    ("message", "closed"),
    [
        ({"code": 1000}, Closed(1000)),
        ({"code": 4002}, Closed(4002)),
        ({"code": 4002, "reason": "bye"}, Closed(4002, "bye")),
        ({"code": 1001, "reason": ""}, Closed(1001)),
        ({"code": 1005}, Closed(None)),
        ({"code": None}, Closed(None)),
        ({}, Closed(None)),
    ],
)
async def test_a_clients_end_is_told_once_and_last(message: dict[str, Any], closed: Closed) -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener):
        server.says("a")
        server.arrives({"type": "websocket.disconnect", **message})
        server.says("too late")
        await settle()
        assert listener.events == [Message("a"), closed]
        assert server.pending_receives == 0
    assert no_task_is_left()


async def test_a_clients_end_waits_its_turn_behind_a_held_message() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.pause_reading()
        server.says("a")
        server.vanishes()
        await settle()
        assert listener.events == []
        door.resume_reading()
        assert listener.events == [Message("a"), Closed(None)]


# -- sending


async def test_what_is_sent_arrives_in_order_and_kind_with_the_close_last(server: Server) -> None:
    async with opened(server) as door:
        server.stops_taking()
        for event in (
            Message("a"),
            Message(b"b"),
            Closed(4001, "session_gone"),
            Message("late"),
            Closed(1000),
        ):
            door.send(event)
        await settle()
        server.takes()
        await door.flushed()
        assert server.sent[1:] == [
            {"type": "websocket.send", "text": "a"},
            {"type": "websocket.send", "bytes": b"b"},
            {"type": "websocket.close", "code": 4001, "reason": "session_gone"},
        ]


@pytest.mark.parametrize(
    ("closed", "code", "reason"),
    [
        (Closed(1005), 1000, ""),
        (Closed(None), 1011, ""),
        (Closed(999, "odd"), 1011, "odd"),
        (Closed(1000, "é" * 100), 1000, "é" * 61),
    ],
)
async def test_only_legal_closes_go_on_the_wire(
    server: Server, closed: Closed, code: int, reason: str
) -> None:
    async with opened(server) as door:
        door.send(closed)
        await door.flushed()
        assert server.sent[-1] == {"type": "websocket.close", "code": code, "reason": reason}


async def test_pings_do_not_exist_on_this_wire(server: Server) -> None:
    async with opened(server) as door:
        assert not door.capabilities.pings
        door.send(Ping())
        door.send(Pong())
        await door.flushed()
        assert len(server.sent) == 1


async def test_a_client_that_does_not_read_pauses_the_session_and_reading_on_resumes_it(
    server: Server,
) -> None:
    listener = Listener()
    async with opened(server, listener) as door:
        server.stops_taking()
        for _ in range(HIGH_WATER_BYTES // len(CHUNK)):
            door.send(Message(CHUNK))
        await settle()
        assert listener.flow == []
        door.send(Message(CHUNK))
        door.send(Message(CHUNK))
        assert listener.flow == ["paused"], "at once, and once"
        while server.delivered_bytes < 2 * HIGH_WATER_BYTES:
            waiting = HIGH_WATER_BYTES + 2 * len(CHUNK) - server.delivered_bytes
            assert listener.flow == (["paused"] if waiting > LOW_WATER_BYTES else ["paused", "resumed"])
            if not server.sending:
                break
            server.takes(1)
            await settle()
        assert listener.flow == ["paused", "resumed"]
        assert server.delivered == [CHUNK] * (HIGH_WATER_BYTES // len(CHUNK) + 2)


async def test_a_stall_lasts_since_the_last_progress(server: Server) -> None:
    loop = asyncio.get_running_loop()
    async with opened(server) as door:
        assert door.stalled_since is None
        server.stops_taking()
        await asyncio.sleep(10)
        began = loop.time()
        door.send(Message("1"))
        await asyncio.sleep(30)
        door.send(Message("2"))
        assert door.stalled_since == began, "sending more is no progress"
        server.takes(1)
        await settle()
        progress = loop.time()
        await asyncio.sleep(30)
        assert door.stalled_since == progress
        server.takes()
        await door.flushed()
        assert door.stalled_since is None


async def test_flushed_waits_for_the_client_and_can_be_given_up(server: Server) -> None:
    async with opened(server) as door:
        await door.flushed()
        server.stops_taking()
        door.send(Message("a"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await door.flushed()
        server.takes()
        await door.flushed()
        assert server.delivered == ["a"]


async def test_dropping_leaves_only_the_close(server: Server) -> None:
    listener = Listener()
    async with opened(server, listener) as door:
        server.stops_taking()
        for _ in range(10):
            door.send(Message(CHUNK))
        await settle()
        door.send(Closed(1008, "slow_consumer"))
        door.drop_unsent()
        server.takes()
        await door.flushed()
        assert server.delivered == [CHUNK], "the one that was under way"
        assert server.sent[-1] == {"type": "websocket.close", "code": 1008, "reason": "slow_consumer"}


async def test_a_close_behind_dropped_messages_arrives_too(server: Server) -> None:
    async with opened(server) as door:
        server.stops_taking()
        door.send(Message("1"))
        door.send(Message("2"))
        await settle()
        door.drop_unsent()
        door.send(Closed(1008))
        server.takes()
        await door.flushed()
        assert [message["type"] for message in server.sent[1:]] == ["websocket.send", "websocket.close"]


async def test_nothing_is_sent_to_a_client_that_has_gone(server: Server) -> None:
    async with opened(server) as door:
        server.vanishes()
        await settle()
        door.send(Message("a"))
        door.send(Closed(1000))
        await door.flushed()
        await settle()
        assert len(server.sent) == 1


async def test_a_client_that_goes_while_it_is_sent_to_holds_nobody_up(server: Server) -> None:
    listener = Listener()
    async with opened(server, listener) as door:
        server.stops_taking()
        for data in "123":
            door.send(Message(data))
        await settle()
        server.vanishes()
        await settle()
        assert listener.events == [Closed(None)]
        await door.flushed()
        assert door.stalled_since is None
        server.takes()
        await settle()
        assert server.delivered in ([], ["1"]), "at most what was under way"
    assert no_task_is_left()


async def test_a_close_under_way_waits_for_the_client_though_the_server_tells_of_the_end(
    server: Server,
) -> None:
    """As Granian does as soon as it has begun the close."""
    listener = Listener()
    async with opened(server, listener) as door:
        await asyncio.sleep(QUIET_TIMEOUT_SECONDS)
        server.stops_taking()
        door.send(Closed(1000, "finished"))
        await settle()
        server.vanishes()
        await settle()
        assert listener.events == [Closed(None)]
        assert door.stalled_since is not None
        server.takes()
        await door.flushed()
        assert server.sent[-1] == {"type": "websocket.close", "code": 1000, "reason": "finished"}
    assert no_task_is_left()


async def test_a_close_behind_messages_does_not_wait_for_a_client_that_has_gone(server: Server) -> None:
    async with opened(server) as door:
        await asyncio.sleep(QUIET_TIMEOUT_SECONDS)
        server.stops_taking()
        door.send(Message("a"))
        door.send(Closed(1000))
        await settle()
        server.vanishes()
        await settle()
        await door.flushed()
        assert door.stalled_since is None
    assert no_task_is_left()


async def test_little_is_sent_while_a_vanished_client_would_go_unnoticed(server: Server) -> None:
    messages = 2 * MAX_UNWATCHED_BYTES // len(CHUNK)
    async with opened(server) as door:
        door.pause_reading()
        server.says(*"12345")
        await settle()
        assert server.pending_receives == 0
        for _ in range(messages):
            door.send(Message(CHUNK))
        await settle()
        assert MAX_UNWATCHED_BYTES <= server.delivered_bytes <= MAX_UNWATCHED_BYTES + 2 * len(CHUNK)
        assert door.stalled_since is not None
        door.resume_reading()
        await door.flushed()
        assert server.delivered_bytes == messages * len(CHUNK)


@pytest.mark.parametrize("held", [0, 1])
async def test_a_watched_client_is_sent_to_without_end_though_it_is_not_listened_to(
    server: Server, held: int
) -> None:
    """A replica that sends all it has before it reads again must not wait for itself."""
    async with opened(server) as door:
        door.pause_reading()
        server.says(*["held"] * held)
        await settle()
        assert server.pending_receives >= 1
        messages = 3 * MAX_UNWATCHED_BYTES // len(CHUNK)
        for _ in range(messages):
            door.send(Message(CHUNK))
        async with asyncio.timeout(60):
            await door.flushed()
        assert server.delivered_bytes == messages * len(CHUNK)


async def test_what_was_sent_while_watched_does_not_count_as_unwatched(server: Server) -> None:
    async with opened(server) as door:
        for _ in range(2 * MAX_UNWATCHED_BYTES // len(CHUNK)):
            door.send(Message(CHUNK))
        await door.flushed()
        before = server.delivered_bytes
        door.pause_reading()
        server.says(*"12345")
        await settle()
        door.send(Message(CHUNK))
        async with asyncio.timeout(60):
            await door.flushed()
        assert server.delivered_bytes == before + len(CHUNK)


# -- cancellation


async def _waits_for_the_connect(server: Server, door: AsgiDoor) -> None:
    raise AssertionError("not reached")


async def _before_the_accept(server: Server, door: AsgiDoor) -> None:
    await asyncio.Event().wait()


async def _accepts(server: Server, door: AsgiDoor) -> None:
    server.stops_taking()
    await door.accept(Listener(), None)


async def _is_open(server: Server, door: AsgiDoor) -> None:
    await door.accept(Listener(), None)
    await asyncio.Event().wait()


async def _is_stuck_both_ways(server: Server, door: AsgiDoor) -> None:
    await door.accept(Listener(), None)
    door.pause_reading()
    server.says("1", "2", "3")
    server.stops_taking()
    door.send(Message("a"))
    await door.flushed()


async def _client_has_gone(server: Server, door: AsgiDoor) -> None:
    await door.accept(Listener(), None)
    server.vanishes()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "serve",
    [
        _waits_for_the_connect,
        _before_the_accept,
        _accepts,
        _is_open,
        _is_stuck_both_ways,
        _client_has_gone,
    ],
)
async def test_a_cancelled_session_leaves_no_task(serve: Any) -> None:
    server = Server()
    if serve is _waits_for_the_connect:
        await server.receive()
    door = AsgiDoor(server.scope, server.receive, server.send)
    task = asyncio.create_task(door.run(lambda door: serve(server, door)))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert no_task_is_left()
    assert (server.pending_receives, server.sending) == (0, 0)


# -- the request


def test_the_request_is_read_as_it_came() -> None:
    asked = opening_request(SCOPE)
    assert asked.raw_path == "/v1/stream/%C3%A9"
    assert asked.query == "t=a%2Fb&t=c"
    assert asked.headers == ((b"host", b"gateway.example"), (b"x-one", b"1"), (b"x-one", b"2"))
    assert asked.client_host == "192.0.2.7"
    assert asked.scheme == "http"


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"scheme": "wss"}, "scheme", "https"),
        ({"scheme": "https"}, "scheme", "https"),
        ({"client": None}, "client_host", ""),
        ({"raw_path": b"/v1/stream/?t=a"}, "raw_path", "/v1/stream/"),
        ({"raw_path": None, "path": "/ws"}, "raw_path", "/ws"),
        ({"query_string": b"\xff"}, "query", "\xff"),
    ],
)
def test_servers_differ_in_what_they_say_of_a_request(change: dict[str, Any], field: str, value: str) -> None:
    assert getattr(opening_request({**SCOPE, **change}), field) == value


# -- the close waits until the client is quiet, and reads it meanwhile


async def test_a_close_waits_while_the_client_still_says_something() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.send(Message("last words"))
        door.send(Closed(1013, "queue_full"))
        server.says("under", "way")
        await settle()
        assert [message["type"] for message in server.sent] == ["websocket.accept", "websocket.send"]
        assert server.pending_receives == 1
        await door.flushed()
        assert server.sent[-1]["type"] == "websocket.close"


async def test_a_close_waits_longer_for_a_client_that_has_not_spoken_yet() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.send(Closed(1013, "no_healthy_replica"))
        await asyncio.sleep(QUIET_SECONDS * 1.5)
        server.says("first words")
        await settle()
        assert server.sent[-1]["type"] == "websocket.accept"
        await door.flushed()
        assert server.sent[-1]["type"] == "websocket.close"
        assert listener.events == [Message("first words")]


async def test_a_close_does_not_wait_for_ever_for_a_client_that_goes_on() -> None:
    server, loop = Server(), asyncio.get_running_loop()
    async with opened(server) as door:
        began = loop.time()
        door.send(Closed(1012))
        while server.sent[-1]["type"] != "websocket.close":
            server.says("more")
            await asyncio.sleep(QUIET_SECONDS / 3)
        assert loop.time() - began <= QUIET_TIMEOUT_SECONDS + QUIET_SECONDS


async def test_a_client_that_has_long_been_quiet_is_closed_at_once() -> None:
    server, loop = Server(), asyncio.get_running_loop()
    async with opened(server) as door:
        await asyncio.sleep(QUIET_TIMEOUT_SECONDS)
        began = loop.time()
        door.send(Closed(1000))
        await door.flushed()
        assert loop.time() == began


async def test_a_close_reads_a_client_that_was_held_back() -> None:
    server, listener = Server(), Listener()
    async with opened(server, listener) as door:
        door.pause_reading()
        server.says("1", "2", "3", "4")
        await settle()
        door.send(Closed(1011))
        await door.flushed()
        assert len(listener.events) == 4
