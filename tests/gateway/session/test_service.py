"""Who may have a session, what those are told that get none, and what is left when it is over."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable

import pytest

from gateway.errors import NoHealthyReplica, ReplicasFull
from gateway.session.core import SessionCore
from gateway.session.events import Closed, Event, Message
from gateway.session.upstream import Refused
from tests.gateway.session.fakes import FakeDoor, FakeUpstream
from tests.gateway.session.house import LIMITS, A, offering, open_house
from tests.gateway.session.requests import request
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

Lines = Callable[[str], list[str]]
Tracebacks = Callable[[], list[type[BaseException] | None]]


def in_band(door: FakeDoor) -> tuple[object, Event]:
    """The message and the close that a client was accepted for."""
    message, closed = door.sent
    assert isinstance(message, Message)
    return json.loads(message.data), closed


# -- who does not get in


async def test_a_draining_gateway_answers_503() -> None:
    async with open_house() as house:
        door = FakeDoor()
        house.roster.draining = True
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == 503
        assert house.connect.asked == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("origin", "https://evil.example"), ("authorization", "Bearer s3cret")], 403),
        ([("origin", "https://app.example")], 401),
        ([("authorization", "Bearer wrong")], 401),
        ([], 401),
    ],
)
async def test_a_client_that_may_not_come_in_is_refused_by_status(
    headers: list[tuple[str, str]], status: int
) -> None:
    async with open_house(tokens=["s3cret"], allowed_origins=["https://app.example"]) as house:
        door = FakeDoor(request(*headers))
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == status
        assert json.loads(door.refusal[2])["status_code"] == status
        assert house.connect.asked == []


async def test_a_client_with_a_token_and_an_allowed_origin_comes_in() -> None:
    async with open_house(tokens=["s3cret"], allowed_origins=["https://app.example"]) as house:
        asked = request(("origin", "https://app.example"), ("authorization", "Bearer s3cret"))
        guest = await house.enters(FakeDoor(asked))
        assert guest.door.accepted
        await guest.leaves()


async def test_a_full_gateway_says_so_in_band() -> None:
    async with open_house(max_sessions=1) as house:
        first = await house.enters()
        second = offering("a", "b")
        await house.service.serve(second)
        assert second.subprotocol == "a"
        assert in_band(second) == (
            {"type": "error", "code": "gpu_unavailable", "message": ReplicasFull.message, "retryable": True},
            Closed(1013, "queue_full"),
        )
        await first.leaves()
        third = await house.enters()
        assert (third.door.accepted, third.door.sent) == (True, [])
        await third.leaves()


async def test_a_client_with_all_its_sessions_is_refused_by_status_and_others_are_not() -> None:
    async with open_house(max_sessions_of_one=1) as house:
        first = await house.enters()
        again, other = FakeDoor(), FakeDoor(request(client_host="192.0.2.8"))
        await house.service.serve(again)
        assert again.refusal is not None
        assert again.refusal[0] == 429
        guest = await house.enters(other)
        assert other.accepted
        await guest.leaves()
        await first.leaves()
        assert (await house.enters()).door.accepted


@pytest.mark.parametrize(
    ("healthy", "message", "closed"),
    [
        (False, NoHealthyReplica.message, Closed(1013, "no_healthy_replica")),
        (True, ReplicasFull.message, Closed(1013, "queue_full")),
    ],
)
@pytest.mark.parametrize(("offered", "answered"), [((), None), (("a", "b"), "a")])
async def test_a_client_without_a_replica_is_told_in_band(
    healthy: bool, message: str, closed: Closed, offered: tuple[str, ...], answered: str | None
) -> None:
    async with open_house(healthy=healthy, limit=1) as house:
        house.fills(A)
        door = offering(*offered) if offered else FakeDoor()
        await house.service.serve(door)
        assert door.subprotocol == answered
        assert in_band(door) == (
            {"type": "error", "code": "gpu_unavailable", "message": message, "retryable": True},
            closed,
        )


async def test_a_client_that_is_told_goodbye_may_say_what_it_likes() -> None:
    async with open_house(healthy=False) as house:
        door = FakeDoor()
        door.takes.clear()
        door.stalled_since = asyncio.get_running_loop().time()
        guest = await house.enters(door)
        assert not guest.serving.done()
        door.says(Message("hello"))
        assert door.listener is not None
        door.listener.downstream_paused()
        door.listener.downstream_resumed()
        door.says(Closed(None))
        door.stalled_since = None
        door.takes.set()
        await guest.serving
        assert len(door.sent) == 2


@pytest.mark.parametrize(("status", "shown"), [(401, 401), (403, 403), (429, 429), (503, 503), (599, 599)])
async def test_a_replicas_status_is_the_clients_with_what_helps_it(status: int, shown: int) -> None:
    async with open_house() as house:
        door = FakeDoor(request(("x-request-id", "mine")))
        house.connect.plans[A] = [Refused(status, ((b"retry-after", b"7"),))]
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == shown
        assert door.refusal[1] == {
            b"content-type": b"application/json",
            b"x-request-id": b"mine",
            b"retry-after": b"7",
        }


@pytest.mark.parametrize("status", [200, 204, 301, 302, 307, 308, 600, 999])
async def test_an_answer_that_is_no_refusal_is_a_bad_gateway(status: int) -> None:
    async with open_house() as house:
        door = FakeDoor()
        house.connect.plans[A] = [Refused(status, ())]
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == 502
        assert b"location" not in door.refusal[1]


async def test_a_client_waits_while_the_health_of_the_replicas_is_stale() -> None:
    async with open_house() as house:
        house.fresh.clear()
        guest = await house.enters()
        assert house.connect.asked == []
        assert len(house.roster) == 1, "a drain waits for it"
        house.fresh.set()
        await settle()
        assert guest.door.accepted
        await guest.leaves()


# -- a session


async def test_a_session_is_carried_and_gives_everything_back(lines: Lines) -> None:
    asked = request(("x-request-id", "mine"), ("sec-websocket-protocol", "a, b"))
    async with open_house() as house:
        house.connect.plans[A] = [FakeUpstream(subprotocol="b")]
        guest = await house.enters(FakeDoor(asked))
        door, upstream = guest.door, house.at(A)
        assert door.subprotocol == "b", "the replica's choice"
        assert (len(house.roster), house.leases) == (1, 1)
        assert house.connect.headers[0]["Sec-WebSocket-Protocol"] == "a, b"
        door.says(Message("abc"))
        upstream.says(Message(b"12345"))
        upstream.says(Closed(4001, "session_gone"))
        await guest.serving
        assert upstream.sent == [Message("abc")]
        assert door.sent == [Message(b"12345"), Closed(4001, "session_gone")]
        assert upstream.awaited, "its close handshake may finish"
        house.assert_empty()
    assert lines("session_opened") == [
        "session_opened replica=a request_id=mine client=192.0.2.7 path=/v1/stream subprotocol=b"
    ]
    assert lines("session_moved") == lines("session_leaves") == []
    (ended,) = lines("session_ended")
    fields = dict(field.split("=", 1) for field in shlex.split(ended)[1:])
    assert float(fields.pop("duration_seconds")) >= 0
    assert fields == {
        "replica": "a",
        "request_id": "mine",
        "bytes_from_client": "3",
        "bytes_from_replica": "5",
        "messages_from_client": "1",
        "messages_from_replica": "1",
        "resumes": "0",
        "not_resumable": "passthrough",
        "closed_by": "replica",
        "code": "4001",
        "reason": "session_gone",
    }


async def test_the_log_says_nothing_of_what_was_said(lines: Lines, caplog: pytest.LogCaptureFixture) -> None:
    asked = request(
        ("authorization", "Bearer s3cret"),
        ("cookie", "session=s3cret"),
        query="token=s3cret",
        raw_path="/v1/stream",
    )
    async with open_house(tokens=["s3cret"]) as house:
        guest = await house.enters(FakeDoor(asked))
        guest.door.says(Message("a payload of s3cret"))
        await guest.leaves()
    assert lines("session_ended")
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("mine-1", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("two words", False),
        ("", False),
        (None, False),
    ],
)
async def test_a_clients_request_id_is_kept_where_it_is_harmless(given: str | None, kept: bool) -> None:
    async with open_house() as house:
        door = FakeDoor(request(*([] if given is None else [("x-request-id", given)])))
        await (await house.enters(door)).leaves()
        (headers,) = house.connect.headers
        assert (headers["X-Request-Id"] == given) is kept
        assert 1 <= len(headers["X-Request-Id"]) <= 128


async def test_made_request_ids_differ() -> None:
    async with open_house() as house:
        for _ in range(5):
            await (await house.enters()).leaves()
        assert len({headers["X-Request-Id"] for headers in house.connect.headers}) == 5


async def test_the_affinity_key_comes_from_the_request_and_the_clients_own_address() -> None:
    seen: list[tuple[str, str]] = []
    async with open_house(key_of=lambda asked, client: seen.append((asked.query, client))) as house:
        await (await house.enters(FakeDoor(request(query="room=7")))).leaves()
    assert seen == [("room=7", "192.0.2.7")]


async def test_a_client_that_takes_nothing_is_given_up_after_the_slow_consumer_timeout() -> None:
    loop = asyncio.get_running_loop()
    async with open_house() as house:
        guest = await house.enters()
        guest.door.takes.clear()
        house.at(A).says(Closed(1000))
        before = guest.door.stalled_since = loop.time()
        await guest.serving
        assert loop.time() - before == pytest.approx(LIMITS.slow_consumer_timeout_seconds)


async def test_a_client_that_takes_its_last_messages_slowly_gets_them_and_its_close() -> None:
    loop = asyncio.get_running_loop()
    async with open_house() as house:
        guest = await house.enters()
        guest.door.takes.clear()
        house.at(A).says(Closed(1000))
        guest.door.stalled_since = loop.time()
        for _ in range(5):
            await asyncio.sleep(LIMITS.slow_consumer_timeout_seconds * 0.75)
            assert not guest.serving.done()
            guest.door.stalled_since = loop.time()
        guest.door.stalled_since = None
        guest.door.takes.set()
        await guest.serving


async def test_a_replica_has_its_place_free_before_the_client_has_taken_its_close() -> None:
    async with open_house() as house:
        guest = await house.enters()
        guest.door.takes.clear()
        house.at(A).says(Closed(1000))
        guest.door.stalled_since = asyncio.get_running_loop().time()
        await settle()
        assert not guest.serving.done()
        assert house.leases == 0
        guest.door.stalled_since = None
        guest.door.takes.set()
        await guest.serving


async def test_a_drain_past_its_deadline_ends_an_open_session() -> None:
    async with open_house() as house:
        guest = await house.enters()
        await house.roster.drain(timeout_seconds=30, spread_seconds=0.1)
        await guest.serving
        message, closed = in_band(guest.door)
        assert isinstance(message, dict)
        assert message["type"] == "going_away"
        assert closed == Closed(1012, "gateway_restarting")


async def test_a_client_without_an_answer_at_the_deadline_is_refused_and_holds_nobody_up() -> None:
    loop = asyncio.get_running_loop()
    async with open_house() as house:
        house.connect.answers.clear()
        guest = await house.enters()
        before = loop.time()
        await house.roster.drain(timeout_seconds=30, spread_seconds=0.1)
        assert loop.time() - before == pytest.approx(30, abs=0.2)
        await guest.serving
        assert not guest.door.accepted
        assert guest.door.refusal is not None
        assert guest.door.refusal[0] == 503


# -- defects and cancellation


async def test_a_defect_before_the_accept_is_a_500_and_logged(lines: Lines, tracebacks: Tracebacks) -> None:
    async with open_house() as house:
        door = FakeDoor()
        house.connect.plans[A] = [ZeroDivisionError("a defect")]
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == 500
        house.assert_empty()
    assert len(lines("session_failed")) == 1
    assert tracebacks() == [ZeroDivisionError]


async def test_a_defect_after_the_accept_is_an_1011_and_logged(lines: Lines) -> None:
    async with open_house() as house:
        door = FakeDoor()
        door.accepting = ZeroDivisionError("a defect")
        await house.service.serve(door)
        assert door.sent == [Closed(1011, "internal_error")]
        assert len(lines("session_failed")) == 1
        house.assert_empty()


async def test_a_core_that_cannot_be_made_holds_no_replica() -> None:
    def defect() -> SessionCore:
        raise ZeroDivisionError("a defect")

    async with open_house(new_core=defect) as house:
        door = FakeDoor()
        await house.service.serve(door)
        assert door.refusal is not None
        assert door.refusal[0] == 500
        house.assert_empty()


async def test_a_cancelled_session_gives_everything_back(lines: Lines) -> None:
    async with open_house() as house:
        guest = await house.enters()
        assert house.leases == 1
        await guest.is_cancelled()
        house.assert_empty()
    (line,) = lines("session_ended")
    assert line.endswith("closed_by=gateway reason=cancelled")


@pytest.mark.parametrize("hold", ["fresh", "answers"])
async def test_a_client_cancelled_on_its_way_in_gives_its_place_back(hold: str) -> None:
    async with open_house() as house:
        (house.fresh if hold == "fresh" else house.connect.answers).clear()
        guest = await house.enters()
        assert len(house.roster) == 1
        await guest.is_cancelled()
        house.assert_empty()
