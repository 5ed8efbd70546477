"""A session's pump between two sides in the test's hands, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gateway.errors import GatewayRestarting, HandedBack, NoHealthyReplica, PingTimeout, ReplicaLost
from gateway.session.bridge import BACKLOG_BYTES, Bridge
from gateway.session.core import Commands, End, Move, PassthroughCore, SessionCore, Side
from gateway.session.downstream import Capabilities
from gateway.session.events import Closed, Event, Message, Ping, Pong
from gateway.session.watch import Limits
from tests.gateway.session.fakes import PINGING, FakeDoor, FakeUpstream
from tests.gateway.session.scripted_core import (
    ENDS_SEGMENT,
    LOST,
    REFUSED,
    STARTS_SEGMENT,
    ScriptedCore,
    blames,
)
from tests.gateway.session.virtual_time import VirtualTimeLoop

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
ONLY_SEGMENTS = replace(ONLY_SLOW_CONSUMERS, slow_consumer_timeout_seconds=NEVER, segment_stall_seconds=20)

LATE_AT_MOST = LIMITS.slow_consumer_timeout_seconds / 4 + 0.05
"""By how much the watch may find a stall's beginning or a deadline late."""

A, B = "http://127.0.0.1:9101", "http://127.0.0.1:9102"

Tracebacks = Callable[[], list[type[BaseException] | None]]


@dataclass
class Session:
    """A watched bridge with its two sides."""

    door: FakeDoor
    upstream: FakeUpstream
    """The replica's connection, the newest one."""
    bridge: Bridge
    blamed: list[str] = field(default_factory=list)

    @property
    def told(self) -> tuple[Event, Event]:
        """The last word to the client and to the replica."""
        return self.door.sent[-1], self.upstream.sent[-1]

    def ended(self) -> bool:
        return self.bridge.ended.done()

    def attach(self, url: str, name: str = "a", *, early: list[Event] | None = None) -> FakeUpstream:
        """A replica takes the session; `early` is what it has said by then."""
        self.upstream = FakeUpstream()
        self.upstream.early = early or []
        self.bridge.attach(self.upstream, url, name)
        return self.upstream


@asynccontextmanager
async def waiting(
    limits: Limits = LIMITS, *, core: SessionCore | None = None, capabilities: Capabilities = PINGING
) -> AsyncIterator[Session]:
    """A session whose client was accepted, without a replica."""
    door, blamed = FakeDoor(capabilities=capabilities), list[str]()
    bridge = Bridge(door, core or PassthroughCore(1000), limits, blamed.append)
    await door.accept(bridge, None)
    bridge.start()
    yield Session(door, FakeUpstream(), bridge, blamed)
    bridge.stop()


@asynccontextmanager
async def bridged(
    limits: Limits = LIMITS,
    *,
    core: SessionCore | None = None,
    capabilities: Capabilities = PINGING,
    early: list[Event] | None = None,
) -> AsyncIterator[Session]:
    """An open session."""
    async with waiting(limits, core=core, capabilities=capabilities) as session:
        session.attach(A, early=early)
        yield session


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
        assert await session.bridge.ended == End(Side.CLIENT, 4002, "bye")
        assert session.upstream.sent == [Closed(4002, "bye")]
        assert session.door.sent == []


async def test_a_replicas_close_ends_the_session() -> None:
    async with bridged() as session:
        session.upstream.says(Closed(4001, "session_gone"))
        assert await session.bridge.ended == End(Side.REPLICA, 4001, "session_gone")
        assert session.door.sent == [Closed(4001, "session_gone")]


async def test_an_end_that_came_early_ends_the_session_at_once() -> None:
    async with bridged(early=[Message("1"), Closed(1013, "session_rejected")]) as session:
        assert await session.bridge.ended == End(Side.REPLICA, 1013, "session_rejected")
        assert session.door.sent == [Message("1"), Closed(1013, "session_rejected")]


async def test_a_lost_replica_is_told_to_the_client() -> None:
    async with bridged() as session:
        session.upstream.says(Message("1"))
        session.upstream.says(Closed(None))
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "replica_lost")
        assert session.door.sent == [Message("1"), Closed(1011, "replica_lost")]


async def test_a_replica_cut_off_for_a_message_above_the_cap_is_told_as_such() -> None:
    async with bridged() as session:
        session.upstream.too_big = True
        session.upstream.says(Closed(None))
        assert await session.bridge.ended == End(Side.GATEWAY, 1009, "message_too_big")
        assert session.told[0] == Closed(1009, "message_too_big")


async def test_what_is_said_after_the_end_goes_nowhere() -> None:
    async with bridged() as session:
        session.upstream.says(Closed(1000))
        session.door.says(Message("late"))
        session.upstream.says(Message("later"))
        session.bridge.fail(GatewayRestarting())
        assert await session.bridge.ended == End(Side.REPLICA, 1000, "")
        assert session.door.sent == [Closed(1000)]
        assert session.upstream.sent == []


async def test_the_gateway_can_end_it() -> None:
    async with bridged() as session:
        session.upstream.says(Message("1"))
        session.bridge.fail(GatewayRestarting())
        assert await session.bridge.ended == End(Side.GATEWAY, 1012, "gateway_restarting")
        assert session.told == (Closed(1012, "gateway_restarting"), Closed(1001, "gateway_restarting"))


async def test_what_came_of_the_time_with_a_replica_is_told_and_waiting_for_it_may_be_given_up() -> None:
    async with bridged() as session:
        outcome = asyncio.create_task(session.bridge.outcome())
        await asyncio.sleep(1)
        outcome.cancel()
        await asyncio.wait([outcome])
        assert not session.ended()
        session.door.says(Closed(1000))
        assert await session.bridge.outcome() == End(Side.CLIENT, 1000, "")


async def test_a_stopped_bridge_watches_nothing() -> None:
    async with bridged() as session:
        session.bridge.stop()
        session.bridge.stop()
        await asyncio.sleep(LIMITS.idle_timeout_seconds * 2)
        assert (session.door.sent, session.upstream.sent) == ([], [])


# -- backpressure


async def test_a_client_that_does_not_read_pauses_the_replica() -> None:
    async with bridged() as session:
        session.bridge.downstream_resumed()
        assert session.upstream.calls == ["listen"], "nothing was paused"
        session.bridge.downstream_paused()
        session.bridge.downstream_resumed()
        session.bridge.downstream_resumed()
        assert session.upstream.calls == ["listen", "pause", "resume"]
        assert session.door.calls == []


async def test_a_replica_that_does_not_read_pauses_the_client() -> None:
    async with bridged() as session:
        session.bridge.upstream_resumed()
        assert session.door.calls == [], "nothing was paused"
        session.bridge.upstream_paused()
        session.bridge.upstream_resumed()
        session.bridge.upstream_resumed()
        assert session.door.calls == ["pause", "resume"]
        assert session.upstream.calls == ["listen"]


# -- deadlines


async def test_a_session_without_a_message_is_idle() -> None:
    loop = asyncio.get_running_loop()
    async with bridged() as session:
        began = loop.time()
        await answer_pings(session, 10 * LIMITS.idle_timeout_seconds)
        assert await session.bridge.ended == End(Side.GATEWAY, 1001, "idle_timeout")
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
        assert await session.bridge.ended == End(Side.GATEWAY, 1001, "idle_timeout")


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
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "ping_timeout")
        assert session.told == (Closed(1011, "ping_timeout"), Closed(1001, "ping_timeout"))
        silent_seconds = asyncio.get_running_loop().time() - silent_since
        assert silent_seconds >= LIMITS.ping_interval_seconds + LIMITS.ping_timeout_seconds


async def test_a_replica_that_does_not_answer_is_lost() -> None:
    async with bridged() as session:
        while not session.ended():
            await asyncio.sleep(1)
            session.door.says(Message("."))
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "replica_lost")
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
        assert await session.bridge.ended == End(Side.GATEWAY, 1008, "slow_consumer")
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
        await asyncio.wait([session.bridge.ended], timeout=10 * LIMITS.slow_consumer_timeout_seconds)
        assert await session.bridge.ended == End(Side.GATEWAY, 1008, "slow_consumer")
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
    bridge = Bridge(door, PassthroughCore(1000), ONLY_SLOW_CONSUMERS, lambda url: None)
    await door.accept(bridge, None)
    bridge.start()
    bridge.attach(upstream, A, "a")
    await asyncio.sleep(3600)
    bridge.stop()
    assert looks <= 3600 / (ONLY_SLOW_CONSUMERS.slow_consumer_timeout_seconds / 4) + 2


# -- one replica after the other


async def test_attached_moved_and_attached_again() -> None:
    core = ScriptedCore()
    async with waiting(core=core) as session:
        bridge, door = session.bridge, session.door
        assert bridge.waiting
        door.says(Message("before"))
        first = session.attach(A, "a")
        assert not bridge.waiting
        assert first.texts == ["before"]
        door.says(Message("now"))
        first.says(Message("1"))
        first.says(LOST)
        assert await bridge.outcome() == Move("lost")
        assert bridge.waiting
        door.says(Message("between"))
        assert first.texts == ["before", "now"]
        second = session.attach(B, "b")
        assert second.texts == ["before", "now", "between"]
        second.says(Message("2"))
        assert door.texts == ["1", "2"]
        second.says(Closed(1000, "done"))
        assert await bridge.outcome() == End(Side.REPLICA, 1000, "done")
        assert [call for call in core.calls if call.startswith("attached")] == [
            f"attached {A} a",
            f"attached {B} b",
        ]


async def test_a_dropped_replica_is_heard_no_more() -> None:
    core = ScriptedCore()
    async with bridged(core=core) as session:
        dropped = session.upstream
        listener = dropped.session
        dropped.says(LOST)
        assert dropped.session is not listener
        calls, counted = list(core.calls), session.bridge.from_replica.messages
        for event in (Message("late"), Pong(), LOST):
            dropped.says(event)
        session.attach(B, "b")
        dropped.says(Closed(None))
        assert dropped.session is not None
        dropped.session.upstream_paused()
        dropped.session.upstream_resumed()
        assert core.calls == [*calls, f"attached {B} b"]
        assert (session.bridge.from_replica.messages, session.door.calls) == (counted, [])
        assert not session.ended()


@pytest.mark.parametrize("early", [[REFUSED], [Message("1"), REFUSED], [LOST, Message("late")]])
async def test_a_replica_that_ends_its_time_as_it_is_attached(early: list[Event]) -> None:
    async with waiting(core=ScriptedCore()) as session:
        session.attach(A, early=early)
        assert isinstance(await session.bridge.outcome(), Move)
        assert session.bridge.waiting
        session.attach(B).says(Message("2"))
        assert session.door.texts[-1] == "2"


async def test_a_session_that_ended_without_a_replica_has_its_outcome_at_once() -> None:
    async with waiting() as session:
        session.door.says(Closed(1000))
        assert await session.bridge.outcome() == End(Side.CLIENT, 1000, "")


async def test_no_replica_to_be_had_ends_the_session() -> None:
    core = ScriptedCore()
    async with waiting(core=core) as session:
        session.bridge.unavailable(NoHealthyReplica())
        assert await session.bridge.ended == End(Side.GATEWAY, 1013, "no_healthy_replica")
        assert core.calls == ["unavailable"]


async def test_the_clients_place_in_the_queue_is_the_cores_to_tell() -> None:
    async with waiting(core=ScriptedCore()) as session:
        session.bridge.queued(3, 7)
        session.bridge.queued(2, 7)
        assert session.door.texts == ["3 of 7", "2 of 7"]


async def test_the_first_message_is_known_whenever_it_is_asked_for() -> None:
    async with waiting(core=ScriptedCore()) as session:
        given_up, asking = (asyncio.create_task(session.bridge.first_message()) for _ in range(2))
        await asyncio.sleep(1)
        given_up.cancel()
        await asyncio.wait([given_up])
        session.door.says(Ping())
        session.door.says(Message("first"))
        session.door.says(Message("second"))
        assert await asking == await session.bridge.first_message() == Message("first")


async def test_an_unhealthy_replica_is_the_cores_concern_while_it_serves() -> None:
    core = ScriptedCore()
    async with bridged(core=core) as session:
        session.bridge.unhealthy("keep")
        assert not session.bridge.waiting
        session.bridge.unhealthy("close")
        assert await session.bridge.outcome() == Move("unhealthy")
        session.bridge.unhealthy("close")
        assert core.calls[1:] == ["unhealthy keep", "unhealthy close"]


async def test_a_session_is_handed_back_at_the_first_good_moment() -> None:
    core, asked = ScriptedCore(), []

    def granted() -> bool:
        asked.append(core.handover)
        return True

    async with bridged(core=core) as session:
        session.upstream.says(STARTS_SEGMENT)
        session.bridge.offer_handover(granted)
        session.upstream.says(Message(b"media"))
        assert not asked
        session.upstream.says(ENDS_SEGMENT)
        assert await session.bridge.ended == End(Side.GATEWAY, 1012, "rebalance_reconnect")
        assert session.told == (Closed(1012, "rebalance_reconnect"),) * 2
        assert session.bridge.handover == "never"
        session.bridge.offer_handover(granted)
        assert len(asked) == len(core.causes) == 1
        assert isinstance(core.causes[0], HandedBack)


async def test_a_defect_in_the_question_ends_its_session_alone(tracebacks: Tracebacks) -> None:
    core = ScriptedCore()
    async with bridged(core=core) as session:
        core.breaks("handover")
        assert session.bridge.handover == "never"
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "internal_error")
        assert session.bridge.handover == "never"
    assert tracebacks() == [ZeroDivisionError]


async def test_a_session_that_is_not_let_go_is_asked_for_again_at_the_next_message() -> None:
    answers = [False, False, True]
    async with bridged(core=ScriptedCore()) as session:
        session.bridge.offer_handover(lambda: answers.pop(0))
        session.upstream.says(Message("something"))
        assert not session.ended()
        session.upstream.says(Message("something else"))
        assert session.ended()
        assert answers == []


async def test_blame_is_passed_on() -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.upstream.says(blames(B))
        assert session.blamed == [B]


# -- backpressure where replicas change


async def test_a_client_is_read_up_to_a_bound_while_no_replica_is_there() -> None:
    async with waiting(core=ScriptedCore()) as session:
        half = Message(bytes(BACKLOG_BYTES // 2))
        session.door.says(half)
        session.door.says(half)
        assert session.door.calls == []
        session.door.says(Message("."))
        session.door.says(Message("one that was on its way"))
        assert session.door.calls == ["pause"]
        session.attach(A)
        assert session.door.calls == ["pause", "resume"]
        assert len(session.upstream.texts) == 4


async def test_a_client_is_read_up_to_the_bound_again_after_each_loss() -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.door.says(Message(bytes(BACKLOG_BYTES * 2)))
        session.upstream.says(LOST)
        assert session.door.calls == [], "what was said to a replica is no backlog"
        session.door.says(Message(bytes(BACKLOG_BYTES + 1)))
        assert session.door.calls == ["pause"]
        session.attach(B)
        assert session.door.calls == ["pause", "resume"]


class CatchingUp(ScriptedCore):
    """Keeps what the client says from its replica until that has said something."""

    kept_bytes = 0

    @property
    def backlog_bytes(self) -> int:
        return self.kept_bytes

    def from_client(self, event: Event) -> Commands:
        assert isinstance(event, Message)
        self.kept_bytes += event.size_bytes
        return ()

    def from_replica(self, event: Event) -> Commands:
        if event == Message("caught up"):
            self.kept_bytes = 0
        return super().from_replica(event)


async def test_a_client_is_read_up_to_the_bound_while_its_replica_catches_up() -> None:
    async with bridged(core=CatchingUp()) as session:
        door, upstream = session.door, session.upstream
        door.says(Message(b"x" * BACKLOG_BYTES))
        assert door.calls == []
        door.says(Message(b"x"))
        door.says(Message(b"was on its way"))
        assert door.calls == ["pause"]
        upstream.says(Message("not yet"))
        session.bridge.upstream_paused()
        session.bridge.upstream_resumed()
        assert door.calls == ["pause"], "that it reads does not help"
        upstream.says(Message("caught up"))
        assert door.calls == ["pause", "resume"]


async def test_a_client_whose_replica_has_caught_up_and_does_not_read_is_not_read() -> None:
    async with bridged(core=CatchingUp()) as session:
        session.door.says(Message(b"x" * (BACKLOG_BYTES + 1)))
        session.bridge.upstream_paused()
        session.upstream.says(Message("caught up"))
        assert session.door.calls == ["pause"]
        session.bridge.upstream_resumed()
        assert session.door.calls == ["pause", "resume"]


async def test_a_dropped_replica_that_did_not_read_holds_the_client_back_no_more() -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.bridge.upstream_paused()
        session.upstream.says(LOST)
        assert session.door.calls == ["pause", "resume"]
        session.attach(B)
        assert session.door.calls == ["pause", "resume"]


async def test_a_replica_that_is_attached_to_a_client_that_does_not_read_is_not_read_either() -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.bridge.downstream_paused()
        session.upstream.says(LOST)
        session.attach(B)
        assert session.upstream.calls == ["listen", "pause"], "listening begins to read"
        session.bridge.downstream_resumed()
        assert session.upstream.calls == ["listen", "pause", "resume"]


async def test_a_client_that_reads_again_while_no_replica_is_there() -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.bridge.downstream_paused()
        session.upstream.says(LOST)
        session.bridge.downstream_resumed()
        session.bridge.downstream_paused()
        session.bridge.downstream_resumed()
        session.attach(B)
        assert session.upstream.calls == ["listen"]


# -- deadlines where replicas change


async def test_a_replica_without_a_pong_is_the_cores_to_leave() -> None:
    core = ScriptedCore()
    async with bridged(replace(LIMITS, idle_timeout_seconds=NEVER), core=core) as session:
        first = session.upstream
        began = asyncio.get_running_loop().time()
        while not session.bridge.waiting:
            await asyncio.sleep(1)
            session.door.says(Pong())
        lasted = asyncio.get_running_loop().time() - began
        assert lasted >= LIMITS.ping_interval_seconds + LIMITS.ping_timeout_seconds
        assert first.sent == [Ping()]
        assert await session.bridge.outcome() == Move("lost")
        assert [type(cause) for cause in core.causes] == [ReplicaLost]
        second = session.attach(B)
        for _ in range(int(LIMITS.ping_interval_seconds - 1)):
            await asyncio.sleep(1)
            session.door.says(Pong())
        assert second.sent == [], "its silence begins with its time"
        assert not session.bridge.waiting


async def test_a_replica_that_comes_late_is_asked_in_time() -> None:
    quick = replace(LIMITS, ping_interval_seconds=0.5, ping_timeout_seconds=1)
    async with waiting(quick, core=ScriptedCore(), capabilities=replace(PINGING, pings=False)) as session:
        for url in (A, B):
            silent = session.attach(url)
            await asyncio.sleep(0.6)
            assert silent.sent == [Ping()]
            await asyncio.sleep(1)
            assert session.bridge.waiting


async def test_a_replica_is_asked_in_time_once_the_client_reads_again() -> None:
    quick = replace(LIMITS, ping_interval_seconds=0.5, ping_timeout_seconds=1)
    async with bridged(quick, core=ScriptedCore(), capabilities=replace(PINGING, pings=False)) as session:
        session.bridge.downstream_paused()
        await asyncio.sleep(2)
        session.bridge.downstream_resumed()
        await asyncio.sleep(1.6)
        assert session.bridge.waiting


async def test_a_client_is_asked_while_no_replica_is_there() -> None:
    core = ScriptedCore()
    async with waiting(core=core) as session:
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "ping_timeout")
        assert session.door.sent == [Ping(), Closed(1011, "ping_timeout")]
        assert [type(cause) for cause in core.causes] == [PingTimeout]


async def test_a_client_that_waits_takes_what_it_is_sent_or_is_let_go() -> None:
    async with waiting(ONLY_SLOW_CONSUMERS) as session:
        session.door.stalled_since = asyncio.get_running_loop().time()
        assert await session.bridge.ended == End(Side.GATEWAY, 1008, "slow_consumer")


async def test_what_a_dropped_replica_did_not_take_is_not_held_against_the_next() -> None:
    async with bridged(ONLY_SLOW_CONSUMERS, core=ScriptedCore()) as session:
        for url in (B, A, B):
            session.upstream.sent_bytes = session.upstream.waiting_bytes = 1000
            await asyncio.sleep(LIMITS.slow_consumer_timeout_seconds * 0.75)
            session.upstream.says(LOST)
            session.attach(url)
        assert not session.ended()


async def test_silence_within_a_segment_is_a_loss() -> None:
    core, loop = ScriptedCore(), asyncio.get_running_loop()
    async with bridged(ONLY_SEGMENTS, core=core) as session:
        await asyncio.sleep(100)
        session.upstream.says(STARTS_SEGMENT)
        for _ in range(10):
            await asyncio.sleep(19)
            session.upstream.says(Message(b"media"))
            session.upstream.says(Pong())
        last = loop.time()
        assert await session.bridge.outcome() == Move("lost")
        # A look when the segment begins may be up to a quarter away, after that each deadline is met.
        assert loop.time() - last == pytest.approx(20, abs=0.06)
        assert core.calls.count("stalled") == 1
        session.attach(B)
        await asyncio.sleep(100)
        assert core.calls.count("stalled") == 1, "the next replica has not begun a segment"


@pytest.mark.parametrize("pong", [True, False])
async def test_a_pong_is_no_sign_of_work(pong: bool) -> None:
    async with bridged(ONLY_SEGMENTS, core=ScriptedCore()) as session:
        session.upstream.says(STARTS_SEGMENT)
        for _ in range(25):
            await asyncio.sleep(1)
            if pong:
                session.upstream.says(Pong())
            session.door.says(Message("."))
        assert session.bridge.waiting


async def test_silence_between_segments_is_no_loss() -> None:
    async with bridged(ONLY_SEGMENTS, core=ScriptedCore()) as session:
        session.upstream.says(STARTS_SEGMENT)
        await asyncio.sleep(19)
        session.upstream.says(ENDS_SEGMENT)
        await asyncio.sleep(1000)
        assert not session.bridge.waiting


async def test_a_replica_that_is_not_read_has_not_stalled() -> None:
    async with bridged(ONLY_SEGMENTS, core=ScriptedCore()) as session:
        session.upstream.says(STARTS_SEGMENT)
        session.bridge.downstream_paused()
        await asyncio.sleep(1000)
        session.bridge.downstream_resumed()
        await asyncio.sleep(19)
        assert not session.bridge.waiting, "its silence begins when it is read again"
        await asyncio.sleep(2)
        assert session.bridge.waiting


# -- defects


def loses_its_replica(session: Session) -> Session:
    session.upstream.says(LOST)
    return session


BROKEN: dict[str, Callable[[Session], object]] = {
    "from_client": lambda session: session.door.says(Message("1")),
    "from_replica": lambda session: session.upstream.says(Message("1")),
    "attached": lambda session: loses_its_replica(session).attach(B),
    "fail": lambda session: session.bridge.fail(GatewayRestarting()),
    "unavailable": lambda session: session.bridge.unavailable(NoHealthyReplica()),
    "queued": lambda session: session.bridge.queued(0, 1),
    "unhealthy": lambda session: session.bridge.unhealthy("keep"),
    "backlog_bytes": lambda session: loses_its_replica(session).door.says(Message("1")),
    "in_segment": lambda session: None,
    "handover": lambda session: session.bridge.offer_handover(lambda: True),
    "stalled": lambda session: session.upstream.says(STARTS_SEGMENT),
}
"""What brings the shell to call each method, and to ask for each property."""


@pytest.mark.parametrize("also", [(), ("fail",)], ids=["", "fail too"])
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_defect_ends_its_session_and_is_logged(
    broken: str, also: tuple[str, ...], tracebacks: Tracebacks
) -> None:
    core = ScriptedCore()
    async with bridged(replace(ONLY_SEGMENTS, idle_timeout_seconds=100), core=core) as session:
        session.upstream.says(Message("1"))
        core.breaks(broken, *also)
        BROKEN[broken](session)
        # Whatever comes next finds a session that has ended, or reaches the timer's look at it.
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "internal_error")
        calls = list(core.calls)
        session.bridge.fail(GatewayRestarting())
        session.bridge.unavailable(NoHealthyReplica())
        session.bridge.queued(0, 1)
        session.bridge.unhealthy("close")
        session.bridge.upstream_paused()
        session.bridge.downstream_paused()
        session.door.says(Message("2"))
        session.door.says(Closed(None))
        session.upstream.says(Message("2"))
        session.upstream.says(Closed(None))
        assert core.calls == calls
        assert session.door.sent[-1] == Closed(1011, "internal_error")
        assert [event for event in session.door.sent if isinstance(event, Closed)] == session.door.sent[-1:]
        if not session.bridge.waiting:
            assert session.upstream.sent[-1] == Closed(1001, "internal_error")
    assert tracebacks() == [ZeroDivisionError]


async def test_a_core_that_ends_twice_is_a_defect_that_ends_once(tracebacks: Tracebacks) -> None:
    class Twice(ScriptedCore):
        def from_client(self, event: Event) -> tuple[End, End]:
            return End(Side.CLIENT, 1000, ""), End(Side.CLIENT, 1001, "")

    async with bridged(core=Twice()) as session:
        session.door.says(Message("1"))
        assert await session.bridge.ended == End(Side.CLIENT, 1000, "")
    assert tracebacks() == [asyncio.InvalidStateError]


async def test_a_core_that_moves_without_a_replica_is_a_defect(tracebacks: Tracebacks) -> None:
    async with bridged(core=ScriptedCore()) as session:
        session.upstream.says(LOST)
        session.bridge.fail(ReplicaLost())
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "internal_error")
    assert tracebacks() == [asyncio.InvalidStateError]


async def test_a_word_of_the_gateway_during_the_last_look_changes_nothing() -> None:
    class EndsWhenStalled(ScriptedCore):
        def stalled(self) -> tuple[End]:
            return (End(Side.GATEWAY, 1011, "replica_lost"),)

    async with bridged(replace(ONLY_SEGMENTS, ping_interval_seconds=20), core=EndsWhenStalled()) as session:
        session.upstream.says(STARTS_SEGMENT)
        session.door.says(Message("."))
        assert await session.bridge.ended == End(Side.GATEWAY, 1011, "replica_lost")
        await asyncio.sleep(100)
