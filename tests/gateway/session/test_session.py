"""One session over several replicas: finding the next, waiting, and what is left whenever it ends."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from gateway.errors import (
    GatewayRestarting,
    NoHealthyReplica,
    QueueTimedOut,
    ReplicasFull,
    SessionEnded,
    UpgradeRefused,
)
from gateway.session.bridge import BACKLOG_BYTES, Bridge
from gateway.session.core import PassthroughCore, Side
from gateway.session.downstream import DownstreamListener
from gateway.session.events import Closed, Message
from gateway.session.session import FULL_FOR_SECONDS, MOVED
from gateway.session.upstream import Refused, Unreachable
from tests.gateway.session.fakes import FakeDoor, FakeUpstream
from tests.gateway.session.house import (
    INIT_SECONDS,
    LIMITS,
    QUEUE_SECONDS,
    UNREACHABLE,
    A,
    B,
    C,
    Guest,
    House,
    offering,
    open_house,
)
from tests.gateway.session.scripted_core import LOST, REFUSED, STARTS_SEGMENT, ScriptedCore, blames
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

Lines = Callable[[str], list[str]]
Tracebacks = Callable[[], list[type[BaseException] | None]]


def core_of(house: House, number: int = 0) -> ScriptedCore:
    core = house.cores[number]
    assert isinstance(core, ScriptedCore)
    return core


def fields(line: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in shlex.split(line)[1:])


def key_in(data: str | bytes) -> str | None:
    """The affinity key that these tests' clients say first: `key=...`."""
    _, equals, key = str(data).partition("key=")
    return key if equals else None


# -- from one replica to the next


async def test_a_session_outlives_its_replica(lines: Lines) -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters(FakeDoor())
        await guest.says(Message("hello"))
        first = house.at(A)
        first.says(Message("1"))
        first.says(Closed(None))
        await settle()
        assert house.connect.asked == [A, B]
        second = house.at(B)
        assert (first.cut, second.cut) == (True, False)
        assert second.texts == ["hello"]
        second.says(Message("2"))
        await guest.says(Message("on"))
        assert second.texts == ["hello", "on"]
        assert guest.door.texts == ["1", "2"]
        assert house.leases == 1
        second.says(Closed(1000, "done"))
        await guest.serving
        assert guest.door.sent[-1] == Closed(1000, "done")
        house.assert_empty()
    (opened,), (leaves,) = lines("session_opened"), lines("session_leaves")
    (moved,), (ended,) = lines("session_moved"), lines("session_ended")
    request_id = fields(opened)["request_id"]
    assert fields(opened) == {
        "replica": "a",
        "request_id": request_id,
        "client": "192.0.2.7",
        "path": "/v1/stream",
    }
    assert fields(leaves) == {"request_id": request_id, "away_from": "a", "cause": "lost"}
    assert fields(moved) == {**fields(opened), "replica": "b"}
    told = fields(ended)
    assert told.pop("duration_seconds") is not None
    assert told == {
        "replica": "b",
        "request_id": request_id,
        "bytes_from_client": "7",
        "bytes_from_replica": "2",
        "messages_from_client": "2",
        "messages_from_replica": "2",
        "resumes": "1",
        "closed_by": "replica",
        "code": "1000",
        "reason": "done",
    }


async def test_the_log_says_why_a_session_could_not_be_resumed(lines: Lines) -> None:
    async with open_house(new_core=ScriptedCore) as house:
        guest = await house.enters()
        core_of(house).why_not_resumable = "state_too_large"
        await guest.leaves()
    assert fields(lines("session_ended")[0])["not_resumable"] == "state_too_large"


async def test_a_replica_that_still_listens_is_told_that_its_session_went_on() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.at(A).says(LOST)
        await settle()
        assert house.at(A).sent == [MOVED]
        assert house.at(A).cut
        await guest.leaves()


async def test_the_lost_replica_is_left_out_while_there_are_others() -> None:
    async with open_house(A, B, C, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.plans[B] = [UNREACHABLE]
        house.at(A).says(LOST)
        await settle()
        assert house.connect.asked == [A, B, C]
        assert house.evidence.reports == [(B, UNREACHABLE.reason)]
        house.at(C).says(LOST)
        await settle()
        assert house.connect.asked == [A, B, C, A], "what was tried counts since the last replica"
        await guest.leaves()


@pytest.mark.parametrize(
    "plan", [UNREACHABLE, Refused(503, ()), None], ids=["unreachable", "answers 503", "unhealthy"]
)
async def test_the_lost_replica_is_tried_again_as_a_last_resort(plan: Unreachable | Refused | None) -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        if plan is None:
            house.turns_unhealthy(B)
        else:
            house.connect.plans[B] = [plan]
        first = house.at(A)
        first.says(Closed(None))
        await settle()
        assert house.connect.asked == ([A, B, A] if plan is not None else [A, A])
        assert house.at(A) is not first
        assert not guest.serving.done()
        await guest.leaves()


@pytest.mark.parametrize("queue_size", [0, 10])
async def test_the_lost_replica_is_tried_again_before_the_session_waits(queue_size: int) -> None:
    async with open_house(A, B, limit=1, queue_size=queue_size, new_core=ScriptedCore) as house:
        house.fills(B)
        guest = await house.enters()
        house.at(A).says(Closed(None))
        await settle()
        assert house.connect.asked == [A, A]
        assert guest.door.sent == []
        await guest.leaves()


async def test_a_status_that_concerns_the_client_ends_the_search() -> None:
    async with open_house(A, B, C, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.plans[B] = [Refused(403, ())]
        house.at(A).says(LOST)
        await guest.serving
        assert house.connect.asked == [A, B]
        assert [type(cause) for cause in core_of(house).causes] == [UpgradeRefused]


async def test_a_session_that_finds_no_replica_ends_as_its_core_says() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.plans[A] = house.connect.plans[B] = [UNREACHABLE] * 9
        house.at(A).says(LOST)
        await guest.serving
        assert house.connect.asked == [A, B, A, B]
        assert [type(cause) for cause in core_of(house).causes] == [NoHealthyReplica]
        assert guest.door.sent == [Closed(1013, "no_healthy_replica")]


async def test_a_passthrough_session_ends_with_its_replica() -> None:
    async with open_house(A, B) as house:
        guest = await house.enters()
        house.at(A).says(Message("1"))
        house.at(A).says(Closed(None))
        await guest.serving
        assert guest.door.sent == [Message("1"), Closed(1011, "replica_lost")]
        assert house.connect.asked == [A]


async def test_a_replica_without_a_pong_is_left_and_the_session_moves() -> None:
    limits = replace(LIMITS, ping_interval_seconds=20)
    async with open_house(A, B, limits=limits, new_core=ScriptedCore) as house:
        guest = await house.enters()
        await asyncio.sleep(31)
        assert house.connect.asked == [A, B]
        assert house.at(A).cut
        await guest.leaves()


async def test_a_replica_that_stalls_within_a_segment_is_left_and_the_session_moves() -> None:
    limits = replace(LIMITS, segment_stall_seconds=20)
    async with open_house(A, B, limits=limits, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.at(A).says(STARTS_SEGMENT)
        await asyncio.sleep(26)
        assert house.connect.asked == [A, B]
        await guest.leaves()


async def test_the_client_is_heard_while_its_session_moves() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.answers.clear()
        house.at(A).says(LOST)
        await guest.says(Message("meanwhile"))
        await guest.says(Message(bytes(BACKLOG_BYTES)))
        assert guest.door.calls == ["pause"]
        house.connect.answers.set()
        await settle()
        assert guest.door.calls == ["pause", "resume"]
        assert house.at(B).texts == ["meanwhile", bytes(BACKLOG_BYTES)]
        await guest.leaves()


async def test_what_the_next_replica_is_offered_is_what_the_first_one_chose() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        house.connect.plans[A] = [FakeUpstream(subprotocol="b")]
        guest = await house.enters(offering("a", "b"))
        house.at(A).says(LOST)
        await settle()
        offers = [headers.get("Sec-WebSocket-Protocol") for headers in house.connect.headers]
        assert offers == ["a, b", "b"]
        await guest.leaves()


async def test_where_the_first_one_chose_none_the_next_is_offered_none() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters(offering("a", "b"))
        house.at(A).says(LOST)
        await settle()
        assert "Sec-WebSocket-Protocol" not in house.connect.headers[1]
        await guest.leaves()


async def test_the_affinity_key_goes_along() -> None:
    async with open_house(A, B, C, new_core=ScriptedCore, key_of=lambda asked, client: "k") as house:
        guest = await house.enters()
        for _ in range(3):
            house.connect.opened[-1][1].says(LOST)
            await settle()
        first, second, *later = house.connect.asked
        assert later == [first, second], "its first choice, or its second where that was just lost"
        await guest.leaves()


# -- refused in band


async def test_a_refusal_moves_the_session_and_marks_the_replica_full() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.at(A).says(REFUSED)
        await settle()
        assert house.records.calls == [("full", A)]
        assert house.connect.asked == [A, B]
        await guest.leaves()


async def test_refused_everywhere_a_session_waits_with_its_turn_and_its_client_is_told() -> None:
    async with open_house(A, queue_size=10, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.at(A).says(REFUSED)
        await settle()
        later = await house.enters()
        assert guest.door.texts[-1] == "0 of 2", "it came first"
        assert later.door.texts == ["1 of 2"]
        assert not later.serving.done()
        await asyncio.sleep(FULL_FOR_SECONDS + 0.1)
        assert len(house.connect.asked) == 3
        assert core_of(house).calls[-1] == f"attached {A} a"
        await guest.leaves()
        await later.leaves()


async def test_a_refusal_frees_no_place_for_the_next_in_line() -> None:
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        first = await house.enters()
        second = await house.enters()
        house.at(A).says(REFUSED)
        await settle()
        assert house.connect.asked == [A]
        assert (first.door.texts, second.door.texts[-1]) == (["0 of 2"], "1 of 2")
        await asyncio.sleep(FULL_FOR_SECONDS + 0.1)
        assert house.connect.asked == [A, A]
        assert not house.at(A).cut
        await first.leaves()
        await second.leaves()


async def test_its_time_in_the_queue_goes_on_when_a_session_is_refused_and_begins_anew_when_it_is_lost() -> (
    None
):
    loop = asyncio.get_running_loop()
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        (taken,) = house.fills(A)
        guest = await house.enters()
        began = loop.time()
        await asyncio.sleep(20)
        taken.release()
        await settle()
        (again,) = house.fills(A)
        house.at(A).says(REFUSED)
        await guest.serving
        assert loop.time() - began == pytest.approx(QUEUE_SECONDS, abs=0.1)

        guest = await house.enters()
        await asyncio.sleep(20)
        again.release()
        await asyncio.sleep(100)
        house.fills(A)
        began = loop.time()
        house.connect.plans[A] = [UNREACHABLE]
        house.at(A).says(LOST)
        await guest.serving
        assert loop.time() - began == pytest.approx(QUEUE_SECONDS, abs=0.1)
        assert isinstance(core_of(house, 1).causes[-1], QueueTimedOut)


async def test_a_session_that_is_refused_again_and_again_ends_when_its_time_is_over() -> None:
    loop = asyncio.get_running_loop()
    async with open_house(A, queue_size=10, new_core=ScriptedCore) as house:
        guest = await house.enters()
        began = loop.time()
        while not guest.serving.done():
            assert loop.time() - began < 2 * QUEUE_SECONDS
            house.at(A).says(REFUSED)
            await asyncio.sleep(2 * FULL_FOR_SECONDS)
        assert isinstance(core_of(house).causes[-1], QueueTimedOut)


@pytest.mark.parametrize("queue_size", [0, 10])
async def test_replicas_that_are_slow_to_refuse_do_not_pass_a_session_around_for_ever(
    queue_size: int,
) -> None:
    """By the time the last one refuses, the first counts as full no more: there is nothing to wait for."""
    loop, refuse_seconds = asyncio.get_running_loop(), FULL_FOR_SECONDS / 2
    async with open_house(A, B, C, queue_size=queue_size, new_core=ScriptedCore) as house:
        guest = await house.enters()
        began = loop.time()
        while not guest.serving.done():
            assert loop.time() - began <= QUEUE_SECONDS + 2 * refuse_seconds
            await asyncio.sleep(refuse_seconds)
            house.connect.opened[-1][1].says(REFUSED)
            await settle()
        assert loop.time() - began >= QUEUE_SECONDS
        assert isinstance(core_of(house).causes[-1], QueueTimedOut)
        assert set(house.connect.asked) == {A, B, C}
        assert guest.door.texts == [], "it never stood in the queue"


async def test_a_refusal_as_the_first_word_is_one_too() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        upstream = FakeUpstream()
        upstream.early = [REFUSED, Closed(1013, "session_rejected")]
        house.connect.plans[A] = [upstream]
        guest = await house.enters()
        assert house.connect.asked == [A, B]
        assert guest.door.sent == []
        await guest.leaves()


# -- waiting for the first replica


async def test_a_client_waits_in_the_queue_and_is_told_its_place(lines: Lines) -> None:
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        (taken,) = house.fills(A)
        first = await house.enters(offering("a", "b"))
        second = await house.enters()
        assert (first.door.accepted, first.door.subprotocol) == (True, "a")
        assert (second.door.accepted, second.door.subprotocol) == (True, None)
        assert first.door.texts == ["0 of 1", "0 of 2"]
        assert second.door.texts == ["1 of 2"]
        assert house.connect.asked == []
        assert lines("session_opened") == []
        await first.says(Message("hello"))
        taken.release()
        await settle()
        assert house.at(A).texts == ["hello"]
        assert second.door.texts == ["1 of 2", "0 of 1"]
        assert house.connect.headers[0]["Sec-WebSocket-Protocol"] == "a", "only what was promised"
        assert len(lines("session_opened")) == 1
        await first.leaves()
        await settle()
        assert "Sec-WebSocket-Protocol" not in house.connect.headers[1]
        await second.leaves()


async def test_a_passthrough_client_waits_as_well() -> None:
    async with open_house(limit=1, queue_size=10) as house:
        (taken,) = house.fills(A)
        guest = await house.enters()
        assert guest.door.texts == ['{"type": "queue_status", "position": 0, "queue_depth": 1}']
        await guest.says(Message(b"early"))
        taken.release()
        await settle()
        assert house.at(A).texts == [b"early"]
        await guest.leaves()


async def vanishes(house: House) -> None:
    house.turns_unhealthy(A)


async def time_passes(house: House) -> None:
    await asyncio.sleep(QUEUE_SECONDS + 1)


async def frees_a_place(house: House, *plan: Refused) -> None:
    house.connect.plans[A] = list(plan)
    house.taken[0].release()


@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        (vanishes, NoHealthyReplica),
        (time_passes, QueueTimedOut),
        (lambda house: frees_a_place(house, Refused(403, ())), UpgradeRefused),
        (lambda house: frees_a_place(house, Refused(503, ())), NoHealthyReplica),
    ],
    ids=["no replica is left", "too long", "the client is refused", "the replica is not ready"],
)
async def test_one_who_waited_in_vain_is_told_why(
    happens: Callable[[House], Awaitable[None]], cause: type[SessionEnded], lines: Lines
) -> None:
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        house.fills(A)
        guest = await house.enters()
        await happens(house)
        await guest.serving
        assert [type(cause) for cause in core_of(house).causes] == [cause]
        assert guest.door.sent[-1] == Closed(cause.close_code, cause.close_reason)
        house.connect.plans.clear()
        house.taken[0].release()
        house.assert_empty()
    assert lines("session_opened") == []
    told = fields(lines("session_ended")[0])
    assert "replica" not in told
    assert (told["closed_by"], told["reason"]) == ("gateway", cause.close_reason)


async def test_a_full_queue_is_told_in_band() -> None:
    async with open_house(limit=1, queue_size=1, new_core=ScriptedCore) as house:
        house.fills(A)
        waits = await house.enters()
        refused = await house.enters()
        await refused.serving
        assert [type(cause) for cause in core_of(house, 1).causes] == [ReplicasFull]
        assert refused.door.sent == [Closed(1013, "queue_full")]
        await waits.leaves()


async def test_a_client_that_has_to_wait_is_bounded_in_what_it_says_meanwhile() -> None:
    async with open_house(limit=1, queue_size=1, new_core=ScriptedCore) as house:
        house.fills(A)
        guest = await house.enters()
        await guest.says(Message(bytes(BACKLOG_BYTES + 1)))
        assert guest.door.calls == ["pause"]
        await guest.leaves()


# -- affinity by the first message


async def test_a_client_is_answered_before_it_is_placed_by_its_first_message() -> None:
    async with open_house(A, B, C, key_of_init=key_in, new_core=ScriptedCore) as house:
        chosen: list[str] = []
        for key in ("k1", "k1", "k2", "k3", "k4", "k5", "k6"):
            guest = await house.enters(offering("a", "b"))
            assert guest.door.subprotocol == "a"
            assert len(house.connect.asked) == len(chosen)
            await guest.says(Message(f"key={key}"))
            chosen.append(house.connect.asked[-1])
            assert house.at(chosen[-1]).texts == [f"key={key}"]
            assert house.connect.headers[-1]["Sec-WebSocket-Protocol"] == "a"
            await guest.leaves()
        assert chosen[0] == chosen[1]
        assert len(set(chosen)) > 1


@pytest.mark.parametrize("first", [None, Message("no key"), Message(b"media")])
async def test_a_client_without_a_key_is_placed_by_the_policy(first: Message | None) -> None:
    async with open_house(A, B, key_of_init=key_in, new_core=ScriptedCore) as house:
        guest = await house.enters()
        if first is not None:
            await guest.says(first)
        else:
            await asyncio.sleep(INIT_SECONDS + 0.1)
        assert house.connect.asked == [A]
        await guest.leaves()


@pytest.mark.parametrize(("queue_size", "cause"), [(0, ReplicasFull), (10, QueueTimedOut)])
async def test_a_client_that_was_answered_for_its_key_waits_like_others(
    queue_size: int, cause: type[SessionEnded]
) -> None:
    async with open_house(limit=1, queue_size=queue_size, key_of_init=key_in, new_core=ScriptedCore) as house:
        house.fills(A)
        guest = await house.enters()
        await guest.says(Message("key=1"))
        assert guest.door.texts == (["0 of 1"] if queue_size else [])
        await guest.serving
        assert [type(cause) for cause in core_of(house).causes] == [cause]


# -- clients that leave


async def test_a_client_that_leaves_while_it_waits() -> None:
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        (taken,) = house.fills(A)
        guest = await house.enters()
        await guest.leaves()
        assert house.admission.waiting == 0
        taken.release()
        house.assert_empty()
        assert house.connect.asked == []


async def test_a_client_that_leaves_before_it_says_anything() -> None:
    async with open_house(key_of_init=key_in, new_core=ScriptedCore) as house:
        await (await house.enters()).leaves()
        house.assert_empty()
        assert house.connect.asked == []


async def test_a_client_that_leaves_while_its_session_moves(lines: Lines) -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.answers.clear()
        house.at(A).says(LOST)
        await settle()
        assert (house.connect.asking, house.leases) == (1, 1)
        await guest.leaves()
        house.assert_empty()
    told = fields(lines("session_ended")[0])
    assert (told["closed_by"], told["replica"], told["code"]) == ("client", "a", "1000")


async def test_a_client_that_has_left_by_the_time_it_is_accepted_takes_no_replicas_time() -> None:
    class LeavesAtOnce(FakeDoor):
        async def accept(self, listener: DownstreamListener, subprotocol: str | None) -> None:
            await super().accept(listener, subprotocol)
            self.says(Closed(None))

    async with open_house(new_core=ScriptedCore) as house:
        before = asyncio.get_running_loop().time()
        await house.service.serve(LeavesAtOnce())
        assert house.records.calls == []
        assert asyncio.get_running_loop().time() == before
        house.assert_empty()


# -- whatever happens at whatever moment


async def whole_story(house: House) -> None:
    """What happens around a session that waits, is served, moves twice, waits again, and ends."""
    on_a, on_b = house.fills(A, B)
    loop = asyncio.get_running_loop()

    def says(url: str, event: Message | Closed) -> None:
        present = [upstream for replica, upstream in house.connect.opened if replica == url]
        if present and present[-1].session is not None and not present[-1].cut:
            present[-1].says(event)

    def crashes(url: str) -> None:
        house.connect.plans[url] = [UNREACHABLE]
        says(url, Closed(None))

    happenings: list[Callable[[], object]] = [
        on_a.release,  # A takes it
        lambda: says(A, Message("1")),
        lambda: crashes(A),  # B is full, A is not there: it waits
        on_b.release,  # B takes it
        lambda: says(B, REFUSED),  # back to A
        lambda: says(A, Closed(1000, "done")),
    ]
    for seconds, happening in enumerate(happenings, start=1):
        loop.call_later(seconds, happening)
    await asyncio.sleep(len(happenings) + 1)


async def test_the_whole_story_without_an_intruder() -> None:
    async with open_house(A, B, limit=1, queue_size=10, new_core=ScriptedCore) as house:
        telling = asyncio.create_task(whole_story(house))
        guest = await house.enters()
        await guest.serving
        assert house.connect.asked == [A, A, B, A]
        assert guest.door.texts == ["0 of 1", "1", "0 of 1"]
        assert guest.door.sent[-1] == Closed(1000, "done")
        house.assert_empty()
        await telling


def cancels(house: House, guest: Guest) -> None:
    guest.serving.cancel()


def leaves(house: House, guest: Guest) -> None:
    if guest.door.accepted:
        guest.door.says(Closed(None))


def restarts(house: House, guest: Guest) -> None:
    if isinstance(guest.door.listener, Bridge):
        guest.door.listener.fail(GatewayRestarting())


def loses_replicas(house: House, guest: Guest) -> None:
    house.turns_unhealthy(A, B)
    for _, upstream in house.connect.opened:
        if upstream.session is not None:
            upstream.says(Closed(None))


def leaves_and_is_cancelled(house: House, guest: Guest) -> None:
    leaves(house, guest)
    cancels(house, guest)


@pytest.mark.parametrize(
    "intrude", [cancels, leaves, restarts, loses_replicas, leaves_and_is_cancelled], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("affinity", [False, True], ids=["", "by init"])
async def test_whatever_happens_at_whatever_moment_leaves_nothing(
    intrude: Callable[[House, Guest], None], affinity: bool
) -> None:
    """The intruder comes between any two turns of the loop, from the session's first one to its last."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    turns = 0
    while True:
        turns += 1
        async with open_house(
            A, B, limit=1, queue_size=10, new_core=ScriptedCore, key_of_init=key_in if affinity else None
        ) as house:
            telling = asyncio.create_task(whole_story(house))
            await asyncio.sleep(0.5)
            guest = house.comes(FakeDoor())
            if affinity:
                loop.call_later(0.25, says_its_key, guest)
            told_at: list[float] = []
            loop.at_turn(turns, partial(intrudes, intrude, house, guest, told_at))
            await asyncio.wait([guest.serving])
            assert told_at == [] or loop.time() == told_at[0], "there is nothing to wait for"
            came_in_time = loop.call_off() is None
            house.assert_nobody_is_inside()
            await telling
        if not came_in_time:
            break
    assert turns > 40, "there were moments to be tried"


def intrudes(
    intrude: Callable[[House, Guest], None], house: House, guest: Guest, told_at: list[float]
) -> None:
    """`told_at` gets the time if that must end the session."""
    if intrude is cancels or (intrude is not loses_replicas and guest.door.accepted):
        told_at.append(asyncio.get_running_loop().time())
    intrude(house, guest)


def says_its_key(guest: Guest) -> None:
    if guest.door.accepted:
        guest.door.says(Message("key=1"))


# -- drains


async def test_a_drain_ends_those_that_wait_at_once_and_open_ones_at_the_deadline() -> None:
    loop = asyncio.get_running_loop()
    async with open_house(A, B, limit=1, queue_size=10, new_core=ScriptedCore) as house:
        served, moves = await house.enters(), await house.enters()
        waits = await house.enters()
        house.connect.answers.clear()
        house.at(B).says(LOST)
        await settle()
        began = loop.time()
        drain = asyncio.create_task(house.roster.drain(timeout_seconds=30, spread_seconds=0))
        await asyncio.wait([waits.serving, moves.serving])
        assert loop.time() == began
        for guest in (waits, moves):
            assert guest.door.sent[-1] == Closed(1012, "gateway_restarting")
        await served.serving
        assert loop.time() == began + 30
        assert served.door.sent == [Closed(1012, "gateway_restarting")]
        await drain


async def test_a_client_that_begins_to_wait_during_a_drain_is_ended_at_once() -> None:
    async with open_house(limit=1, queue_size=10, new_core=ScriptedCore) as house:
        house.fills(A)
        house.fresh.clear()
        guest = await house.enters()
        before = asyncio.get_running_loop().time()
        drain = asyncio.create_task(house.roster.drain(timeout_seconds=30, spread_seconds=0))
        await settle()
        house.fresh.set()
        await guest.serving
        assert guest.door.sent == [Closed(1012, "gateway_restarting")]
        assert asyncio.get_running_loop().time() == before
        await drain


async def test_a_session_goes_on_elsewhere_during_a_drain() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        drain = asyncio.create_task(house.roster.drain(timeout_seconds=30, spread_seconds=0))
        await asyncio.sleep(1)
        house.at(A).says(LOST)
        await settle()
        assert house.connect.asked == [A, B]
        await guest.leaves()
        await drain


# -- what is said of replicas


async def test_an_unhealthy_replica_is_told_to_the_sessions_that_it_serves() -> None:
    async with open_house(A, B, C, limit=2, new_core=ScriptedCore) as house:
        on_a, moved = await house.enters(), await house.enters()
        on_b = await house.enters()
        house.at(A).says(LOST)
        await settle()
        assert house.connect.asked == [A, A, B, B]
        house.roster.unhealthy(A, "keep")
        calls = [[call for call in core_of(house, n).calls if call.startswith("unhealthy")] for n in range(3)]
        assert calls == [["unhealthy keep"], [], []]
        house.roster.unhealthy(B, "close")
        await settle()
        assert house.connect.asked[4:] == [A, C], "in the order of their turns, away from B"
        for guest in (on_a, moved, on_b):
            await guest.leaves()


@pytest.mark.parametrize(
    ("end", "praised"),
    [
        (lambda house, guest: guest.door.says(Closed(1000)), True),
        (lambda house, guest: guest.door.says(Closed(None)), True),
        (lambda house, guest: house.at(A).says(Closed(1000)), True),
        (lambda house, guest: house.at(A).says(Closed(4001, "session_gone")), True),
        (lambda house, guest: house.at(A).says(Closed(1011, "oops")), False),
        (lambda house, guest: house.at(A).says(Closed(1012, "restart")), False),
        (lambda house, guest: house.at(A).says(Closed(None)), False),
        (lambda house, guest: restarts(house, guest), False),
        (lambda house, guest: cancels(house, guest), False),
    ],
    ids=[
        "the client closes",
        "the client vanishes",
        "the replica closes",
        "the replica says why",
        "the replica fails",
        "the replica restarts",
        "the replica vanishes",
        "the gateway ends it",
        "it is cancelled",
    ],
)
async def test_a_replica_is_praised_for_a_session_that_it_carried_to_its_end(
    end: Callable[[House, Guest], None], praised: bool
) -> None:
    async with open_house(new_core=lambda: PassthroughCore(1000)) as house:
        guest = await house.enters()
        end(house, guest)
        await asyncio.wait([guest.serving])
        assert house.records.calls == ([("praise", A)] if praised else [])


async def test_blame_is_what_the_core_says() -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.at(A).says(Closed(None))
        await settle()
        assert house.records.calls == []
        house.at(B).says(blames(A))
        await guest.leaves()
        assert house.records.calls == [("blame", A), ("praise", B)]


# -- defects


@pytest.mark.parametrize("also", [(), ("fail",)], ids=["", "fail too"])
@pytest.mark.parametrize(
    "broken", ["attached", "from_client", "from_replica", "queued", "unavailable", "unhealthy", "fail"]
)
async def test_a_defect_in_a_core_ends_its_session_alone(
    broken: str, also: tuple[str, ...], tracebacks: Tracebacks, lines: Lines
) -> None:
    cores = [ScriptedCore(), ScriptedCore({broken, *also})]
    async with open_house(A, B, limit=1, queue_size=10, new_core=lambda: cores.pop(0)) as house:
        other = await house.enters()
        if broken in ("queued", "unavailable"):
            house.fills(B)
        guest = await house.enters()
        match broken:
            case "from_client":
                guest.door.says(Message("1"))
            case "from_replica":
                house.at(B).says(Message("1"))
            case "unavailable":
                house.turns_unhealthy(A, B)
            case "unhealthy":
                house.roster.unhealthy(B, "keep")
            case "fail":
                restarts(house, guest)
            case _:
                assert guest.serving.done()
        await guest.serving
        assert guest.door.sent[-1] == Closed(1011, "internal_error")
        assert not other.serving.done()
        await other.says(Message("still here"))
        assert house.at(A).texts == ["still here"]
        await other.leaves()
    assert tracebacks() == [ZeroDivisionError]
    told = fields(lines("session_ended")[0])
    assert (told["closed_by"], told["code"], told["reason"]) == ("gateway", "1011", "internal_error")


async def test_a_defect_beside_the_core_ends_its_session_alone(tracebacks: Tracebacks, lines: Lines) -> None:
    async with open_house(A, B, new_core=ScriptedCore) as house:
        guest = await house.enters()
        house.connect.plans[B] = [ZeroDivisionError("a defect")]
        house.at(A).says(LOST)
        await guest.serving
        assert guest.door.sent == [Closed(1011, "internal_error")]
        house.assert_empty()
    assert len(tracebacks()) == 1
    assert len(lines("session_failed")) == 1
    told = fields(lines("session_ended")[0])
    assert (told["closed_by"], told["code"], told["reason"]) == (Side.GATEWAY.value, "1011", "internal_error")
