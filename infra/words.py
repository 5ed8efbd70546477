"""PURE. Pieces of sentences, and texts from elsewhere made safe for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

_URL_PASSWORD = re.compile(r"(?<=://)[^\s/@?#]+@")


def safe(text: str, most: int = 600) -> str:
    """`text` on one line, without what moves a cursor or signs in anywhere, cut after `most` characters."""
    text = _URL_PASSWORD.sub("***@", " ".join(text.split()))
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text if len(text) <= most else f"{text[:most]}..."


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def lasting(span: timedelta) -> str:
    """`40 s`, `5 min`, `3 h 5 min`, `2 d 1 h`."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
