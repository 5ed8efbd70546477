"""How many sessions are handed back by one view: never so many that they would come back."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.surplus import surplus
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
