"""What may go into a close frame, and how large a message is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.session.events import MAX_REASON_BYTES, Message, wire_code, wire_reason

LEGAL = {*range(1000, 1015), *range(3000, 5000)} - {1004, 1005, 1006}
"""RFC 6455, section 7.4, with 1012 to 1014 as registered since."""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (1000, 1000), (1001, 1001), (1003, 1003), (1009, 1009), (1011, 1011), (1012, 1012), (1014, 1014),
        (3000, 3000), (4001, 4001), (4999, 4999),
        (1005, 1000),
        (None, 1011), (1004, 1011), (1006, 1011), (1015, 1011), (0, 1011), (999, 1011), (1016, 1011),
        (2999, 1011), (5000, 1011), (65535, 1011), (-1, 1011),
    ],
)  # fmt: skip
def test_a_code_that_may_not_be_sent_is_replaced(code: int | None, expected: int) -> None:
    assert wire_code(code) == expected


@given(st.none() | st.integers(-10, 70_000))
def test_whatever_comes_in_a_legal_code_comes_out(code: int | None) -> None:
    assert wire_code(code) in LEGAL
    assert wire_code(wire_code(code)) == wire_code(code)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (None, ""),
        ("", ""),
        ("bye", "bye"),
        ("x" * 123, "x" * 123),
        ("x" * 124, "x" * 123),
        ("x" * 122 + "é", "x" * 122),
        ("x" * 121 + "é", "x" * 121 + "é"),
        ("x" * 120 + "\N{GRINNING FACE}", "x" * 120),
        ("\N{GRINNING FACE}" * 31, "\N{GRINNING FACE}" * 30),
    ],
)
def test_a_reason_is_cut_between_characters(reason: str | None, expected: str) -> None:
    assert wire_reason(reason) == expected


@given(st.text(max_size=200))
def test_a_cut_reason_is_a_beginning_and_fits(reason: str) -> None:
    cut = wire_reason(reason)
    assert reason.startswith(cut)
    assert len(cut.encode()) <= MAX_REASON_BYTES
    if cut != reason:
        assert len(reason[: len(cut) + 1].encode()) > MAX_REASON_BYTES


@given(st.text() | st.binary())
def test_a_message_has_the_size_of_its_payload(data: str | bytes) -> None:
    assert Message(data).size_bytes == len(data if isinstance(data, bytes) else data.encode())
