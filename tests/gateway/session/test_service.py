"""A session's life behind a door in the test's hands: checks, refusals, the pump, the end, the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import cast

import pytest

from gateway.errors import NoHealthyReplica, ReplicasFull
from gateway.replicas.model import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, NoneHealthy
from gateway.session.core import PassthroughCore, SessionCore
from gateway.session.downstream import OpeningRequest
from gateway.session.events import Closed, Event, Message
from gateway.session.opening import NotOpened, Opened, Opener
from gateway.session.roster import Roster
from gateway.session.service import SessionService
from gateway.session.upstream import Refused
from gateway.session.watch import Limits
from tests.gateway.session.fakes import FakeDoor, FakeUpstream
from tests.gateway.session.requests import request
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

URL = "http://127.0.0.1:9101"
LIMITS = Limits(
    idle_timeout_seconds=300,
    ping_interval_seconds=1e6,
    ping_timeout_seconds=10,
    slow_consumer_timeout_seconds=60,
)


class FakeOpener:
    """Opens the same replica for everybody, or tells or raises what it was given."""

    def __init__(self) -> None:
        self.registry = ReplicaRegistry([ReplicaEndpoint(URL, name="a")])
        self.upstream = FakeUpstream()
        self.outcome: NotOpened | BaseException | None = None
        self.asked: list[tuple[OpeningRequest, str]] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def open(self, request: OpeningRequest, request_id: str) -> Opened | NotOpened:
        self.asked.append((request, request_id))
        await self.answers.wait()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome or Opened(self.registry.lease(URL), self.upstream)

    @property
    def sessions(self) -> int:
        return self.registry.all()[0].sessions


class House:
    """A service with all that it stands on."""

    def __init__(
        self,
        *,
        max_sessions: int = 10,
        tokens: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        new_core: Callable[[], SessionCore] = lambda: PassthroughCore(1000),
    ) -> None:
        self.roster = Roster()
        self.opener = FakeOpener()
        self.fresh = asyncio.Event()
        self.fresh.set()
        self.service = SessionService(
            roster=self.roster,
            opener=cast(Opener, self.opener),
            fresh=self._wait_until_fresh,
            new_core=new_core,
            limits=LIMITS,
            max_sessions=max_sessions,
            tokens=tokens or [],
            allowed_origins=allowed_origins or ["*"],
            proxies=[],
        )

    async def _wait_until_fresh(self) -> None:
        await self.fresh.wait()

    async def enters(self, door: FakeDoor) -> asyncio.Task[None]:
        """The client of `door` comes in, as far as it gets."""
        serving = asyncio.create_task(self.service.serve(door))
        await settle()
        return serving

    def is_empty(self) -> bool:
        """Nothing is held for anybody."""
        return (len(self.roster), self.opener.sessions) == (0, 0)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The log lines of an event."""
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)
    caplog.set_level(logging.INFO, logger="streamhold")

    def of(event: str) -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if message.split(" ")[0] == event]

    return of


def in_band(door: FakeDoor) -> tuple[object, Event]:
    """The message and the close that a client was accepted for."""
    message, closed = door.sent
    assert isinstance(message, Message)
    return json.loads(message.data), closed


# -- who does not get in


async def test_a_draining_gateway_answers_503() -> None:
    house, door = House(), FakeDoor()
    house.roster.draining = True
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == 503
    assert house.opener.asked == []


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
    house = House(tokens=["s3cret"], allowed_origins=["https://app.example"])
    door = FakeDoor(request(*headers))
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == status
    assert json.loads(door.refusal[2])["status_code"] == status
    assert house.opener.asked == []


async def test_a_client_with_a_token_and_an_allowed_origin_comes_in() -> None:
    house = House(tokens=["s3cret"], allowed_origins=["https://app.example"])
    door = FakeDoor(request(("origin", "https://app.example"), ("authorization", "Bearer s3cret")))
    serving = await house.enters(door)
    assert door.accepted
    door.says(Closed(1000))
    await serving


async def test_a_full_gateway_says_so_in_band() -> None:
    house, first, second = House(max_sessions=1), FakeDoor(), FakeDoor()
    serving = await house.enters(first)
    await house.service.serve(second)
    assert in_band(second) == (
        {"type": "error", "code": "gpu_unavailable", "message": ReplicasFull.message, "retryable": True},
        Closed(1013, "queue_full"),
    )
    first.says(Closed(1000))
    await serving
    third = FakeDoor()
    serving = await house.enters(third)
    assert third.subprotocol is None
    assert third.sent == []
    third.says(Closed(1000))
    await serving
    assert house.is_empty()


@pytest.mark.parametrize(
    ("cause", "message", "closed"),
    [
        (NoneHealthy(), NoHealthyReplica.message, Closed(1013, "no_healthy_replica")),
        (AllFull(), ReplicasFull.message, Closed(1013, "queue_full")),
    ],
)
@pytest.mark.parametrize(("offered", "answered"), [(None, None), ("a, b", "a")])
async def test_a_client_without_a_replica_is_told_in_band(
    cause: NoneHealthy | AllFull, message: str, closed: Closed, offered: str | None, answered: str | None
) -> None:
    house = House()
    door = FakeDoor(request(*([("sec-websocket-protocol", offered)] if offered else [])))
    house.opener.outcome = NotOpened(cause)
    await house.service.serve(door)
    assert door.subprotocol == answered
    assert in_band(door) == (
        {"type": "error", "code": "gpu_unavailable", "message": message, "retryable": True},
        closed,
    )
    assert house.is_empty()


async def test_a_client_that_is_told_goodbye_may_say_what_it_likes() -> None:
    house, door = House(), FakeDoor()
    house.opener.outcome = NotOpened(NoneHealthy())
    door.takes.clear()
    serving = await house.enters(door)
    door.says(Message("hello"))
    assert door.listener is not None
    door.listener.downstream_paused()
    door.listener.downstream_resumed()
    door.says(Closed(None))
    door.takes.set()
    await serving
    assert len(door.sent) == 2


@pytest.mark.parametrize(("status", "shown"), [(401, 401), (403, 403), (429, 429), (503, 503), (599, 599)])
async def test_a_replicas_status_is_the_clients_with_what_helps_it(status: int, shown: int) -> None:
    house, door = House(), FakeDoor(request(("x-request-id", "mine")))
    house.opener.outcome = NotOpened(Refused(status, ((b"retry-after", b"7"),)))
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == shown
    assert door.refusal[1] == {
        b"content-type": b"application/json",
        b"x-request-id": b"mine",
        b"retry-after": b"7",
    }
    assert house.is_empty()


@pytest.mark.parametrize("status", [200, 204, 301, 302, 307, 308, 600, 999])
async def test_an_answer_that_is_no_refusal_is_a_bad_gateway(status: int) -> None:
    house, door = House(), FakeDoor()
    house.opener.outcome = NotOpened(Refused(status, ()))
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == 502
    assert b"location" not in door.refusal[1]


async def test_a_client_waits_while_the_health_of_the_replicas_is_stale() -> None:
    house, door = House(), FakeDoor()
    house.fresh.clear()
    serving = await house.enters(door)
    assert house.opener.asked == []
    assert len(house.roster) == 1, "a drain waits for it"
    house.fresh.set()
    await settle()
    assert door.accepted
    door.says(Closed(1000))
    await serving


# -- a session


async def test_a_session_is_carried_and_gives_everything_back(lines: Callable[[str], list[str]]) -> None:
    house, door = House(), FakeDoor(request(("x-request-id", "mine"), ("sec-websocket-protocol", "a, b")))
    house.opener.upstream = FakeUpstream(subprotocol="b")
    serving = await house.enters(door)
    assert door.subprotocol == "b", "the replica's choice"
    assert (len(house.roster), house.opener.sessions) == (1, 1)
    door.says(Message("abc"))
    house.opener.upstream.says(Message(b"12345"))
    house.opener.upstream.says(Closed(4001, "session_gone"))
    await serving
    assert house.opener.upstream.sent == [Message("abc")]
    assert door.sent == [Message(b"12345"), Closed(4001, "session_gone")]
    assert house.opener.upstream.awaited, "its close handshake may finish"
    assert house.opener.upstream.cut
    assert house.is_empty()
    assert lines("session_opened") == [
        "session_opened replica=a request_id=mine client=192.0.2.7 path=/v1/stream subprotocol=b"
    ]
    (ended,) = lines("session_ended")
    fields = dict(field.split("=", 1) for field in ended.split(" ")[1:])
    assert float(fields.pop("duration_seconds")) >= 0
    assert fields == {
        "replica": "a",
        "request_id": "mine",
        "bytes_from_client": "3",
        "bytes_from_replica": "5",
        "messages_from_client": "1",
        "messages_from_replica": "1",
        "closed_by": "replica",
        "code": "4001",
        "reason": "session_gone",
    }


async def test_the_log_says_nothing_of_what_was_said(
    lines: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    asked = request(
        ("authorization", "Bearer s3cret"),
        ("cookie", "session=s3cret"),
        query="token=s3cret",
        raw_path="/v1/stream",
    )
    house, door = House(tokens=["s3cret"]), FakeDoor(asked)
    serving = await house.enters(door)
    door.says(Message("a payload of s3cret"))
    door.says(Closed(1000))
    await serving
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
    house = House()
    house.opener.outcome = NotOpened(NoneHealthy())
    await house.service.serve(FakeDoor(request(*([] if given is None else [("x-request-id", given)]))))
    ((_, request_id),) = house.opener.asked
    assert (request_id == given) is kept
    assert 1 <= len(request_id) <= 128


async def test_made_request_ids_differ() -> None:
    house = House()
    house.opener.outcome = NotOpened(NoneHealthy())
    for _ in range(5):
        await house.service.serve(FakeDoor())
    assert len({request_id for _, request_id in house.opener.asked}) == 5


async def test_a_client_that_takes_nothing_is_given_up_after_the_slow_consumer_timeout() -> None:
    house, door, loop = House(), FakeDoor(), asyncio.get_running_loop()
    door.takes.clear()
    serving = await house.enters(door)
    house.opener.upstream.says(Closed(1000))
    before = door.stalled_since = loop.time()
    await serving
    assert loop.time() - before == pytest.approx(LIMITS.slow_consumer_timeout_seconds)
    assert house.is_empty()


async def test_a_client_that_takes_its_last_messages_slowly_gets_them_and_its_close() -> None:
    house, door, loop = House(), FakeDoor(), asyncio.get_running_loop()
    door.takes.clear()
    serving = await house.enters(door)
    house.opener.upstream.says(Closed(1000))
    door.stalled_since = loop.time()
    for _ in range(5):
        await asyncio.sleep(LIMITS.slow_consumer_timeout_seconds * 0.75)
        assert not serving.done()
        door.stalled_since = loop.time()
    door.stalled_since = None
    door.takes.set()
    await serving
    assert house.is_empty()


async def test_a_replica_has_its_place_free_before_the_client_has_taken_its_close() -> None:
    house, door = House(), FakeDoor()
    door.takes.clear()
    serving = await house.enters(door)
    house.opener.upstream.says(Closed(1000))
    door.stalled_since = asyncio.get_running_loop().time()
    await settle()
    assert not serving.done()
    assert house.opener.sessions == 0
    door.stalled_since = None
    door.takes.set()
    await serving


async def test_a_drain_past_its_deadline_ends_an_open_session() -> None:
    house, door = House(), FakeDoor()
    serving = await house.enters(door)
    await house.roster.drain(timeout_seconds=30, spread_seconds=0.1)
    await serving
    message, closed = in_band(door)
    assert isinstance(message, dict)
    assert message["type"] == "going_away"
    assert closed == Closed(1012, "gateway_restarting")
    assert house.is_empty()


async def test_a_session_that_opens_past_the_deadline_is_ended_as_it_opens() -> None:
    house, door = House(), FakeDoor()
    house.opener.answers.clear()
    serving = await house.enters(door)
    drain = asyncio.create_task(house.roster.drain(timeout_seconds=30, spread_seconds=0.1))
    await asyncio.sleep(31)
    assert not door.accepted
    house.opener.answers.set()
    await drain
    await serving
    assert door.sent[-1] == Closed(1012, "gateway_restarting")
    assert house.is_empty()


# -- defects and cancellation


async def test_a_defect_before_the_accept_is_a_500_and_logged(
    lines: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    house, door = House(), FakeDoor()
    house.opener.outcome = ZeroDivisionError("a defect")
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == 500
    assert len(lines("session_failed")) == 1
    assert "ZeroDivisionError" in caplog.text
    assert house.is_empty()


async def test_a_defect_after_the_accept_is_an_1011_and_logged(lines: Callable[[str], list[str]]) -> None:
    house, door = House(), FakeDoor()
    door.accepting = ZeroDivisionError("a defect")
    await house.service.serve(door)
    assert door.sent == [Closed(1011, "internal_error")]
    assert len(lines("session_failed")) == 1
    assert house.opener.upstream.cut
    assert house.is_empty()


async def test_a_core_that_cannot_be_made_holds_no_replica() -> None:
    def defect() -> SessionCore:
        raise ZeroDivisionError("a defect")

    house, door = House(new_core=defect), FakeDoor()
    await house.service.serve(door)
    assert door.refusal is not None
    assert door.refusal[0] == 500
    assert house.opener.upstream.cut
    assert house.is_empty()


async def test_a_cancelled_session_gives_everything_back(lines: Callable[[str], list[str]]) -> None:
    house, door = House(), FakeDoor()
    serving = await house.enters(door)
    assert house.opener.sessions == 1
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert house.opener.upstream.cut
    assert house.is_empty()
    (line,) = lines("session_ended")
    assert "closed_by=gateway reason=cancelled" in line
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_client_cancelled_on_its_way_in_gives_its_place_back() -> None:
    for hold in ("fresh", "answers"):
        house, door = House(), FakeDoor()
        (house.fresh if hold == "fresh" else house.opener.answers).clear()
        serving = await house.enters(door)
        assert len(house.roster) == 1
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert house.is_empty()
