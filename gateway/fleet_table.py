"""What `python -m gateway status` prints of the gateways' fleet, from the answer of `/status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.logs import escape

_COLUMNS = ("MEMBER", "STATE", "SESSIONS", "WAITING", "JOINED")
_MOST_SECONDS = 1e11
"""Thousands of years after the epoch."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def fleet_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines for the fleet in `report`; none where there is none. Raises LookupError, in the reader's
    words, for an answer that no gateway gives.
    """
    fleet = report.get("fleet")
    if fleet is None:
        return
    members = fleet.get("members") if isinstance(fleet, dict) else None
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise LookupError("the answer has no list of the fleet's members; is it a gateway?")
    yield ""
    yield _summary(fleet, len(members))
    rows = [_COLUMNS, *(_row(member, fleet) for member in members)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _summary(fleet: Mapping[str, Any], count: int) -> str:
    seen = f"seen {_ago(fleet.get('age_seconds'))}, hash {_cell(fleet.get('hash'))}"
    members = "1 member" if count == 1 else f"{count} members"
    said = [f"fleet {_cell(fleet.get('name'))}: {members}, {seen}", f"share {_cell(fleet.get('share'))}"]
    if fleet.get("id_shared") is True:
        said.append("a second process has this gateway's id")
    if fleet.get("failing") is not None:
        said.append(f"{_cell(fleet.get('failed_beats'))} beats failed: {_cell(fleet.get('failing'))}")
    return "; ".join(said)


def _row(member: Mapping[str, Any], fleet: Mapping[str, Any]) -> tuple[str, ...]:
    me, at, since = fleet.get("member"), _seconds(fleet.get("at")), _seconds(member.get("since"))
    return (
        _cell(member.get("id")) + (" (this one)" if me is not None and me == member.get("id") else ""),
        _cell(member.get("state")),
        _cell(member.get("load")),
        _cell(member.get("waiting")),
        _ago(at - since if at is not None and since is not None else None),
    )


def _ago(seconds: object) -> str:
    """So many seconds ago, in the largest unit of which there are two."""
    if (known := _seconds(seconds)) is None:
        return "-"
    size, unit = next((each for each in _UNITS if known >= 2 * each[0]), _UNITS[-1])
    return f"{known:.1f} s ago" if unit == "s" else f"{known / size:.0f} {unit} ago"


def _seconds(value: object) -> float | None:
    if not isinstance(value, int | float):
        return None
    if not abs(value) < _MOST_SECONDS:
        raise LookupError("the answer has a time that cannot be; is it a gateway?")
    return float(value)


def _cell(value: object) -> str:
    """A value from the network, safe for a terminal."""
    return "-" if value is None else escape(str(value))
