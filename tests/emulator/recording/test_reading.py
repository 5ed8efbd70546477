from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.recording import reading
from emulator.recording.format import (
    MAX_MESSAGE_BYTES,
    PIECE_BYTES,
    Answer,
    Binary,
    Closed,
    Conversation,
    Request,
    Step,
    Text,
    Upgrade,
)
from emulator.recording.reading import SAYINGS, BadRecording, lines_in, read

CASES = Path(__file__).parents[1] / "protocol" / "recorded-sessions.jsonl"


def lines(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


def test_the_recordings_of_the_real_server_are_recordings() -> None:
    with CASES.open("rb") as file:
        recording = read(file)
    assert len(recording.conversations) == 6
    assert [entry.path for entry in recording.requests] == ["/health", "/readyz", "/status"]
    first = recording.conversations[0]
    assert first.steps[1] == Step("s", Text('{"type":"queue_status","position":0,"queue_depth":0}'), None, 1)
    assert [step.said for step in first.steps if isinstance(step.said, Binary)] == [
        Binary(size) for size in (28, 726, 13768, 67)
    ]
    assert recording.conversations[4].steps[-1].said == Closed(1006, "")


def test_the_example_in_the_docs_is_a_recording() -> None:
    page = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text()
    (example,) = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    recording = read(example.encode().splitlines(keepends=True))
    assert [entry.name for entry in recording.conversations] == ["by hand", "session 1"]
    shown = set(re.findall(r"`((?:c|s)(?:_\w+)?)`", page.partition("| key of a step |")[2]))
    assert shown == set(SAYINGS)


def test_sessions_that_were_recorded_side_by_side_are_told_apart() -> None:
    recording = read(
        lines(
            {"recording": 1, "of": "ws://x:1"},
            {
                "conversation": "one",
                "session": 1,
                "upgrade": {"path": "/a", "query": "x=1", "subprotocols": ["v1"]},
            },
            {"conversation": "two", "session": 2},
            {"session": 2, "at": 0.5, "c": {"n": 2}},
            {"session": 1, "answer": {"status": 101, "subprotocol": "v1", "headers": [["A", "b"]]}},
            {"session": 1, "at": 0.25, "s_close": [1000, "done"]},
            {"http": "GET /health", "status": 200, "body": {"status": "ok"}},
            {"full": "10 bytes"},
        )
    )
    assert recording.conversations == (
        Conversation(
            "one",
            (Step("s", Closed(1000, "done"), 0.25, 6),),
            Upgrade("/a", "x=1", (), ("v1",)),
            Answer(101, "v1", (("A", "b"),)),
            2,
        ),
        Conversation("two", (Step("c", Text('{"n":2}'), 0.5, 4),), None, Answer(), 3),
    )
    assert recording.requests == (Request("GET", "/health", 200, {"status": "ok"}),)


def test_the_half_line_of_an_interrupted_recording_is_left_out() -> None:
    recording = read([*lines({"conversation": "a", "session": 1}), b'{"session":1,"c":{"ty'])
    assert recording.is_cut
    assert len(recording.conversations) == 1


OPENED = {"conversation": "a", "session": 1}


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        ([], 0, 'holds no session: no line has "conversation"'),
        ([b"\n", b"  \n"], 0, "holds no session"),
        ([b"{\n"], 1, "is no JSON"),
        ([b"PNG \xff\xfe"], 1, "is no JSON"),
        ([b"[" * 100_000], 1, "is no JSON"),
        ([*lines(OPENED), b"{oops\n", *lines({"session": 1, "c": {}})], 2, "is no JSON"),
        (lines([1]), 1, "a line must be a JSON object, not a list"),
        (lines({"a": 1}), 1, 'must have "conversation", "session" or "http", and has "a"'),
        (lines({"recording": 2}), 1, "is of version 2; this program reads 1"),
        (lines({"session": 7, "c": {}}), 1, "belongs to session 7, which no line before has opened"),
        (lines(OPENED, {"session": 1}), 2, "a step must have one of c, c_text"),
        (lines(OPENED, {"session": 1, "c": {}, "s": {}}), 2, "a step must have one of"),
        (lines(OPENED, {"session": 1, "c": "x"}), 2, '"c" must be a JSON object, not a text'),
        (lines(OPENED, {"session": 1, "c": {}, "written": "odd"}), 2, '"written" must be one of compact'),
        (lines(OPENED, {"session": 1, "c_text": 5}), 2, '"c_text" must be a text, not a number'),
        (lines(OPENED, {"session": 1, "s_bytes": -1}), 2, '"s_bytes" must be a whole number of 0 or more'),
        (
            lines(OPENED, {"session": 1, "s_bytes": 2, "base64": "YQ=="}),
            2,
            "is said to have 2 bytes, and has 1",
        ),
        (lines(OPENED, {"session": 1, "s_bytes": 1, "base64": "?"}), 2, '"base64" cannot be decoded'),
        (
            lines(OPENED, {"session": 1, "s_bytes": 1, "base64": "YQ==", "sha256": "0"}),
            2,
            "is not that of its",
        ),
        (lines(OPENED, {"session": 1, "s_close": [1000]}), 2, "must be a code and a reason"),
        (
            lines(OPENED, {"session": 1, "s_close": [99, ""]}),
            2,
            "the close code must be 1000 to 1003, 1005 to 1014 or 3000 to 4999, not 99",
        ),
        (lines(OPENED, {"session": 1, "s_close": [2000, ""]}), 2, "the close code must be"),
        (
            lines(OPENED, {"session": 1, "s_close": [1000, "ä" * 62]}),
            2,
            "123 bytes of UTF-8 at most, not 124",
        ),
        (
            lines(OPENED, {"session": 1, "s_text": "\ud800"}),
            2,
            '"s_text" has \\ud800, half of a surrogate pair',
        ),
        (
            lines(OPENED, {"session": 1, "c_text": "\udfff"}),
            2,
            '"c_text" has \\udfff, half of a surrogate pair',
        ),
        (lines(OPENED, {"session": 1, "s_close": [1000, "\ud800"]}), 2, "the reason has \\ud800, half"),
        (lines({"conversation": "\ud800"}), 1, '"conversation" has \\ud800, half of a surrogate pair'),
        (lines({"http": "GET /", "status": 200, "body": "\ud800"}), 1, '"body" has \\ud800, half'),
        (
            lines(OPENED, {"session": 1, "s": {"a": "\ud800"}}),
            2,
            'with "written": "compact-ascii" it is said by an escape',
        ),
        (
            lines(OPENED, {"session": 1, "s_bytes": MAX_MESSAGE_BYTES + 1}),
            2,
            "has a message of 268435457 bytes; one can have 268435456 at most",
        ),
        (lines(OPENED, {"session": 1, "s_bytes": 10**100}), 2, "has a message of 1000000000000000000"),
        ([b'{"conversation": "a", "conversation": "b"}\n'], 1, 'has the key "conversation" twice'),
        ([*lines(OPENED), b'{"session":1,"s":{"a":{"type":1,"b":2,"type":1}}}\n'], 2, 'the key "type" twice'),
        (
            lines({"conversation": "a", "answer": {"status": 199}}),
            1,
            "101, or an HTTP status from 200 to 599",
        ),
        (
            lines({"conversation": "a", "answer": {"status": 401, "headers": [["A b", "c"]]}}),
            1,
            "has a header 'A b', which is no name of one",
        ),
        (
            lines({"conversation": "a", "answer": {"status": 401, "headers": [["A", "b\r\nC: d"]]}}),
            1,
            "has the header A with characters that no header can have",
        ),
        (lines(OPENED, {"session": 1, "c": {}, "at": -1}), 2, '"at" must be seconds'),
        (lines({"conversation": "a", "steps": {}}), 1, '"steps" must be a list, not an object'),
        (lines({"conversation": 1}), 1, '"conversation" must be a text, not a number'),
        (lines({"http": "health", "status": 200}), 1, '"http" must be a method and a path'),
        (lines({"http": "GET /", "status": 9}), 1, '"status" must be an HTTP status from 200 to 599, not 9'),
        (
            lines({"conversation": "a", "upgrade": {"headers": [["x"]]}}),
            1,
            "a header must be a name and a value",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(content: list[bytes], line: int, text: str) -> None:
    with pytest.raises(BadRecording) as caught:
        read(content)
    assert caught.value.line == line
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"line {line}: " if line else "holds")


def test_half_of_a_surrogate_pair_can_be_said_where_it_is_escaped() -> None:
    recording = read(lines(OPENED, {"session": 1, "s": {"a": "\ud800"}, "written": "compact-ascii"}))
    assert recording.conversations[0].steps[0].said == Text('{"a":"\\ud800"}')


def test_the_largest_message_takes_no_memory_until_it_is_sent() -> None:
    recording = read(lines(OPENED, {"session": 1, "s_bytes": MAX_MESSAGE_BYTES}))
    (said,) = (step.said for step in recording.conversations[0].steps)
    assert isinstance(said, Binary)
    assert len(next(said.pieces())) == PIECE_BYTES


class Endless:
    """A file without an end and without a line feed, which notes how much is asked of it at a time."""

    asked = 0

    def readline(self, limit: int, /) -> bytes:
        self.asked = max(self.asked, limit)
        return b"0" * limit


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(BadRecording, match=r"^line 1: is beyond 0 MiB"):
        read(lines_in(file := Endless(), 1000))
    assert file.asked == 1001
    whole = io.BytesIO(b"".join(lines(OPENED, {"session": 1, "c": {}})))
    with pytest.raises(BadRecording, match=r"^line 2: is beyond"):
        read(lines_in(whole, 50))
    whole.seek(0)
    assert len(read(lines_in(whole, len(whole.getvalue()))).conversations) == 1


def test_steps_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINES", 3)
    steps: list[dict[str, Any]] = [{"c": {}}] * 3
    assert len(read(lines({"conversation": "a", "steps": steps})).conversations[0].steps) == 3
    with pytest.raises(BadRecording, match="line 2: is beyond 3 steps"):
        read(lines({"conversation": "a", "session": 1, "steps": steps}, {"session": 1, "c": {}}))


def test_values_too_deep_to_be_written_again_are_refused() -> None:
    def deep(depth: int) -> bytes:
        return b'{"conversation":"a","steps":[{"c":{"x":' + b"[" * depth + b"]" * depth + b"}}]}\n"

    assert len(read([deep(100)]).conversations) == 1
    for depth in range(800, 1010, 3):
        with contextlib.suppress(BadRecording):
            read([deep(depth)])


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_file_is_a_recording_or_a_clear_problem(content: list[bytes]) -> None:
    with pytest.raises(BadRecording, match=r"^(line \d+: .|holds)"):
        read(content)
