"""Durations, counts and patterns, in every form in which they may be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from emulator.scenario.values import LONGEST_SECONDS, Count, HowMany, matching, seconds_in

COUNTS = TypeAdapter[Count](HowMany)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2s", 2.0), ("300ms", 0.3), ("1m", 60.0), ("1.5 s", 1.5), (0, 0.0), (0.25, 0.25), (3600, 3600.0)],
)
def test_a_duration_is_seconds(written: object, seconds: float) -> None:
    assert seconds_in(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", ["2", "2h", "s", "-1s", "", -1, 3601, "61m", True, None, [], {}, float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match=r"should be a duration"):
        seconds_in(written)


@given(st.text())
def test_any_text_is_a_duration_or_refused(written: str) -> None:
    try:
        seconds = seconds_in(written)
    except ValueError:
        seconds = 0.0
    assert 0 <= seconds <= LONGEST_SECONDS


@pytest.mark.parametrize(
    ("written", "allowed", "refused", "shown"),
    [
        (2, [2], [0, 1, 3], "exactly 2"),
        ("none", [0], [1], "none"),
        ("some", [1, 9], [0], "at least 1"),
        ({"at_least": 2}, [2, 9], [0, 1], "at least 2"),
        ({"at_most": 2}, [0, 2], [3], "at most 2"),
        ({"at_least": 1, "at_most": 2}, [1, 2], [0, 3], "1 to 2"),
        ({"exactly": 0}, [0], [1], "none"),
    ],
)
def test_a_count_allows_what_it_says(
    written: object, allowed: list[int], refused: list[int], shown: str
) -> None:
    count = COUNTS.validate_python(written)
    assert all(count.allows(number) for number in allowed)
    assert not any(count.allows(number) for number in refused)
    assert str(count) == shown


@pytest.mark.parametrize(
    "written",
    [-1, 1.5, "two", True, None, [], {}, {"at_least": 3, "at_most": 1}, {"exactly": 1, "at_least": 1}],
)
def test_what_is_no_count_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        COUNTS.validate_python(written)


def test_patterns_find_names_in_the_order_of_the_names() -> None:
    assert matching(["s2", "s*"], ["s1", "s2", "t"]) == ["s1", "s2"]
    assert matching(["[ab]"], ["c", "b", "a"]) == ["b", "a"]
    assert matching(["A"], ["a"]) == []
