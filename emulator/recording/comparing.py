"""PURE. Whether a client says what the recording has, and where it differs."""

from __future__ import annotations

from typing import Any

from emulator.recording.format import Binary, Closed, Said, Text, Upgrade, object_in, written
from emulator.recording.masking import MASK, masked_query

LONGEST_SHOWN = 120


def difference(expected: Said, got: Said) -> str | None:
    """What the client said otherwise; None when it is the same. Masked values match any; JSON is compared as
    values, so spaces and the order of keys do not count."""
    match expected, got:
        case Text(text=wanted), Text(text=said):
            return _text_difference(wanted, said)
        case Binary(), Binary():
            return _binary_difference(expected, got)
        case Closed(), Closed():
            if expected.code == got.code:
                return None
            return f"the client closed with {got.code}, the recording has {expected.code}"
        case _:
            return f"the client {_told(got)}, the recording has that it {_told(expected)}"


def upgrade_difference(expected: Upgrade, path: str, query: str) -> str | None:
    """What the client asked for otherwise; None when it is the same place."""
    if expected.path != path:
        return f"the client asked for {path}, the recording has {expected.path}"
    if expected.query != masked_query(query):
        return f"the client's query is {masked_query(query)!r}, the recording's {expected.query!r}"
    return None


def _text_difference(wanted: str, said: str) -> str | None:
    if wanted == said:
        return None
    ours, theirs = object_in(wanted), object_in(said)
    if ours is None or theirs is None:
        return f"the client said {_short(said)}, the recording has {_short(wanted)}"
    return _value_difference(ours, theirs, "")


def _value_difference(wanted: Any, said: Any, place: str) -> str | None:
    if wanted == MASK:
        return None
    if isinstance(wanted, dict) and isinstance(said, dict):
        return _object_difference(wanted, said, place)
    if isinstance(wanted, list) and isinstance(said, list) and len(wanted) == len(said):
        found = (
            _value_difference(ours, theirs, f"{place}[{index}]")
            for index, (ours, theirs) in enumerate(zip(wanted, said, strict=True))
        )
        return next((each for each in found if each is not None), None)
    # Python takes true for 1.
    if wanted == said and isinstance(wanted, bool) == isinstance(said, bool):
        return None
    return f"at {place}: the client has {_short(written(said))}, the recording has {_short(written(wanted))}"


def _object_difference(wanted: dict[str, Any], said: dict[str, Any], place: str) -> str | None:
    for key in [*wanted, *(key for key in said if key not in wanted)]:
        where = f"{place}.{key}" if place else key
        if key not in said:
            return f"at {where}: the client has nothing, the recording has {_short(written(wanted[key]))}"
        if key not in wanted:
            return f"at {where}: the client has {_short(written(said[key]))}, the recording nothing"
        if (found := _value_difference(wanted[key], said[key], where)) is not None:
            return found
    return None


def _binary_difference(wanted: Binary, said: Binary) -> str | None:
    if wanted.size_bytes != said.size_bytes:
        return f"the client sent {said.size_bytes} bytes, the recording has {wanted.size_bytes}"
    if wanted.sha256 is not None and wanted.sha256 != said.sha256:
        return f"the client sent other {said.size_bytes} bytes than the recording has"
    return None


def _told(said: Said) -> str:
    match said:
        case Text(text=text):
            return f"said {_short(text)}"
        case Binary(size_bytes=size):
            return f"sent {size} bytes"
        case Closed(code=code):
            return f"closed with {code}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"
