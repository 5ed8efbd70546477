from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from emulator.client import BadAnswer, NotSeen, RequestRefused, calls
from emulator.client.calls import Call, Sought
from emulator.control.answers import EventPage
from emulator.events import Event
from emulator.faults import Stall


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def event(seq: int, kind: str = "message_sent", **detail: Any) -> Event:
    return Event(seq, 0.0, "a", kind, 1, 1, detail)


def page(*events: Event, last: int = 0) -> EventPage:
    return EventPage(list(events), max([last, *(each.seq for each in events)]), 0)


Flow = Generator[Call[EventPage], EventPage, Event]


def started(sought: Sought, clock: Clock, deadline_seconds: float = 30.0) -> tuple[Flow, Call[EventPage]]:
    flow = calls.find(sought, deadline_seconds, clock)
    return flow, next(flow)


def found(flow: Flow, answer: EventPage) -> Event:
    with pytest.raises(StopIteration) as end:
        flow.send(answer)
    event: Event = end.value.value
    return event


def test_the_nth_match_is_found_over_several_pages() -> None:
    sought = Sought("message_sent", "a", 1, n=3, detail={"type": "x"})
    flow, first = started(sought, Clock())
    assert first.query == {
        "after": 0,
        "limit": 1000,
        "wait_seconds": 20.0,
        "replica": "a",
        "session": 1,
        "kind": ["message_sent"],
    }
    second = flow.send(page(event(1, type="x"), event(2, type="y"), event(4, type="x")))
    assert second.query["after"] == 4
    assert found(flow, page(event(5), event(7, type="x"), event(8, type="x"))).seq == 7


def test_a_long_wait_is_several_requests_and_never_longer_than_what_is_left() -> None:
    clock = Clock()
    flow, call = started(Sought("session_opened"), clock)
    assert call.wait_seconds == 20.0
    clock.now = 18.0
    call = flow.send(page(last=9))
    assert (call.wait_seconds, call.query["after"]) == (12.0, 9)


def test_after_the_deadline_it_looks_once_more_and_tells_what_came_instead() -> None:
    clock = Clock()
    flow, _ = started(Sought("session_opened", "a", n=2), clock, deadline_seconds=5)
    clock.now = 6.0
    last_look = flow.send(page(event(3, "session_opened")))
    assert last_look.wait_seconds == 0
    everything = flow.send(page(last=9))
    assert "kind" not in everything.query
    with pytest.raises(NotSeen, match=r"not within 5 s: session_opened on replica a \(2 times\)") as error:
        flow.send(page(event(3, "session_opened"), event(4, "close_sent")))
    assert "seen 1 times" in str(error.value)
    assert "a session 1 close_sent" in str(error.value)
    assert isinstance(error.value, TimeoutError)


def test_counting_starts_at_one() -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        Sought("session_opened", n=0)


def test_a_fault_goes_out_with_its_fields_and_what_is_changed_of_it() -> None:
    call = calls.arm("a/b", Stall(seconds=2), {"times": 1})
    assert call.path == "/replicas/a%2Fb/faults/stall"
    assert call.body is not None
    assert (call.body["seconds"], call.body["times"]) == (2, 1)
    assert calls.lift("a", Stall).path == calls.lift("a", "stall").path == "/replicas/a/faults/stall"
    assert calls.lift("a", None).path == "/replicas/a/faults"


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, b"<html>"), (200, b"[1]"), (404, b"not found"), (502, b'{"error": 1}'), (200, b"\xff")],
)
def test_what_no_emulator_says_is_told_as_that(status: int, content: bytes) -> None:
    with pytest.raises(BadAnswer, match="GET /replicas: no emulator says"):
        calls.replicas().read(status, content)


def test_a_no_of_an_unknown_kind_is_still_a_no() -> None:
    problem = {"status": 403, "error": "forbidden", "detail": "this API is for 127.0.0.1 only"}
    with pytest.raises(RequestRefused, match=r"for 127\.0\.0\.1 only") as error:
        calls.reset().read(403, json.dumps(problem).encode())
    assert error.value.problem.error == "forbidden"
