"""PURE. Values on the command line: what each may be, and what is said of one that may not."""

from __future__ import annotations

import argparse
import re

from emulator.replica.spec import MAX_PORT

MOST_DIGITS = 100
"""Of a whole number."""
HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name or an address, but for what is wrong with them beyond their letters."""


def positive(text: str) -> int:
    number = whole(text)
    if number is None or number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text!r}")
    return number


def port(text: str) -> int:
    number = whole(text)
    if number is None or number > MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {MAX_PORT}, not {text!r}")
    return number


def host(text: str) -> str:
    if not HOST.fullmatch(text) or text.count(":") == 1:
        raise argparse.ArgumentTypeError(
            f"must be an address or a name without a port, such as 0.0.0.0, not {text!r}"
        )
    return text


def seed(text: str) -> int:
    number = whole(text.removeprefix("-"))
    if number is None:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return -number if text.startswith("-") else number


def whole(text: str) -> int | None:
    """None for whatever is not a few digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number of 0 or more, not {text!r}")
    return number


def speed(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, or inf, not {text!r}")
    return number
