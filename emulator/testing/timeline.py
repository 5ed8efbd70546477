"""PURE. What happened when on each replica, in lines for the report of a failed test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.events import Event
from emulator.sentences import line_for

MOST_LINES = 200
LEFT_OUT = ("connection_opened", "connection_closed", "upgrade_answered")
"""Told by what comes around them."""
TOLD = ("method", "path", "query", "type", "segment_idx", "status", "code", "reason", "point")
"""Of the details. Headers are never told, so neither are tokens and cookies."""


@dataclass(slots=True)
class _Line:
    at: float
    text: str
    times: int = 1


def timeline(events: Iterable[Event], *, since: float, most: int = MOST_LINES) -> list[str]:
    """A line for each thing that happened, in order; `since` is when time began.

    What a replica does over and over is one line with a count. Above `most`, lines in the middle are left
    out.
    """
    lines: list[_Line] = []
    newest: dict[str, _Line] = {}
    for event in events:
        if event.kind in LEFT_OUT:
            continue
        text = _in_words(event)
        last = newest.get(event.replica)
        if last is not None and last.text == text:
            last.times += 1
            continue
        newest[event.replica] = _Line(event.at - since, text)
        lines.append(newest[event.replica])
    written = [_written(line) for line in lines]
    if len(written) <= most:
        return written
    first, last_ones = most // 2, most - most // 2
    between = f"        ... {len(written) - most} lines ..."
    return [*written[:first], between, *written[-last_ones:]]


def _written(line: _Line) -> str:
    return f"{line.at:+8.3f} {line.text}" + (f"  (x{line.times})" if line.times > 1 else "")


def _in_words(event: Event) -> str:
    if (sentence := line_for(event)) is not None:
        return sentence
    session = f" session {event.session}" if event.session is not None else ""
    details = [str(event.detail[key]) for key in TOLD if event.detail.get(key) not in (None, "")]
    return " ".join([f"{event.replica}{session}: {event.kind.replace('_', ' ')}", *details])
