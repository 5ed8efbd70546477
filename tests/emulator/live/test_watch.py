from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.events import KINDS, Event
from emulator.live.watch import TAIL, Flow, Watch, printable


class Told:
    """A watch that is told of one replica's events, a second apart."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.at = 1000.0

    def __call__(self, kind: str, session: int | None = None, /, replica: str = "a", **detail: Any) -> None:
        self.at += 1.0
        self.watch.hear(Event(0, self.at, replica, kind, 1, session, detail))


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_session_is_followed_from_its_opening_to_its_end(told: Told) -> None:
    told("session_opened", 3)
    told("message_received", 3, type="session_init_v2", size_bytes=40, client_id="me")
    told("message_sent", 3, type="queue_status", size_bytes=10)
    (seen,) = told.watch.sessions.values()
    assert (seen.replica, seen.number, seen.client_id, seen.segment) == ("a", 3, "me", None)
    assert (seen.doing, seen.received_bytes, seen.sent.total) == ("waits for a GPU", 40, 10)
    told("message_sent", 3, type="ltx2_segment_start", size_bytes=10, segment_idx=0)
    assert (seen.doing, seen.segment) == ("makes a segment", 0)
    told("binary_sent", 3, size_bytes=1000, segment_idx=0)
    assert (seen.doing, seen.sent.total) == ("sends media", 1020)
    told("message_sent", 3, type="ltx2_segment_complete", size_bytes=5, segment_idx=0)
    assert seen.doing == "idle"
    assert told.watch.of("a").segments == told.watch.segments_total == 1
    assert (told.watch.of("a").sessions, seen.last_at) == (1, told.at)
    told("close_received", 3, code=1000)
    assert seen.doing == "closes, 1000"
    told("session_closed", 3, code=1000)
    assert told.watch.sessions == {}
    assert (told.watch.of("a").sessions, told.watch.opened_total) == (0, 1)
    assert told.watch.of("a").sent.total == told.watch.sent.total == 1025


def test_sessions_of_two_replicas_with_one_number_are_two(told: Told) -> None:
    told("session_opened", 1)
    told("session_opened", 1, replica="b")
    told("session_closed", 1, code=None)
    assert list(told.watch.sessions) == [("b", 1)]


@pytest.mark.parametrize(
    ("way", "doing", "strikes"),
    [(None, "fault: stall", 1), ("abort", "fault: abort", 1), ("healthy", "opens", 0)],
)
def test_a_fault_shows_in_its_session_and_in_the_tail(
    told: Told, way: str | None, doing: str, strikes: int
) -> None:
    told("session_opened", 1)
    told("fault_struck", 1, fault="stall", way=way)
    (seen,) = told.watch.sessions.values()
    assert (seen.doing, told.watch.strikes_total) == (doing, strikes)
    lines = [line for _, line in told.watch.tail]
    assert len(lines) == 1 + strikes
    assert lines[0] == "a session 1: opened"


def test_an_error_is_what_the_session_was_told(told: Told) -> None:
    told("session_opened", 1)
    told("message_sent", 1, type="error", size_bytes=9)
    told("message_sent", 1, type="of_a_later_version", size_bytes=9)
    (seen,) = told.watch.sessions.values()
    assert seen.doing == "was told an error"


def test_a_killed_replica_has_no_sessions_though_nobody_told_their_ends(told: Told) -> None:
    told("session_opened", 1)
    told("session_opened", 1, replica="b")
    told("state_changed", before="running", after="killed")
    assert list(told.watch.sessions) == [("b", 1)]
    assert told.watch.of("a").sessions == 0
    told("session_closed", 1, code=None)
    assert told.watch.of("a").sessions == 0


def test_a_rejected_session_is_none(told: Told) -> None:
    told("session_rejected", 5, capacity=4)
    told("message_sent", 5, type="error", size_bytes=9)
    told("session_closed", 5, code=1013)
    assert (told.watch.sessions, told.watch.opened_total) == ({}, 0)


def test_the_last_probe_counts(told: Told) -> None:
    told("http_answered", method="GET", path="/health", status=503)
    assert (told.watch.of("a").probe, told.watch.of("a").is_silent) == (503, False)
    told("http_answered", method="GET", path="/health", status=None)
    assert told.watch.of("a").is_silent
    told("http_answered", method="GET", path="/health", status=200)
    assert (told.watch.of("a").probe, told.watch.of("a").is_silent) == (200, False)


def test_the_tail_is_bounded_and_cannot_move_the_cursor(told: Told) -> None:
    for number in range(TAIL + 50):
        told("session_opened", number)
    told.watch.say("x\x1b[2J\r\ny", 0.0)
    assert len(told.watch.tail) == TAIL
    assert told.watch.tail[-1][1] == "x?[2J??y"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ok", "ok"),
        ("漢字", "漢字"),
        ("a\x1bb\u202ec", "a?b?c"),
        ("x" * 41, "x" * 39 + "…"),
        ("x" * 40, "x" * 40),
        ("", ""),
    ],
)
def test_what_clients_call_themselves_is_made_printable(text: str, shown: str) -> None:
    assert printable(text, 40) == shown


def test_a_rate_is_that_of_the_last_two_seconds() -> None:
    flow = Flow()
    flow.add(100, 1000.0)
    flow.add(100, 1001.5)
    assert flow.rate(1001.9) == 100.0
    assert flow.rate(1003.0) == 50.0
    assert flow.rate(1006.0) == 0.0
    assert flow.total == 200


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 1000)), max_size=30))
def test_a_rate_is_never_negative_nor_above_what_came(parts: list[tuple[float, int]]) -> None:
    flow = Flow()
    for at, amount in parts:
        flow.add(amount, at)
        assert 0 <= flow.rate(at) <= flow.total
    assert flow.total == sum(amount for _, amount in parts)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["session_opened", "session_closed", "message_received", "binary_sent", "state_changed"]
            ),
            st.integers(1, 3),
        )
    )
)
def test_the_sessions_of_a_replica_are_always_those_that_are_listed(happened: list[tuple[str, int]]) -> None:
    told = Told()
    opened: set[int] = set()
    for kind, number in happened:
        if kind == "session_opened" and number in opened:
            continue
        opened.add(number)
        whole = None if kind == "state_changed" else number
        told(kind, whole, code=1000, size_bytes=1, before="running", after="killed")
        assert told.watch.of("a").sessions == len(told.watch.sessions)


def test_every_kind_of_event_can_be_heard(told: Told) -> None:
    for kind in KINDS:
        told(
            kind,
            1,
            before="a",
            after="b",
            fault="x",
            code=1000,
            capacity=1,
            type="error",
            size_bytes=1,
            status=200,
            id="a-1",
            health="healthy",
            awake_seconds=1.0,
        )
