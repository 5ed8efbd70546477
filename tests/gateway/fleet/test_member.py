from __future__ import annotations

import math
from enum import IntEnum

import pytest

from gateway.errors import FleetRefused
from gateway.fleet.member import checked_id, checked_report, number_in


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize("member_id", ["a", "host:17:c0ffee", "größe", "a b", "10.0.0.1", "\N{WHALE}"])
def test_an_id_is_any_text_on_one_line(member_id: str) -> None:
    assert checked_id(member_id) == member_id


@pytest.mark.parametrize(
    ("member_id", "said"),
    [
        ("a\tb", "no tab"),
        ("a\n", "no newline"),
        ("{a", "no brace"),
        ("a}", "no brace"),
        ("a\rb", "no control character"),
        ("a\x00b", "no control character"),
        ("a\x7f", "no control character"),
        ("\ud800", "half of a surrogate pair"),
        ("", "at least one character"),
        (None, "text of at least one character, not None"),
        (7, "text of at least one character, not 7"),
    ],
)
def test_another_id_is_refused_in_words(member_id: object, said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        checked_id(member_id)


@pytest.mark.parametrize(
    "report", [{}, {"load": 3}, {"a": -1, "b": 0.5, "c": "text", "": ""}, {"level": Level.HIGH}]
)
def test_a_report_has_numbers_and_text(report: dict[str, object]) -> None:
    assert checked_report(report) == report


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"a": True}, r"report\['a'\] should be .* not a truth value"),
        ({"a": math.nan}, "finite number, not nan"),
        ({"a": math.inf}, "finite number, not inf"),
        ({"a": -math.inf}, "finite number, not -inf"),
        ({"a": {"b": 1}}, "not a dict"),
        ({"a": [1]}, "not a list"),
        ({"a": None}, "not a NoneType"),
        ({"a": b"x"}, "not a bytes"),
        ({1: "a"}, "keys should be text, not 1"),
        ([("a", 1)], "not be a list"),
    ],
)
def test_anything_else_is_refused_with_its_key(report: object, said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        checked_report(report)


@pytest.mark.parametrize(
    ("value", "number"), [(0, 0), (3, 3), (2.5, 2.5), (-1, None), (-0.5, None), ("3", None), (None, None)]
)
def test_a_count_is_a_number_of_0_or_more(value: int | float | str | None, number: float | None) -> None:
    report = {} if value is None else {"load": value}
    assert number_in(report, "load") == number
