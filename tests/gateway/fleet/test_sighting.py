"""What successive views tell beyond the newest one."""

from __future__ import annotations

import pytest

from gateway.fleet.sighting import Sighting
from gateway.fleet.view import FleetView
from tests.gateway.fleet.views import at, member, seconds, view

SETTLE = seconds(30)
OLD = [member("a", load=20), member("b", load=0), member("c", load=10)]


def seen(*views: FleetView) -> Sighting:
    """The views, one a second of the reader's clock."""
    first, *others = views
    sighting = Sighting(first, 0.0)
    for second, each in enumerate(others, 1):
        sighting = sighting.next(each, float(second))
    return sighting


@pytest.mark.parametrize(
    ("views", "settled"),
    [
        pytest.param([view(*OLD)], True, id="one old view"),
        pytest.param([view(*OLD), view(*OLD, now=1003)], True, id="nothing changed"),
        pytest.param([view(*OLD), view(*OLD[:2], now=1003)], False, id="one is gone"),
        pytest.param(
            [view(*OLD), view(*OLD[:2], now=1003), view(*OLD[:2], now=1032)], False, id="29 s later"
        ),
        pytest.param([view(*OLD), view(*OLD[:2], now=1003), view(*OLD[:2], now=1033)], True, id="30 s later"),
        pytest.param(
            [view(*OLD), view(*OLD[:2], now=1003), view(OLD[0], now=1020), view(OLD[0], now=1040)],
            False,
            id="another is gone",
        ),
        pytest.param(
            [view(*OLD), view(*OLD[:2], member("c", since=1001, load=1), now=1003)], False, id="back as new"
        ),
        pytest.param(
            [view(*OLD, member("d", "draining")), view(*OLD, now=1003)], False, id="one that drained is gone"
        ),
        pytest.param(
            [view(*OLD), view(*OLD, member("d", "starting", since=1001), now=1003)], True, id="one starts"
        ),
        pytest.param([view(*OLD), view(*OLD, member("d", since=1001), now=1003)], False, id="one joined"),
        pytest.param([view(*OLD), view(*OLD, now=990)], False, id="the store's clock went back"),
        pytest.param([view(*OLD), view(*OLD, now=990), view(*OLD, now=1020)], True, id="30 s after that"),
    ],
)
def test_a_fleet_that_misses_somebody_is_not_settled(views: list[FleetView], settled: bool) -> None:
    sighting = seen(*views)
    assert sighting.settled(SETTLE) is settled


def test_a_fleet_that_is_not_settled_moves_nothing() -> None:
    calm, missed = seen(view(*OLD)), seen(view(*OLD), view(*OLD[:2], now=1003))
    assert calm.excess("a", 0.1, SETTLE, now_seconds=0.0, fresh_seconds=5.0) == 10
    assert missed.excess("a", 0.1, SETTLE, now_seconds=1.0, fresh_seconds=5.0) == 0
    later = missed.next(view(*OLD[:2], now=1033), 2.0)
    assert later.excess("a", 0.1, SETTLE, now_seconds=2.0, fresh_seconds=5.0) == 10


def test_everybody_gone_at_once_moves_nothing() -> None:
    sighting = seen(view(*OLD), view(OLD[0], now=1003))
    assert not sighting.settled(SETTLE)
    assert sighting.unsettled_at == at(1003)


@pytest.mark.parametrize(("now", "excess"), [(0.0, 10), (5.0, 10), (5.1, 0), (3600.0, 0)])
def test_an_old_view_moves_nothing(now: float, excess: int) -> None:
    assert Sighting(view(*OLD), 0.0).excess("a", 0.1, SETTLE, now_seconds=now, fresh_seconds=5.0) == excess


def test_a_view_ages_by_its_readers_clock() -> None:
    assert Sighting(view("a"), 10.0).age_seconds(12.5) == 2.5
    assert Sighting(view("a"), 10.0).age_seconds(9.0) == 0.0
