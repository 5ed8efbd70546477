"""What is written about a step is read as the same step."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.recording.format import (
    PIECE_BYTES,
    STYLES,
    Binary,
    Closed,
    Said,
    Side,
    Step,
    Text,
    line_of,
    step_fields,
    written,
)
from emulator.recording.reading import ON_THE_WIRE, read

SIDES: st.SearchStrategy[Side] = st.sampled_from(["c", "s"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
OBJECTS = st.dictionaries(st.text(), VALUES).filter(lambda value: "***" not in json.dumps(value))
HARMLESS = st.text(alphabet="abcxyz {}[]:,\"'\\\n\té漢\u2028", max_size=40)
SAYINGS: st.SearchStrategy[Said] = st.one_of(
    HARMLESS.map(Text),
    st.binary(max_size=64).map(Binary.of),
    st.builds(
        Closed,
        st.sampled_from([*ON_THE_WIRE, 1005, 1006]),
        st.text(max_size=20).filter(lambda text: text.isprintable()),
    ),
)


def read_back(step: Step, *, media: bool = True) -> Step:
    fields = step_fields(step, media=media)
    lines = [line_of({"conversation": "x", "session": 1}), line_of({"session": 1, **fields})]
    return read(lines).conversations[0].steps[0]


@given(SIDES, SAYINGS, st.none() | st.integers(0, 10**6))
def test_a_step_is_read_as_it_was_written(side: Side, said: Said, at: int | None) -> None:
    step = Step(side, said, at, line=2)
    assert read_back(step) == step


@given(SIDES, st.sampled_from(STYLES), OBJECTS)
def test_a_json_message_comes_back_to_the_letter_whoever_wrote_it(
    side: Side, style: str, value: object
) -> None:
    text = written(value, style)
    step = Step(side, Text(text), line=2)
    fields = step_fields(step)
    if side in fields and fields[side] == value:
        assert read_back(step) == step


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1.50}',
        '{"a":1,"a":2}',
        '{"a": 1,"b":2}',
        '{"a":NaN}',
        "[1]",
        "not json",
        '{"a":"\\ud800"}',
        '"x"',
        "",
    ],
)
def test_a_text_that_json_would_write_otherwise_is_kept_to_the_letter(text: str) -> None:
    assert read_back(Step("c", Text(text))).said == Text(text)


def test_a_message_is_shown_as_an_object_without_its_secrets() -> None:
    fields = step_fields(Step("c", Text('{"type":"a","token":"b"}'), 0.5))
    assert fields == {"at": 0.5, "c": {"type": "a", "token": "***"}}


def test_an_object_with_secrets_is_masked_in_any_spelling() -> None:
    fields = step_fields(Step("c", Text('{ "token" : "abc", "n": 1.50 }')))
    assert fields == {"c": {"token": "***", "n": 1.5}}


def test_media_may_be_left_out_and_has_a_stand_in_then() -> None:
    step = Step("s", Binary.of(b"abc"), line=2)
    bare = read_back(step, media=False).said
    assert isinstance(bare, Binary)
    assert (bare.data, bare.size_bytes) == (None, 3)
    (piece,) = bare.pieces()
    assert len(piece) == 3
    assert list(bare.pieces()) == [piece]
    assert list(Binary.of(b"abc").pieces()) == [b"abc"]
    assert list(Binary(0).pieces()) == [b""]


def test_what_stands_in_for_many_bytes_comes_in_pieces() -> None:
    sizes = [len(piece) for piece in Binary(2 * PIECE_BYTES + 5, "abc").pieces()]
    assert sizes == [PIECE_BYTES, PIECE_BYTES, 5]
