"""A session's deadlines, told with plain numbers for times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import SlowConsumer
from gateway.session.watch import Limits, Silence, Stall, next_check, slow_consumer

LIMITS = Limits(
    idle_timeout_seconds=300,
    ping_interval_seconds=20,
    ping_timeout_seconds=10,
    slow_consumer_timeout_seconds=60,
)

seconds = st.floats(min_value=0.05, max_value=3_600, allow_nan=False)
times = st.floats(min_value=0, max_value=100_000, allow_nan=False)
limits = st.builds(Limits, seconds, seconds, seconds, seconds)
silences = st.builds(Silence, times, st.none() | times)


@pytest.mark.parametrize(
    ("silent_seconds", "pinged_seconds_ago", "verdict"),
    [
        (0, None, "quiet"),
        (19.9, None, "quiet"),
        (20, None, "ping"),
        (500, None, "ping"),
        (25, 0, "quiet"),
        (29, 9.9, "quiet"),
        (30, 10, "dead"),
        (90, 70, "dead"),
    ],
)
def test_a_silent_side_is_asked_once_and_then_given_up(
    silent_seconds: float, pinged_seconds_ago: float | None, verdict: Literal["quiet", "ping", "dead"]
) -> None:
    now = 1000.0
    pinged_at = None if pinged_seconds_ago is None else now - pinged_seconds_ago
    assert Silence(now - silent_seconds, pinged_at).check(now, LIMITS) == verdict


def test_a_ping_is_sent_once() -> None:
    silence = Silence(0)
    assert [silence.check(20, LIMITS), silence.check(20, LIMITS), silence.check(29, LIMITS)] == [
        "ping",
        "quiet",
        "quiet",
    ]


def test_anything_heard_takes_the_question_back() -> None:
    silence = Silence(0)
    silence.check(20, LIMITS)
    silence.heard(25)
    assert silence.check(31, LIMITS) == "quiet"
    assert silence.due_at(LIMITS) == 45
    assert silence.check(45, LIMITS) == "ping"
    assert silence.due_at(LIMITS) == 55


@given(silences, limits, st.floats(0, 200_000))
def test_nothing_happens_to_a_side_before_it_is_due(silence: Silence, limits: Limits, now: float) -> None:
    due_at = silence.due_at(limits)
    # Rounding: `due - last` may be an ulp off the limit.
    if now < due_at - 1e-6:
        assert silence.check(now, limits) == "quiet"
    elif now > due_at + 1e-6:
        assert silence.check(now, limits) != "quiet"


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        ([(0, 0, 0)], None),
        ([(0, 100, 0)], None),
        ([(0, 100, 40)], 0),
        ([(0, 100, 40), (15, 100, 40)], 0),
        ([(0, 100, 40), (15, 100, 39)], 15),
        ([(0, 100, 40), (15, 500, 440)], 0),
        ([(0, 100, 40), (15, 500, 300)], 15),
        ([(0, 100, 40), (15, 100, 0)], None),
        ([(0, 100, 40), (15, 100, 0), (30, 200, 100)], 30),
    ],
    ids=[
        "nothing was sent",
        "all was taken",
        "the first look begins the stall",
        "nothing taken since",
        "a byte taken",
        "more sent, nothing taken",
        "more sent, some taken",
        "caught up",
        "caught up and stalled anew",
    ],
)
def test_a_stall_begins_with_the_last_look_that_saw_progress(
    looks: list[tuple[float, int, int]], since: float | None
) -> None:
    stall = Stall()
    for now, sent_bytes, unsent_bytes in looks:
        stall = stall.seen(sent_bytes=sent_bytes, unsent_bytes=unsent_bytes, now=now)
    assert stall.since == since


@pytest.mark.parametrize(
    ("stalled_since", "found"),
    [
        ((None, None), False),
        ((940.1, None), False),
        ((940, None), True),
        ((None, 0), True),
        ((999, 940), True),
    ],
)
def test_one_stalled_side_is_enough(stalled_since: tuple[float | None, ...], found: bool) -> None:
    cause = slow_consumer(1000, LIMITS, stalled_since=stalled_since)
    assert isinstance(cause, SlowConsumer) is found


@given(limits, st.lists(st.integers(1, 1000), min_size=1, max_size=40))
def test_a_side_that_goes_on_slowly_is_no_slow_consumer(limits: Limits, taken: list[int]) -> None:
    """However much waits: something is taken between any two looks."""
    now, unsent_bytes = 0.0, sum(taken) + 1
    stall = Stall()
    for amount in taken:
        stall = stall.seen(sent_bytes=sum(taken) + 1, unsent_bytes=unsent_bytes, now=now)
        assert slow_consumer(now, limits, stalled_since=[stall.since]) is None
        unsent_bytes -= amount
        now = next_check(now, limits, last_message_at=now, silences=[])


@given(limits, st.lists(st.integers(0, 1000), max_size=10))
def test_a_side_that_takes_nothing_is_found_in_time(limits: Limits, sent: list[int]) -> None:
    """However much more is sent to it meanwhile, and without many looks."""
    limits = replace(limits, idle_timeout_seconds=10_000)
    now, sent_bytes = 0.0, 1
    stall, looks = Stall(), 0
    more = iter(sent)
    while True:
        stall = stall.seen(sent_bytes=sent_bytes, unsent_bytes=sent_bytes, now=now)
        if slow_consumer(now, limits, stalled_since=[stall.since]):
            break
        sent_bytes += next(more, 0)
        looks += 1
        now = next_check(now, limits, last_message_at=now, silences=[])
    timeout = limits.slow_consumer_timeout_seconds
    assert now <= timeout * 1.25 + 0.05 + 1e-6
    assert looks <= 6


@given(times, limits, times, st.lists(silences, max_size=2))
def test_the_next_look_lies_ahead_but_not_far(
    now: float, limits: Limits, last_message_at: float, silences: list[Silence]
) -> None:
    at = next_check(now, limits, last_message_at=last_message_at, silences=silences)
    assert at >= now + 0.05
    assert at <= now + max(limits.slow_consumer_timeout_seconds / 4, 0.05)


@given(times, limits, times, st.lists(silences, max_size=2))
def test_a_deadline_that_lies_ahead_is_not_slept_through(
    now: float, limits: Limits, last_message_at: float, silences: list[Silence]
) -> None:
    at = next_check(now, limits, last_message_at=last_message_at, silences=silences)
    dues = [last_message_at + limits.idle_timeout_seconds, *(silence.due_at(limits) for silence in silences)]
    ahead = [due for due in dues if due >= now + 0.05]
    assert all(at <= due for due in ahead)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        (lambda: ([], 100.0), 115.0),
        (lambda: ([Silence(90)], 100.0), 110.0),
        (lambda: ([Silence(90), Silence(70, 91)], 100.0), 101.0),
        (lambda: ([], -199.0), 101.0),
        (lambda: ([Silence(50)], 100.0), 100.05),
    ],
    ids=["nothing is near", "a ping is due", "a pong is due", "the session is idle", "overdue already"],
)
def test_the_nearest_deadline_sets_the_next_look(
    change: Callable[[], tuple[list[Silence], float]], at: float
) -> None:
    silences, last_message_at = change()
    assert next_check(100, LIMITS, last_message_at=last_message_at, silences=silences) == pytest.approx(at)


STALLS = replace(LIMITS, segment_stall_seconds=8)


@pytest.mark.parametrize(
    ("limits", "stalled_at", "at"),
    [
        (LIMITS, None, 115.0),
        (LIMITS, 104.0, 104.0),
        (STALLS, None, 102.0),
        (STALLS, 101.0, 101.0),
        (STALLS, 108.0, 102.0),
        (STALLS, 99.0, 100.05),
    ],
    ids=[
        "no segment",
        "a segment alone",
        "one may begin",
        "its deadline is near",
        "its deadline is far, another may begin",
        "overdue already",
    ],
)
def test_a_segments_deadline_is_met_and_its_beginning_is_not_missed(
    limits: Limits, stalled_at: float | None, at: float
) -> None:
    found = next_check(100, limits, last_message_at=100, silences=[], stalled_at=stalled_at)
    assert found == pytest.approx(at)


@given(times, limits, st.none() | seconds, times, st.none() | times, st.lists(silences, max_size=2))
def test_no_deadline_ahead_is_slept_through_with_segments_either(
    now: float,
    limits: Limits,
    stall_seconds: float | None,
    last_message_at: float,
    stalled_at: float | None,
    silences: list[Silence],
) -> None:
    limits = replace(limits, segment_stall_seconds=stall_seconds)
    at = next_check(now, limits, last_message_at=last_message_at, silences=silences, stalled_at=stalled_at)
    assert at >= now + 0.05
    assert stalled_at is None or at <= max(stalled_at, now + 0.05)
    assert stall_seconds is None or at <= now + max(stall_seconds / 4, 0.05)
