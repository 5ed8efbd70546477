"""What is peculiar to sending and receiving ahead; what holds for every writer is tested through the door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.session.asgi_door import RECEIVES_AHEAD, SMALL_BYTES, AsgiDoor
from gateway.session.asgi_writer import HIGH_WATER_BYTES, LOW_WATER_BYTES, Ahead, Frame
from gateway.session.events import Closed, Event, Message
from tests.gateway.session.asgi_server import EagerServer
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

KIB = 1024


class Listener:
    """The session, as far as a writer tells it anything."""

    def __init__(self) -> None:
        self.flow: list[str] = []

    def downstream_event(self, event: Event) -> None:
        raise AssertionError("a writer hears nothing")

    def downstream_paused(self) -> None:
        self.flow.append("paused")

    def downstream_resumed(self) -> None:
        self.flow.append("resumed")


class Sends:
    """Sends that end when a test says so, in any order, well or badly."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.futures: list[asyncio.Future[None]] = []
        self.refuses: Exception | None = None

    def __call__(self, frame: Frame) -> asyncio.Future[None]:
        if self.refuses is not None:
            raise self.refuses
        self.frames.append(frame)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def end(self, *numbers: int) -> None:
        for number in numbers:
            self.futures[number].set_result(None)
            await settle()

    @property
    def cancelled(self) -> list[int]:
        return [number for number, future in enumerate(self.futures) if future.cancelled()]


@asynccontextmanager
async def writing(sends: Sends, listener: Listener | None = None) -> AsyncIterator[Ahead]:
    writer = Ahead(sends)
    writer.start(listener or Listener())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(writer.run())
        await settle()
        yield writer
        running.cancel()


def text(name: str) -> Frame:
    return {"type": "websocket.send", "text": name}


CLOSE: Frame = {"type": "websocket.close", "code": 1008, "reason": "slow_consumer"}


async def test_sends_begin_without_waiting_for_those_before() -> None:
    sends = Sends()
    async with writing(sends) as writer:
        for name in "abc":
            writer.push(text(name), 1)
        assert [frame["text"] for frame in sends.frames] == ["a", "b", "c"], "at once"


async def test_flushed_is_not_before_the_last_has_been_taken() -> None:
    sends = Sends()
    async with writing(sends) as writer, asyncio.TaskGroup() as tasks:
        for name in "abc":
            writer.push(text(name), 1)
        flushed = tasks.create_task(writer.flushed())
        await settle()
        await sends.end(0, 1)
        assert not flushed.done()
        writer.push(text("d"), 1)
        await sends.end(2)
        assert not flushed.done(), "another one came meanwhile"
        await sends.end(3)
        assert flushed.done()


async def test_sends_that_end_out_of_step_count_when_all_before_them_have() -> None:
    sends, listener = Sends(), Listener()
    async with writing(sends, listener) as writer:
        for _ in range(6):
            writer.push(text("x"), 64 * KIB)
        assert listener.flow == ["paused"]
        await sends.end(4, 5, 3, 2)
        assert listener.flow == ["paused"]
        assert writer.stalled_since is not None
        await sends.end(1, 0)
        assert listener.flow == ["paused", "resumed"]
        assert writer.stalled_since is None


@pytest.mark.parametrize("size_bytes", [64, 1_000, 64 * KIB, LOW_WATER_BYTES + 1, 1024 * KIB])
async def test_a_paused_session_goes_on_exactly_at_the_low_water_mark(size_bytes: int) -> None:
    sends, listener = Sends(), Listener()
    async with writing(sends, listener) as writer:
        count = HIGH_WATER_BYTES // size_bytes + 1
        for _ in range(count):
            writer.push(text("x"), size_bytes)
        assert listener.flow == ["paused"]
        for number, future in enumerate(sends.futures):
            left = (count - number) * size_bytes
            assert listener.flow == (["paused"] if left > LOW_WATER_BYTES else ["paused", "resumed"])
            future.set_result(None)
            for _ in range(3):
                await asyncio.sleep(0)
        assert listener.flow == ["paused", "resumed"]


async def test_who_asks_for_a_stall_learns_when_the_next_progress_was() -> None:
    sends, loop = Sends(), asyncio.get_running_loop()
    async with writing(sends) as writer:
        began = loop.time()
        for name in "abc":
            writer.push(text(name), 1)
        await asyncio.sleep(5)
        assert writer.stalled_since == began
        await asyncio.sleep(5)
        await sends.end(0)
        taken = loop.time()
        await asyncio.sleep(5)
        assert writer.stalled_since == taken
        await asyncio.sleep(5)
        await sends.end(1, 2)
        assert writer.stalled_since is None


async def test_dropping_keeps_the_one_that_may_be_on_its_way_and_the_close() -> None:
    sends, listener, loop = Sends(), Listener(), asyncio.get_running_loop()
    async with writing(sends, listener) as writer:
        began = loop.time()
        for _ in range(5):
            writer.push(text("x"), 100 * KIB)
        writer.push(CLOSE, 0)
        await asyncio.sleep(30)
        writer.drop_unsent()
        assert sends.cancelled == [1, 2, 3, 4]
        assert writer.stalled_since == began, "dropping is no progress"
        await sends.end(0)
        assert listener.flow == ["paused", "resumed"]
        assert writer.stalled_since is not None
        await sends.end(5)
        assert writer.stalled_since is None


@pytest.mark.parametrize("watched", [False, True])
async def test_what_went_wrong_with_any_send_ends_the_session(watched: bool) -> None:
    sends = Sends()
    writer = Ahead(sends)
    writer.start(Listener())
    running = asyncio.create_task(writer.run())
    await settle()
    for name in "abc":
        writer.push(text(name), 1)
    sends.futures[0].set_result(None)
    sends.futures[1].set_exception(ConnectionError("the server's own words"))
    if watched:
        assert writer.stalled_since is not None
    else:
        writer.push(text("d"), 1)
    with pytest.raises(ConnectionError, match="own words"):
        await running
    assert all(future.done() for future in sends.futures), "none is left to itself"
    await writer.flushed()


async def test_a_send_that_is_refused_ends_the_session_and_not_its_caller() -> None:
    sends = Sends()
    writer = Ahead(sends)
    writer.start(Listener())
    running = asyncio.create_task(writer.run())
    await settle()
    sends.refuses = RuntimeError("not initialised")
    writer.push(text("a"), 1)
    writer.push(text("b"), 1)
    with pytest.raises(RuntimeError, match="not initialised"):
        await running


async def test_a_send_without_an_outcome_tells_that_the_client_is_gone() -> None:
    """What Granian returns then has none of a future's methods."""
    sends, given, gone = Sends(), list[Frame](), False

    def send(frame: Frame) -> Any:
        given.append(frame)
        return object() if gone else sends(frame)

    writer, listener = Ahead(send), Listener()
    writer.start(listener)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(writer.run())
        await settle()
        for _ in range(5):
            writer.push(text("x"), 100 * KIB)
        flushed = tasks.create_task(writer.flushed())
        await settle()
        gone = True
        writer.push(text("into the void"), 1)
        writer.push(text("late"), 1)
        writer.push(CLOSE, 0)
        await settle()
        assert len(given) == 6, "nothing more is sent"
        assert writer.has_ended
        assert writer.stalled_since is None
        assert sends.cancelled == [0, 1, 2, 3, 4], "none is left to itself"
        assert flushed.done()
        await writer.flushed()
        assert not running.done(), "no error: that it is gone is for `receive` to tell"
        running.cancel()


async def test_the_end_leaves_no_send_to_itself() -> None:
    sends = Sends()
    async with writing(sends) as writer:
        for name in "abc":
            writer.push(text(name), 1)
        await sends.end(0)
    assert sends.cancelled == [1, 2]
    writer.push(text("late"), 1)
    assert len(sends.frames) == 3
    await writer.flushed()
    assert writer.stalled_since is None


# -- receiving ahead


@asynccontextmanager
async def receiving(server: EagerServer, heard: list[Event]) -> AsyncIterator[AsgiDoor]:
    """An accepted door whose session hears into `heard`."""
    ended, ready = asyncio.Event(), asyncio.Event()

    class Hearing(Listener):
        def downstream_event(self, event: Event) -> None:
            heard.append(event)

    async def serve(door: AsgiDoor) -> None:
        await door.accept(Hearing(), None)
        ready.set()
        await ended.wait()

    door = AsgiDoor(server.scope, server.receive, server.send)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(door.run(serve))
        await ready.wait()
        await settle()
        yield door
        ended.set()


async def test_several_receives_are_pending_while_messages_are_small() -> None:
    server, heard = EagerServer(), list[Event]()
    async with receiving(server, heard):
        assert server.pending_receives == 1, "nothing is known of the client yet"
        server.says("a")
        await settle()
        assert server.pending_receives == RECEIVES_AHEAD
        server.says(b"x" * SMALL_BYTES)
        await settle()
        assert server.pending_receives == RECEIVES_AHEAD
        server.says(*[b"x" * (SMALL_BYTES + 1)] * RECEIVES_AHEAD)
        await settle()
        assert server.pending_receives == 1
        server.says("")
        await settle()
        assert server.pending_receives == RECEIVES_AHEAD
    await settle()
    assert server.pending_receives == 0, "all are given up at the end"


async def test_what_was_received_ahead_comes_in_order_and_its_end_last() -> None:
    server, heard = EagerServer(), list[Event]()
    async with receiving(server, heard) as door:
        server.says("1")
        await settle()
        door.pause_reading()
        server.says(*"23456789")
        server.vanishes(4001)
        await settle()
        assert heard == [Message("1")]
        assert server.pending_receives == 0
        door.resume_reading()
        await settle()
        assert heard == [*(Message(data) for data in "123456789"), Closed(4001)]
