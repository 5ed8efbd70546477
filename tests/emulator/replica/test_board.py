from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.faults import (
    Abort,
    Blackhole,
    CloseSession,
    CorruptMedia,
    Flaky,
    Flap,
    GpuError,
    HealthStatus,
    Kill,
    Latency,
    Poison,
    Refuse,
    Reject,
    Stall,
    StopReading,
)
from emulator.faults.fault import Draw, Fault, Point
from emulator.replica.board import Armed, Board, Encounter


def draws(*values: float) -> Draw:
    """These numbers, then always 0."""
    numbers: Iterator[float] = itertools.chain(values, itertools.repeat(0.0))
    return lambda: next(numbers)


def board_with(*faults: Fault, at: float = 100.0) -> Board:
    board = Board()
    for fault in faults:
        board.arm(fault, at)
    return board


@pytest.mark.parametrize(
    ("now", "live"), [(100, False), (104.9, False), (105, True), (114.9, True), (115, False), (1000, False)]
)
def test_a_fault_lives_from_after_seconds_for_so_long(now: float, live: bool) -> None:
    assert board_with(Refuse(after_seconds=5, for_seconds=10)).live(Refuse, now) is live


@pytest.mark.parametrize(("now", "expected"), [(100, 105), (105, 115), (115, None)])
def test_the_next_change_is_known(now: float, expected: float | None) -> None:
    assert board_with(Refuse(after_seconds=5, for_seconds=10)).next_change(now) == expected


def test_a_fault_of_health_counts_requests() -> None:
    board = board_with(HealthStatus(times=2))
    struck = [bool(board.strike(Point.HEALTH, 100, draws(), set())) for _ in range(4)]
    assert struck == [True, True, False, False]


def test_probability_is_a_share_of_the_opportunities() -> None:
    board = board_with(HealthStatus(probability=0.3))
    draw = draws(0.29, 0.3, 0.9, 0.0)
    assert [bool(board.strike(Point.HEALTH, 100, draw, set())) for _ in range(4)] == [
        True,
        False,
        False,
        True,
    ]


def test_arming_again_replaces_and_lifting_tells_whether_it_stood() -> None:
    board = board_with(HealthStatus(status=500), HealthStatus(status=503))
    assert [entry.fault for entry in board.armed.values()] == [HealthStatus(status=503)]
    assert board.lift("health_status")
    assert not board.lift("health_status")


def test_a_session_decides_once_whether_a_fault_is_its_own() -> None:
    board = board_with(Latency(probability=0.5))
    encounter = Encounter(board, draws(0.4, 0.9, 0.9))
    assert [len(encounter.strike(Point.SEND, 100)) for _ in range(3)] == [1, 1, 1]
    spared = Encounter(board, draws(0.6, 0.1, 0.1))
    assert [len(spared.strike(Point.SEND, 100)) for _ in range(3)] == [0, 0, 0]


def test_times_counts_sessions_for_faults_of_a_session() -> None:
    board = board_with(Latency(times=1))
    first, second = Encounter(board, draws()), Encounter(board, draws())
    assert first.strike(Point.SEND, 100)
    assert not second.strike(Point.SEND, 100)
    assert first.strike(Point.SEND, 100), "its own session keeps it"


def test_a_session_feels_a_fault_no_longer_than_it_stands() -> None:
    board = board_with(Latency(for_seconds=10))
    encounter = Encounter(board, draws())
    assert encounter.strike(Point.SEND, 105)
    assert not encounter.strike(Point.SEND, 110)
    board.arm(Latency(), 120)
    assert encounter.strike(Point.SEND, 121)
    board.lift("latency")
    assert not encounter.strike(Point.SEND, 122)


@pytest.mark.parametrize(
    ("fault", "struck_at"),
    [
        (Abort(point="segment"), {Point.SEGMENT}),
        (Abort(point="init"), {Point.INIT}),
        (Abort(point="open"), {Point.OPEN}),
        (Stall(point="upgrade"), {Point.UPGRADE}),
        (CloseSession(point="now"), {Point.OPEN, Point.SEND, Point.NOW}),
        (Latency(), {Point.SEND}),
        (GpuError(point="snapshot"), {Point.SNAPSHOT}),
        (Kill(point="segment_end"), {Point.SEGMENT_END}),
        (Reject(point="init"), {Point.INIT}),
        (Poison(), set()),
        (Refuse(), {Point.LISTEN}),
        (Flaky(), set()),
    ],
)
def test_a_fault_strikes_at_its_point(fault: Fault, struck_at: set[Point]) -> None:
    assert {point for point in Point if Encounter(board_with(fault), draws()).strike(point, 100)} == struck_at


def test_an_opportunity_is_asked_of_a_fault_once() -> None:
    board = board_with(HealthStatus(probability=0.5))
    asked: set[Armed] = set()
    draw = draws(0.9, 0.0)
    assert board.strike(Point.HEALTH, 100, draw, asked) == ()
    assert board.strike(Point.HEALTH, 100, draw, asked) == ()
    board.arm(HealthStatus(status=500), 100)
    assert [entry.fault for entry in board.strike(Point.HEALTH, 100, draw, asked)] == [
        HealthStatus(status=500)
    ]


@pytest.mark.parametrize(
    ("now", "down"), [(104, False), (105, True), (106.9, True), (107, False), (110, True)]
)
def test_a_flap_is_down_first_and_then_in_turns(now: float, down: bool) -> None:
    board = board_with(Flap(after_seconds=5, down_seconds=2, up_seconds=3, how="port"))
    assert bool(board.live_at(Point.LISTEN, now)) is down


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 10_000))
def test_a_flaps_next_turn_is_the_next_one(down: float, up: float, age: float) -> None:
    flap = Flap(down_seconds=down, up_seconds=up)
    turn = flap.next_turn(age)
    assert turn is not None
    assert age < turn <= age + max(down, up) * 1.001


def test_a_flap_changes_by_the_clock() -> None:
    board = board_with(Flap(down_seconds=2, up_seconds=3, for_seconds=6))
    moments = [100.0]
    while (change := board.next_change(moments[-1])) is not None:
        moments.append(change)
    assert moments == [100, 102, 105, 106]


def test_a_session_is_told_by_its_number() -> None:
    board = board_with(StopReading(session=2, times=1))
    assert not Encounter(board, draws(), 1).strike(Point.NOW, 100)
    assert Encounter(board, draws(), 2).strike(Point.NOW, 100)
    assert board.armed["stop_reading"].struck == 1


def test_a_fault_for_now_has_one_moment_in_a_session() -> None:
    encounter = Encounter(board_with(Stall(point="now")), draws())
    assert [bool(encounter.strike(Point.SEND, 100)) for _ in range(3)] == [True, False, False]


def test_media_are_corrupted_in_their_segment_only() -> None:
    encounter = Encounter(board_with(CorruptMedia(segment=1)), draws())
    assert [bool(encounter.strike(Point.MEDIA, 100, number)) for number in range(3)] == [False, True, False]


def test_those_behind_a_fault_are_not_asked_before_it_is_over() -> None:
    board = board_with(Stall(), Abort())
    encounter = Encounter(board, draws())
    first = encounter.next_strike(Point.SEGMENT, 100, 0, met=())
    assert first is not None
    assert (first.fault, board.armed["abort"].struck) == (Stall(), 0)
    second = encounter.next_strike(Point.SEGMENT, 100, 0, met=[first])
    assert second is not None
    assert second.fault == Abort()
    assert encounter.next_strike(Point.SEGMENT, 100, 0, met=[first, second]) is None


def test_a_lifted_replaced_or_ended_fault_stands_no_longer() -> None:
    board = board_with(Latency(for_seconds=10))
    entry = board.armed["latency"]
    assert board.stands(entry, 109)
    assert not board.stands(entry, 110)
    board.arm(Latency(for_seconds=10), 100)
    assert not board.stands(entry, 101)
    assert board.stands(board.armed["latency"], 101)
    board.lift_all()
    assert not board.stands(entry, 101)


@pytest.mark.parametrize(
    ("fault", "point"), [(Blackhole(), Point.LISTEN), (Blackhole(how="accept"), Point.CONNECT)]
)
def test_a_black_hole_is_of_the_port_or_of_a_connection(fault: Fault, point: Point) -> None:
    assert board_with(fault).live_at(point, 100) == (fault,)


def test_poison_waits_for_its_prompt_without_using_itself_up() -> None:
    board = board_with(Poison(text="bad", times=1))
    encounter = Encounter(board, draws())
    assert not encounter.strike(Point.SEGMENT_START, 100, 0, "good")
    assert encounter.strike(Point.SEGMENT_START, 100, 1, "a bad one")
    assert not Encounter(board, draws()).strike(Point.SEGMENT_START, 100, 0, "bad")


def test_a_fault_may_be_for_one_segment() -> None:
    encounter = Encounter(board_with(Abort(segment=2)), draws())
    assert [bool(encounter.strike(Point.SEGMENT, 100, number)) for number in range(4)] == [
        False,
        False,
        True,
        False,
    ]


def test_a_sessions_own_faults_stand_as_long_as_what_they_came_of() -> None:
    board = board_with(Flaky())
    own = Armed(Abort(), 100, origin=board.armed["flaky"])
    encounter = Encounter(board, draws(), own=(own,))
    assert encounter.strike(Point.SEGMENT, 100, 0) == (own,)
    board.lift("flaky")
    assert encounter.strike(Point.SEGMENT, 100, 0) == ()


@given(st.integers(1, 20), st.lists(st.floats(0, 0.99), min_size=30, max_size=30), st.floats(0, 1))
def test_a_fault_never_strikes_more_often_than_told(
    times: int, numbers: list[float], probability: float
) -> None:
    board = board_with(HealthStatus(times=times, probability=probability))
    draw = draws(*numbers)
    assert sum(len(board.strike(Point.HEALTH, 100, draw, set())) for _ in range(30)) <= times
