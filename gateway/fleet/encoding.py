"""PURE. How an entry stands in a store, and how it is read back; versions may be mixed in one fleet.

    since TAB incarnation TAB number TAB version TAB state TAB report

`since` is microseconds since the epoch and the store's to write; `incarnation` names the process behind an
id, `number` counts its beats. What follows belongs to the members; the report is one JSON object.

Rules between versions:

1. A reader ignores fields behind the report: a later version may add some.
2. A reader takes a state that it does not know for `draining`: there, and not to be given work.
3. A reader leaves out single values of a report that it does not know (a later version may have more kinds).
4. A report of a higher version is not read at all: `version` is raised when the report's meaning changes.

So every version sees the same ids since the same times, and none fails over another's entry. Whole numbers,
floats, -0.0 and text come back exactly, each as its own kind.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NoReturn

from gateway.errors import FleetRefused
from gateway.fleet.member import (
    NOTHING,
    FleetMember,
    MemberState,
    Report,
    checked_report,
)

VERSION = 1
"""What this version writes, and the highest that it reads."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    """The time so many microseconds after the epoch, exactly."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(span: timedelta) -> int:
    """The span in whole microseconds, exactly."""
    return span // timedelta(microseconds=1)


def encode_report(report: Report, max_bytes: int) -> bytes:
    """The report as JSON in UTF-8. Raises FleetRefused for what breaks a rule, size included."""
    try:
        text = json.dumps(checked_report(report), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise FleetRefused(f"a report's text should be encodable as UTF-8: {error.reason}") from error
    except ValueError as error:  # Python turns no whole number of more than some thousand digits into text
        raise FleetRefused(f"a report's numbers should be shorter: {error}") from error
    if len(encoded) > max_bytes:
        raise FleetRefused(
            f"a report should take at most report_max_bytes ({max_bytes}) when encoded, "
            f"not {len(encoded)} bytes"
        )
    return encoded


def encode_payload(state: MemberState, report: Report, max_bytes: int) -> bytes:
    """The members' part of an entry. Raises FleetRefused as `encode_report` does."""
    return b"\t".join((str(VERSION).encode(), state.encode(), encode_report(report, max_bytes)))


def decode_entry(member_id: bytes, entry: bytes) -> FleetMember | None:
    """The member that wrote `entry`; None where that is no entry of ours at all."""
    fields = entry.split(b"\t", 3)
    if len(fields) < 4 or not fields[0].isdigit():
        return None
    try:
        since = moment(int(fields[0]))
        decoded = member_id.decode()
    except (ValueError, OverflowError):
        return None
    state, report = _decode_payload(fields[3])
    return FleetMember(decoded, state, since, report)


@lru_cache(maxsize=2048)
def _decode_payload(payload: bytes) -> tuple[MemberState, Report]:
    """State and report. Most members say the same in beat after beat, so this is remembered."""
    version, state, *rest = [*payload.split(b"\t"), b""]
    try:
        known_state = MemberState(state.decode(errors="replace"))
    except ValueError:
        known_state = MemberState.DRAINING
    if not version.isdigit() or len(version) > 9 or int(version) > VERSION:
        return known_state, NOTHING
    return known_state, _decode_report(rest[0] if rest else b"")


def _decode_report(encoded: bytes) -> Report:
    try:
        found = json.loads(encoded, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return NOTHING
    if not isinstance(found, dict):
        return NOTHING
    return {key: value for key, value in found.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of a report")
