from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.replicas.outlier import OutlierPolicy, OutlierRecord, after_loss, after_progress, may_eject

POLICY = OutlierPolicy(consecutive_losses=3, base_seconds=30.0, max_seconds=100.0)


def lose(record: OutlierRecord, count: int, *, at: float = 0.0, permitted: bool = True) -> OutlierRecord:
    for _ in range(count):
        record = after_loss(POLICY, record, at=at, permitted=permitted)
    return record


def test_losses_in_a_row_eject() -> None:
    assert not lose(OutlierRecord(), 2).ejected(0.0)
    record = lose(OutlierRecord(), 3, at=10.0)
    assert record.ejected(10.0)
    assert record.ejected(39.9)
    assert not record.ejected(40.0)


def test_progress_breaks_the_row() -> None:
    record = lose(after_progress(lose(OutlierRecord(), 2)), 2)
    assert not record.ejected(0.0)
    assert lose(record, 1).ejected(0.0)


def test_progress_of_an_old_session_does_not_end_an_ejection() -> None:
    assert after_progress(lose(OutlierRecord(), 3)).ejected(1.0)


def test_losses_while_it_is_out_do_not_count() -> None:
    out = lose(OutlierRecord(), 3)
    assert lose(out, 9, at=29.0) == out
    assert not lose(out, 2, at=30.0).ejected(30.0)


def test_each_further_ejection_is_longer_up_to_the_longest() -> None:
    record, at, lengths = OutlierRecord(), 0.0, []
    for _ in range(6):
        record = lose(record, 3, at=at)
        assert record.ejected_until is not None
        lengths.append(record.ejected_until - at)
        at = record.ejected_until
    assert lengths == [30.0, 60.0, 90.0, 100.0, 100.0, 100.0]


@pytest.mark.parametrize(("back_for", "expected"), [(99.0, 60.0), (100.0, 30.0), (1e6, 30.0)])
def test_holding_out_for_the_longest_ejection_begins_again(back_for: float, expected: float) -> None:
    at = 30.0 + back_for
    record = lose(lose(OutlierRecord(), 3), 3, at=at)
    assert record.ejected_until == at + expected


def test_one_that_may_not_be_ejected_is_by_the_next_loss_once_it_may() -> None:
    record = lose(OutlierRecord(), 7, permitted=False)
    assert not record.ejected(0.0)
    assert lose(record, 1).ejected(0.0)


@pytest.mark.parametrize(
    ("usable", "most"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (10, 5), (11, 5)]
)
def test_at_most_half_of_the_usable_are_out(usable: int, most: int) -> None:
    out = 0
    while may_eject(OutlierPolicy(), usable=usable, ejected=out):
        out += 1
    assert out == most


@given(st.floats(0, 1), st.integers(0, 50), st.integers(0, 50))
def test_the_share_is_never_passed(share: float, usable: int, ejected: int) -> None:
    if may_eject(OutlierPolicy(max_ejected_share=share), usable=usable, ejected=ejected):
        assert ejected + 1 <= share * usable


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"consecutive_losses": 0}, "consecutive_losses must be 1 or more"),
        ({"base_seconds": 0.0}, "base_seconds must be more than 0"),
        ({"base_seconds": 301.0}, "max_seconds must not be below base_seconds"),
        ({"max_seconds": float("inf")}, "max_seconds"),
        ({"base_seconds": float("nan")}, "base_seconds"),
        ({"max_ejected_share": 1.5}, "max_ejected_share must be from 0 to 1"),
        ({"max_ejected_share": float("nan")}, "max_ejected_share"),
    ],
)
def test_figures_that_make_no_rule_are_a_value_error(given: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        OutlierPolicy(**given)  # type: ignore[arg-type]
