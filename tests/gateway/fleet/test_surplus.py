"""How many sessions are handed back by one view: never so many that they would come back."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.surplus import BackOff, Moment, surplus
from gateway.fleet.view import FleetView
from tests.gateway.fleet.views import member, seconds, view


def of(*loads: float) -> FleetView:
    """The first of them is `m0`."""
    return view(*(member(f"m{number}", load=load) for number, load in enumerate(loads)))


@pytest.mark.parametrize(
    ("loads", "load", "on_their_way", "tolerance", "expected"),
    [
        ((8, 0), 8, 0, 0.2, 4),
        ((3, 2), 3, 0, 0.0, 0),
        ((4, 2), 4, 0, 0.0, 1),
        ((4, 3), 4, 0, 0.0, 0),
        ((6, 4), 6, 0, 0.2, 0),
        ((7, 4), 7, 0, 0.2, 1),
        ((100, 0, 0), 100, 0, 0.2, 66),
        # Some have gone since it reported, and have arrived nowhere yet.
        ((8, 0), 4, 4, 0.2, 0),
        ((8, 0), 6, 2, 0.2, 2),
        # They have arrived, but the newest report of there does not know.
        ((4, 0), 4, 4, 0.2, 0),
        # They came back.
        ((8, 0), 8, 4, 0.2, 2),
        # More came since it reported: what it reported counts.
        ((8, 0), 11, 0, 0.2, 4),
        ((0, 8), 0, 0, 0.2, 0),
        ((8,), 8, 0, 0.0, 0),
        ((8, 0), 8, 0, inf, 0),
    ],
)
def test_the_surplus(
    loads: tuple[float, ...], load: int, on_their_way: int, tolerance: float, expected: int
) -> None:
    assert surplus(of(*loads), "m0", tolerance, load=load, on_their_way=on_their_way) == expected


def test_who_is_not_serving_or_reports_no_load_has_none() -> None:
    seen = view(member("a", "draining", load=9), member("b"), member("c", load=0), member("d", load=0))
    for name in ("a", "b", "nobody"):
        assert surplus(seen, name, 0.0, load=9, on_their_way=0) == 0


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(0, 20),
)
def test_nobody_goes_below_the_mean_and_no_more_go_than_excess_says(
    loads: list[int], tolerance: float, on_their_way: int
) -> None:
    seen = of(*loads)
    count = surplus(seen, "m0", tolerance, load=loads[0], on_their_way=on_their_way)
    assert 0 <= count <= seen.excess("m0", tolerance, seconds(0))
    assert count == 0 or loads[0] - count >= (sum(loads) + on_their_way) / len(loads)


def moment(at_seconds: float, *loads: float, on_their_way: int = 0) -> Moment:
    """`m0` has what it has reported."""
    return Moment(at_seconds, of(*loads), int(loads[0]), on_their_way)


BEGUN = moment(100, 4, 0)
IN_VAIN = BackOff(BEGUN, 1)


@pytest.mark.parametrize(
    ("known", "now", "expected"),
    [
        # Nothing has gone yet.
        (BackOff(), moment(500, 4, 0), BackOff()),
        # It has not settled.
        (BackOff(BEGUN, 0, False), moment(129, 4, 0), BackOff(BEGUN, 0, False)),
        # They came back, or are on their way and may.
        (BackOff(BEGUN, 0, False), moment(130, 4, 0), IN_VAIN),
        (BackOff(BEGUN, 0, False), moment(130, 3, 0, on_their_way=1), IN_VAIN),
        (BackOff(BEGUN, 0, False), moment(130, 5, 0), IN_VAIN),
        (BackOff(BEGUN, 4, False), moment(130, 4, 0), BackOff(BEGUN, 5)),
        (BackOff(BEGUN, 5, False), moment(130, 4, 0), BackOff(BEGUN, 5)),
        # One of them did not.
        (BackOff(BEGUN, 0, False), moment(130, 3, 1), BackOff()),
        (BackOff(BEGUN, 3, False), moment(130, 3, 1), BackOff()),
        # The first of a step that followed another one count from where those of that had not arrived.
        (BackOff(moment(100, 4, 0, on_their_way=2), 0, False), moment(130, 5, 1), BackOff()),
        # It is counted once.
        (IN_VAIN, moment(150, 4, 0), IN_VAIN),
        (IN_VAIN, moment(150, 3, 1), IN_VAIN),
        # Another fleet: a member more, or another mean.
        (IN_VAIN, moment(150, 4, 0, 0), BackOff()),
        (IN_VAIN, moment(150, 6, 0), BackOff()),
        (IN_VAIN, moment(150, 5, 0), IN_VAIN),
        (IN_VAIN, moment(150, 2, 0), BackOff()),
        (IN_VAIN, moment(150, 2, 0, on_their_way=2), IN_VAIN),
        (BackOff(moment(100, 40, 0), 1), moment(150, 48, 0), BackOff(moment(100, 40, 0), 1)),
        (BackOff(moment(100, 40, 0), 1), moment(150, 50, 0), BackOff()),
        # A step that was begun in the fleet of before says nothing.
        (BackOff(BEGUN, 0, False), moment(130, 4, 0, 0), BackOff()),
    ],
)
def test_what_a_step_has_taught(known: BackOff, now: Moment, expected: BackOff) -> None:
    assert known.next(now, 30) == expected


def test_members_that_report_no_load_make_no_mean() -> None:
    mute = Moment(150, view(member("m0"), member("m1")), 4, 0)
    assert BackOff(BEGUN, 1).next(mute, 30) == BackOff()
    assert BackOff(mute, 1).next(mute, 30) == BackOff(mute, 1)


@pytest.mark.parametrize(
    ("known", "until"),
    [
        (BackOff(), 0),
        (BackOff(BEGUN, 0, False), 0),
        (BackOff(BEGUN, 1), 160),
        (BackOff(BEGUN, 2), 220),
        (BackOff(BEGUN, 5), 1060),
        # The step after the wait is on its way.
        (BackOff(BEGUN, 5, False), 0),
    ],
)
def test_the_wait_doubles_from_step_to_step(known: BackOff, until: float) -> None:
    assert not known.waits(max(until, 100), 30)
    if until:
        assert known.waits(until - 0.1, 30)


def test_a_step_begins_with_its_first_session() -> None:
    begun = BackOff().stepped(BEGUN)
    assert begun == BackOff(BEGUN, 0, judged=False)
    assert begun.stepped(moment(110, 3, 0)) == begun
    again = moment(160, 4, 0)
    assert IN_VAIN.stepped(again) == BackOff(again, 1, judged=False)
