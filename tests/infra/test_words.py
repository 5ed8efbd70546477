"""Pieces of sentences."""

from __future__ import annotations

from datetime import timedelta

import pytest

from infra.words import counted, lasting, listed, safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\n  lines", "two lines"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("at https://me:pw@host/x failed", "at https://***@host/x failed"),
        ("x" * 700, "x" * 600 + "..."),
    ],
)
def test_texts_from_elsewhere_are_safe_to_show(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (11_100, "3 h 5 min"),
        (176_400, "2 d 1 h"),
    ],
)
def test_how_long(seconds: int, told: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == told


def test_lists_and_counts() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert [counted(1, "task"), counted(2, "task"), counted(0, "task")] == ["1 task", "2 tasks", "0 tasks"]
