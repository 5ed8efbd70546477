from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from emulator.wording import NAME_PATTERN, choices_of, did_you_mean, in_words, mismatch, shown

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
Way = Literal["flip", "cut"]


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (1, int, None),
        (1, float, None),
        (float("inf"), float, None),
        (None, int | None, None),
        ("cut", Way, None),
        (["a"], list[str], None),
        ({"a": 1}, dict[str, int], None),
        (True, int, "must be a whole number, not true"),
        (1.5, int, "must be a whole number, not 1.5"),
        (True, float, "must be a number, not true"),
        ("x", float | None, 'must be a number or null, not "x"'),
        (10**400, float, f"must be a number, not {'1' + '0' * 59}..."),
        (1, bool, "must be true or false, not 1"),
        (["a"] * 100, str, "must be a text, not a list"),
        (65536, Port, "must be a whole number from 0 to 65535, not 65536"),
        (-1, Annotated[float, msgspec.Meta(ge=0)], "must be a number of 0 or more, not -1"),
        (0, Annotated[float, msgspec.Meta(gt=0)], "must be a number above 0, not 0"),
        ("a b", Name, 'must be a name of 1 to 64 letters, digits, - and _, not "a b"'),
        ("flp", Way, 'must be one of cut, flip, not "flp"; did you mean flip?'),
        (True, Literal[1, 2], "must be one of 1, 2, not true"),
        ("b", list[str], 'must be a list of texts, not "b"'),
        ([1], list[str], "must be a list of texts, not [1]"),
        (3, dict[str, int], "must be an object, not 3"),
    ],
)
def test_a_value_is_told_what_it_should_have_been(value: Any, kind: Any, told: str | None) -> None:
    assert mismatch(value, kind) == told
    if told is None:
        msgspec.convert(value, kind)
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, kind)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, "x"), (float, "x"), (Port, -1), (Annotated[float, msgspec.Meta(gt=2)], 1), (int | None, "x")],
)
def test_what_the_library_says_is_said_in_our_words(kind: Any, value: Any) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(value, kind)
    told = in_words(str(error.value), value)
    assert told.startswith("must be a")
    assert told.endswith(f", not {shown(value)}")
    assert "`" not in told


def test_what_it_says_of_something_else_stays() -> None:
    assert in_words("seconds must be 0 or more, not nan", float("nan")).startswith(
        "seconds must be 0 or more"
    )


def test_choices_come_as_they_were_declared() -> None:
    class Broken(msgspec.Struct):
        how: Way = "flip"
        many: int = 1

    assert choices_of(Broken, "how") == ("flip", "cut")
    assert choices_of(Broken, "many") == ()


def test_nobody_guesses_at_a_text_as_long_as_a_page() -> None:
    assert did_you_mean("stahl", ["stall", "abort"]) == "; did you mean stall?"
    assert did_you_mean("zzz", ["stall", "abort"]) == ""
    assert did_you_mean("stall" * 1000, ["stall" * 1000]) == ""
