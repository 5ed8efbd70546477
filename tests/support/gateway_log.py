"""What a gateway has logged, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tests.support.processes import RunningProcess


@dataclass(frozen=True, slots=True)
class Line:
    """One event."""

    at: float
    """Seconds since the epoch."""
    event: str
    text: str
    """The whole line, with a space at its end, so that each field in it stands between spaces."""


def log_of(gateway: RunningProcess, event: str | None = None, *marks: str) -> list[Line]:
    """Its lines so far: all of them, or those of an event that have every mark."""
    found = []
    for text in gateway.output().splitlines():
        head, *rest = text.split(" ")
        if len(rest) > 1 and head.endswith("Z"):
            at = datetime.strptime(head, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
            found.append(Line(at, rest[1], f"{text} "))
    return [
        line for line in found if event in (None, line.event) and all(mark in line.text for mark in marks)
    ]
