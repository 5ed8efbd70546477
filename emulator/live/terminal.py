"""Whether there is a terminal for the live view. Imports nothing that draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO


def is_wanted(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether `stream` is a terminal that can move its cursor."""
    return stream.isatty() and environment.get("TERM", "") not in ("", "dumb", "unknown")
