from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.media import font


@pytest.mark.parametrize("letter", sorted(set(string.printable) - set(string.whitespace)))
def test_every_printable_letter_is_there_and_fits_its_place(letter: str) -> None:
    rows = font.glyph(letter)
    assert [len(row) for row in rows] == [font.WIDTH] * font.HEIGHT
    assert set("".join(rows)) == {"#", "."}
    assert all(row.endswith(".") for row in rows), "there is a gap to the next letter"


def test_no_two_letters_look_alike() -> None:
    letters = set(string.printable) - set(string.whitespace)
    assert len({font.glyph(letter) for letter in letters}) == len(letters)


def test_what_has_no_letter_is_a_box() -> None:
    assert font.glyph("山") == font.glyph("\x00") == font.glyph("\x7f") != font.glyph(" ")


def test_accents_are_taken_off() -> None:
    assert font.plain("caf\u00e9\n na\u00efve") == "cafe naive"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("short", ["short"]),
        ("two words more", ["two words", "more"]),
        ("unbreakablelongword", ["unbreakabl", "elongword"]),
        ("one two three four five six", ["one two", "three f..."]),
    ],
)
def test_a_text_is_wrapped_between_words(text: str, lines: list[str]) -> None:
    assert font.wrapped(text, 10, 2) == lines


@given(st.text(max_size=80), st.integers(4, 20), st.integers(1, 3))
def test_a_wrapped_text_fits(text: str, columns: int, lines: int) -> None:
    found = font.wrapped(text, columns, lines)
    assert len(found) <= lines
    assert all(len(line) <= columns for line in found)
