from __future__ import annotations

import pytest

from emulator.recording.comparing import difference, upgrade_difference
from emulator.recording.format import Binary, Closed, Said, Text, Upgrade


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (Text('{"a":1,"b":2}'), Text('{ "b": 2, "a": 1 }')),
        (Text('{"token":"***"}'), Text('{"token":"secret"}')),
        (Text("plain"), Text("plain")),
        (Binary.of(b"abc"), Binary.of(b"abc")),
        (Binary(3), Binary.of(b"abc")),
        (Closed(1000, "done"), Closed(1000, "")),
    ],
)
def test_the_same_is_the_same(expected: Said, got: Said) -> None:
    assert difference(expected, got) is None


@pytest.mark.parametrize(
    ("expected", "got", "told"),
    [
        (
            Text('{"prompt":"a"}'),
            Text('{"prompt":"b"}'),
            'at prompt: the client has "b", the recording has "a"',
        ),
        (
            Text('{"a":{"b":[1,2]}}'),
            Text('{"a":{"b":[1,3]}}'),
            "at a.b[1]: the client has 3, the recording has 2",
        ),
        (Text('{"a":1}'), Text("{}"), "at a: the client has nothing, the recording has 1"),
        (Text("{}"), Text('{"a":1}'), "at a: the client has 1, the recording nothing"),
        (Text('{"a":1}'), Text('{"a":true}'), "at a: the client has true, the recording has 1"),
        (Text('{"a":[1]}'), Text('{"a":[1,2]}'), "at a: the client has [1,2], the recording has [1]"),
        (Text('{"a":1}'), Text("x"), 'the client said x, the recording has {"a":1}'),
        (Text("x"), Binary.of(b"ab"), "the client sent 2 bytes, the recording has that it said x"),
        (Text("x"), Closed(1001), "the client closed with 1001, the recording has that it said x"),
        (Binary(3), Binary.of(b"ab"), "the client sent 2 bytes, the recording has 3"),
        (Binary.of(b"ab"), Binary.of(b"ac"), "the client sent other 2 bytes than the recording has"),
        (Closed(1000), Closed(1006), "the client closed with 1006, the recording has 1000"),
    ],
)
def test_a_difference_is_told_where_it_is(expected: Said, got: Said, told: str) -> None:
    assert difference(expected, got) == told


def test_a_long_text_is_cut() -> None:
    told = difference(Text("x"), Text("y" * 5000))
    assert told is not None
    assert len(told) < 200
    assert "(5000 characters)" in told


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("/a", "x=1&token=new", None),
        ("/b", "x=1&token=new", "the client asked for /b, the recording has /a"),
        ("/a", "x=2&token=new", "the client's query is 'x=2&token=***', the recording's 'x=1&token=***'"),
    ],
)
def test_a_client_that_asks_for_another_place_differs(path: str, query: str, told: str | None) -> None:
    assert upgrade_difference(Upgrade("/a", "x=1&token=***"), path, query) == told
