"""YAML into plain values with their places, and what is wrong with it as YAML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.scenario.text import MOST_NODES, Place, read_text


def test_every_value_has_its_place() -> None:
    read = read_text("a:\n  - {b: 1}\n  - c\n")
    assert read.tree == {"a": [{"b": 1}, "c"]}
    assert read.keys["a", 0, "b"] == Place(2, 6)
    assert read.values["a", 0, "b"] == Place(2, 9)
    assert read.values["a", 1] == Place(3, 5)
    assert read.faults == []


def test_the_place_of_what_is_missing_is_that_of_what_holds_it() -> None:
    read = read_text("a:\n  b: {c: 1}\n")
    assert read.place_of(("a", "b", "x")) == Place(2, 6)
    assert read.place_of(("a", "b", "x"), key=True) == Place(2, 3)
    assert read.place_of(("z",)) == Place(1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("on", "on"),
        ("no", "no"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("7", 7),
        ("-7", -7),
        ("0x10", 16),
        ("0o17", 15),
        ("017", 17),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        ("null", None),
        ("~", None),
        ("", None),
        ("'7'", "7"),
        ("2s", "2s"),
        ("!!str 7", "7"),
    ],
)
def test_scalars_are_read_as_json_and_yaml_1_2_do(text: str, value: object) -> None:
    read = read_text(f"a: {text}")
    assert read.tree == {"a": value}
    assert read.faults == []


def test_keys_are_text() -> None:
    assert read_text("{1000: a, true: b, null: c}").tree == {"1000": "a", "true": "b", "null": "c"}


def test_an_alias_is_its_anchor_again() -> None:
    read = read_text("a: &x {b: 1}\nc: *x\n")
    assert read.tree == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", Place(3, 1), "already given on line 1"),
        ("a:\n\t- b\n", Place(2, 1), "has a tab"),
        ("a: b: c\n", Place(1, 5), "colon"),
        ("a: [1\n", Place(2, 1), "is not YAML"),
        ("a: 1\n---\nb: 2\n", Place(2, 1), "a second document"),
        ("? [1]\n: 2\n", Place(1, 3), "keys are text"),
        ("a: !!python/object:os.system x\n", Place(1, 4), "has the tag python/object:os.system"),
        ("a: !thing {b: 1}\n", Place(1, 4), "has the tag !thing"),
        ("a: !!int x\n", Place(1, 4), "should be a number"),
        (f"a: {'9' * 5000}\n", Place(1, 4), "digits"),
        ("a: .inf\n", Place(1, 4), "should be a finite number, not .inf"),
        ("a: [1, .NaN]\n", Place(1, 8), "should be a finite number, not .NaN"),
        ("a: 1e999\n", Place(1, 4), "should be a finite number"),
        ('a: ["\\udc00"]\n', Place(1, 5), "should be text that UTF-8 can carry"),
        ('"\\ud800": 1\n', Place(1, 1), "half of a character in its name"),
        ("a: &x [*x]\n", Place(1, 4), "refers to itself"),
        ("a: *x\n", Place(1, 4), "undefined alias"),
        ("a: \x07\n", Place(1, 4), "U+0007"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: Place, message: str) -> None:
    fault, *_ = read_text(text).faults
    assert message in fault.message
    assert fault.place == place


def test_what_is_nested_too_deeply_is_told_where() -> None:
    (fault,) = read_text("a:\n  " + "[" * 5000).faults
    assert fault.message == "is nested too deeply"
    assert fault.place is not None
    assert fault.place.line == 2


def test_aliases_of_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    read = read_text("\n".join(lines))
    assert not read.is_readable
    assert f"more than {MOST_NODES} values" in read.faults[0].message


def test_nesting_without_end_is_refused() -> None:
    read = read_text("[" * 20_000)
    assert not read.is_readable
    assert read.faults[0].message == "is nested too deeply"


@given(st.text(alphabet=st.sampled_from(list("ab:- \n[]{}&*!'\"#|>?%@\t0.1~,")), max_size=60))
def test_any_text_is_read_or_told_of(text: str) -> None:
    read = read_text(text)
    assert read.is_readable or read.faults
