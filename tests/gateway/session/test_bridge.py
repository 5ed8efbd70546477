"""A session's shell between two sides in the test's hands, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from gateway.errors import GatewayRestarting
from gateway.session.bridge import Bridge
from gateway.session.core import Commands, End, PassthroughCore, SessionCore, Side
from gateway.session.downstream import Capabilities
from gateway.session.events import Closed, Event, Message, Ping, Pong
from gateway.session.watch import Limits
from tests.gateway.session.fakes import PINGING, FakeDoor, FakeUpstream
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

LIMITS = Limits(
    idle_timeout_seconds=300,
    ping_interval_seconds=20,
    ping_timeout_seconds=10,
    slow_consumer_timeout_seconds=60,
)
NEVER = 1e6
WITHOUT_PINGS = replace(LIMITS, ping_interval_seconds=NEVER)
ONLY_SLOW_CONSUMERS = replace(LIMITS, ping_interval_seconds=NEVER, idle_timeout_seconds=NEVER)

LATE_AT_MOST = LIMITS.slow_consumer_timeout_seconds / 4 + 0.05
"""By how much the watch may find a stall's beginning or a deadline late."""


@dataclass
class Session:
    """A running bridge with its two sides."""

    door: FakeDoor
    upstream: FakeUpstream
    bridge: Bridge
    running: asyncio.Task[End]

    @property
    def told(self) -> tuple[Event, Event]:
        """The last word to the client and to the replica."""
        return self.door.sent[-1], self.upstream.sent[-1]

    def ended(self) -> bool:
        return self.running.done()


@asynccontextmanager
async def bridged(
    limits: Limits = LIMITS,
    *,
    core: SessionCore | None = None,
    capabilities: Capabilities = PINGING,
    early: list[Event] | None = None,
) -> AsyncIterator[Session]:
    """An open session; one that still runs at the end is cancelled."""
    door, upstream = FakeDoor(capabilities=capabilities), FakeUpstream()
    upstream.early = early or []
    bridge = Bridge(door, upstream, core or PassthroughCore(1000), limits)
    await door.accept(bridge, None)
    running = asyncio.create_task(bridge.run())
    await settle()
    yield Session(door, upstream, bridge, running)
    running.cancel()
    await asyncio.wait([running])


async def answer_pings(session: Session, seconds: float) -> None:
    """Let `seconds` pass with both sides answering pings."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    door, upstream = session.door, session.upstream
    while loop.time() < until and not session.ended():
        await asyncio.sleep(min(1, until - loop.time()))
        for side in (door, upstream):
            for _ in [event for event in side.sent if isinstance(event, Ping)]:
                side.says(Pong())
            side.sent[:] = [event for event in side.sent if not isinstance(event, Ping)]


# -- the pump


async def test_messages_pass_both_ways_and_are_counted() -> None:
    async with bridged(early=[Message(b"early")]) as session:
        session.door.says(Message("abc"))
        session.upstream.says(Message(b"1234"))
        session.upstream.says(Message(b"5"))
        assert session.upstream.sent == [Message("abc")]
        assert session.door.sent == [Message(b"early"), Message(b"1234"), Message(b"5")]
        bridge = session.bridge
        assert (bridge.from_client.messages, bridge.from_client.size_bytes) == (1, 3)
        assert (bridge.from_replica.messages, bridge.from_replica.size_bytes) == (3, 10)


async def test_the_count_is_of_bytes() -> None:
    async with bridged() as session:
        session.door.says(Message("é"))
        assert session.bridge.from_client.size_bytes == 2


async def test_a_clients_close_ends_the_session() -> None:
    async with bridged() as session:
        session.door.says(Closed(4002, "bye"))
        assert await session.running == End(Side.CLIENT, 4002, "bye")
        assert session.upstream.sent == [Closed(4002, "bye")]
        assert session.door.sent == []


async def test_a_replicas_close_ends_the_session() -> None:
    async with bridged() as session:
        session.upstream.says(Closed(4001, "session_gone"))
        assert await session.running == End(Side.REPLICA, 4001, "session_gone")
        assert session.door.sent == [Closed(4001, "session_gone")]


async def test_an_end_that_came_early_ends_the_session_at_once() -> None:
    async with bridged(early=[Message("1"), Closed(1013, "session_rejected")]) as session:
        assert await session.running == End(Side.REPLICA, 1013, "session_rejected")
        assert session.door.sent == [Message("1"), Closed(1013, "session_rejected")]


async def test_a_lost_replica_is_told_to_the_client() -> None:
    async with bridged() as session:
        session.upstream.says(Message("1"))
        session.upstream.says(Closed(None))
        assert await session.running == End(Side.GATEWAY, 1011, "replica_lost")
        assert session.door.sent == [Message("1"), Closed(1011, "replica_lost")]


async def test_a_replica_cut_off_for_a_message_above_the_cap_is_told_as_such() -> None:
    async with bridged() as session:
        session.upstream.too_big = True
        session.upstream.says(Closed(None))
        assert await session.running == End(Side.GATEWAY, 1009, "message_too_big")
        assert session.told[0] == Closed(1009, "message_too_big")


async def test_what_is_said_after_the_end_goes_nowhere() -> None:
    async with bridged() as session:
        session.upstream.says(Closed(1000))
        session.door.says(Message("late"))
        session.upstream.says(Message("later"))
        session.bridge.fail(GatewayRestarting())
        assert await session.running == End(Side.REPLICA, 1000, "")
        assert session.door.sent == [Closed(1000)]
        assert session.upstream.sent == []


async def test_the_gateway_can_end_it() -> None:
    async with bridged() as session:
        session.upstream.says(Message("1"))
        session.bridge.fail(GatewayRestarting())
        assert await session.running == End(Side.GATEWAY, 1012, "gateway_restarting")
        assert session.told == (Closed(1012, "gateway_restarting"), Closed(1001, "gateway_restarting"))


async def test_a_cancelled_session_leaves_no_timer() -> None:
    async with bridged() as session:
        session.running.cancel()
        await asyncio.wait([session.running])
        assert session.running.cancelled()
        await asyncio.sleep(LIMITS.idle_timeout_seconds * 2)
        assert (session.door.sent, session.upstream.sent) == ([], [])


# -- backpressure


async def test_a_client_that_does_not_read_pauses_the_replica() -> None:
    async with bridged() as session:
        session.bridge.downstream_resumed()
        assert session.upstream.calls == [], "nothing was paused"
        session.bridge.downstream_paused()
        session.bridge.downstream_resumed()
        session.bridge.downstream_resumed()
        assert session.upstream.calls == ["pause", "resume"]
        assert session.door.calls == []


async def test_a_replica_that_does_not_read_pauses_the_client() -> None:
    async with bridged() as session:
        session.bridge.upstream_resumed()
        assert session.door.calls == [], "nothing was paused"
        session.bridge.upstream_paused()
        session.bridge.upstream_resumed()
        session.bridge.upstream_resumed()
        assert session.door.calls == ["pause", "resume"]
        assert session.upstream.calls == []


# -- deadlines


async def test_a_session_without_a_message_is_idle() -> None:
    loop = asyncio.get_running_loop()
    async with bridged() as session:
        began = loop.time()
        await answer_pings(session, 10 * LIMITS.idle_timeout_seconds)
        assert await session.running == End(Side.GATEWAY, 1001, "idle_timeout")
        assert session.told == (Closed(1001, "idle_timeout"), Closed(1001, "idle_timeout"))
        assert 0 <= loop.time() - began - LIMITS.idle_timeout_seconds <= LATE_AT_MOST


@pytest.mark.parametrize("speaker", [Side.CLIENT, Side.REPLICA])
async def test_one_message_in_either_direction_keeps_it_open(speaker: Side) -> None:
    async with bridged(WITHOUT_PINGS) as session:
        for _ in range(5):
            await asyncio.sleep(LIMITS.idle_timeout_seconds - 1)
            assert not session.ended()
            (session.door if speaker is Side.CLIENT else session.upstream).says(Message("."))
        await asyncio.sleep(LIMITS.idle_timeout_seconds + LATE_AT_MOST)
        assert await session.running == End(Side.GATEWAY, 1001, "idle_timeout")


async def test_a_side_that_talks_is_not_asked() -> None:
    async with bridged() as session:
        for _ in range(100):
            await asyncio.sleep(10)
            session.door.says(Message("."))
            session.upstream.says(Message("."))
        assert Ping() not in [*session.door.sent, *session.upstream.sent]


async def test_silent_sides_are_asked_and_an_answer_is_enough() -> None:
    async with bridged() as session:
        await asyncio.sleep(LIMITS.ping_interval_seconds + 1)
        assert session.door.sent == [Ping()]
        assert session.upstream.sent == [Ping()]
        session.door.says(Pong())
        session.upstream.says(Pong())
        await asyncio.sleep(LIMITS.ping_timeout_seconds + 1)
        assert not session.ended()


async def test_a_client_whose_door_has_no_pings_is_not_asked() -> None:
    async with bridged(capabilities=replace(PINGING, pings=False)) as session:
        await asyncio.sleep(LIMITS.ping_interval_seconds + 1)
        assert session.door.sent == []
        assert session.upstream.sent == [Ping()]


async def test_a_client_that_does_not_answer_has_gone() -> None:
    async with bridged() as session:
        silent_since = asyncio.get_running_loop().time()
        while not session.ended():
            await asyncio.sleep(1)
            session.upstream.says(Message("."))
        assert await session.running == End(Side.GATEWAY, 1011, "ping_timeout")
        assert session.told == (Closed(1011, "ping_timeout"), Closed(1001, "ping_timeout"))
        silent_seconds = asyncio.get_running_loop().time() - silent_since
        assert silent_seconds >= LIMITS.ping_interval_seconds + LIMITS.ping_timeout_seconds


async def test_a_replica_that_does_not_answer_is_lost() -> None:
    async with bridged() as session:
        while not session.ended():
            await asyncio.sleep(1)
            session.door.says(Message("."))
        assert await session.running == End(Side.GATEWAY, 1011, "replica_lost")
        assert session.door.sent[-1] == Closed(1011, "replica_lost")


async def test_a_side_that_is_not_read_is_not_blamed_for_its_silence() -> None:
    async with bridged(replace(LIMITS, slow_consumer_timeout_seconds=NEVER)) as session:
        session.bridge.downstream_paused()
        session.bridge.upstream_paused()
        await asyncio.sleep(200)
        assert not session.ended()
        assert (session.door.sent, session.upstream.sent) == ([], [])
        session.bridge.downstream_resumed()
        session.bridge.upstream_resumed()
        await asyncio.sleep(1)
        assert not session.ended(), "its silence begins when it is read again"


async def test_a_client_that_takes_nothing_is_let_go_with_its_close() -> None:
    loop = asyncio.get_running_loop()
    async with bridged(ONLY_SLOW_CONSUMERS) as session:
        session.door.stalled_since = began = loop.time()
        while not session.ended():
            await asyncio.sleep(1)
            session.upstream.says(Message("."))
        assert await session.running == End(Side.GATEWAY, 1008, "slow_consumer")
        assert session.told == (Closed(1008, "slow_consumer"), Closed(1008, "slow_consumer"))
        assert session.door.calls == ["drop"]
        assert 0 <= loop.time() - began - LIMITS.slow_consumer_timeout_seconds <= LATE_AT_MOST + 1


async def test_a_client_that_takes_a_little_is_kept() -> None:
    async with bridged(ONLY_SLOW_CONSUMERS) as session:
        for _ in range(20):
            session.door.stalled_since = asyncio.get_running_loop().time()
            await asyncio.sleep(LIMITS.slow_consumer_timeout_seconds - 1)
        assert not session.ended()


async def test_a_replica_that_takes_nothing_is_let_go() -> None:
    loop = asyncio.get_running_loop()
    async with bridged(ONLY_SLOW_CONSUMERS) as session:
        began = loop.time()
        session.upstream.sent_bytes = session.upstream.waiting_bytes = 1000
        await asyncio.wait([session.running], timeout=10 * LIMITS.slow_consumer_timeout_seconds)
        assert await session.running == End(Side.GATEWAY, 1008, "slow_consumer")
        # The stall begins with the first look at it, and ends with one.
        assert 0 <= loop.time() - began - LIMITS.slow_consumer_timeout_seconds <= 2 * LATE_AT_MOST


async def test_a_replica_that_takes_a_little_is_kept() -> None:
    async with bridged(ONLY_SLOW_CONSUMERS) as session:
        session.upstream.sent_bytes = session.upstream.waiting_bytes = 1000
        for _ in range(100):
            await asyncio.sleep(LIMITS.slow_consumer_timeout_seconds / 2)
            session.upstream.waiting_bytes -= 1
        assert not session.ended()


async def test_the_watch_looks_seldom() -> None:
    looks = 0

    class Watched(FakeDoor):
        @property
        def stalled_since(self) -> float | None:
            nonlocal looks
            looks += 1
            return None

        @stalled_since.setter
        def stalled_since(self, value: float | None) -> None:
            pass

    door, upstream = Watched(), FakeUpstream()
    bridge = Bridge(door, upstream, PassthroughCore(1000), ONLY_SLOW_CONSUMERS)
    await door.accept(bridge, None)
    running = asyncio.create_task(bridge.run())
    await asyncio.sleep(3600)
    running.cancel()
    await asyncio.wait([running])
    assert looks <= 3600 / (ONLY_SLOW_CONSUMERS.slow_consumer_timeout_seconds / 4) + 2


# -- defects


class BrokenCore(PassthroughCore):
    """Has a defect in what it makes of a certain message."""

    def from_client(self, event: Event) -> Commands:
        if event == Message("poison"):
            raise ZeroDivisionError("a defect")
        return super().from_client(event)

    def from_replica(self, event: Event) -> Commands:
        if event == Message("poison"):
            raise ZeroDivisionError("a defect")
        return super().from_replica(event)


@pytest.mark.parametrize("speaker", [Side.CLIENT, Side.REPLICA])
async def test_a_defect_ends_its_session_and_is_logged(
    speaker: Side, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)
    async with bridged(core=BrokenCore(1000)) as session:
        session.upstream.says(Message("1"))
        side = session.door if speaker is Side.CLIENT else session.upstream
        side.says(Message("poison"))
        assert await session.running == End(Side.GATEWAY, 1011, "internal_error")
        assert session.told == (Closed(1011, "internal_error"), Closed(1001, "internal_error"))
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
