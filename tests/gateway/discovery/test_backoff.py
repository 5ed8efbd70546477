from __future__ import annotations

import pytest

from gateway.discovery.backoff import Backoff


@pytest.mark.parametrize(
    ("refusals", "draw", "seconds"),
    [
        (1, 0.0, 5),
        (1, 1.0, 2.5),
        (2, 0.0, 10),
        (3, 0.5, 15),
        (5, 0.0, 60),
        (10_000, 0.0, 60),
        (10_000, 1.0, 30),
    ],
)
def test_waits_double_up_to_a_bound_and_are_cut_at_random(refusals: int, draw: float, seconds: float) -> None:
    assert Backoff(5, 60).seconds(refusals, draw) == seconds
