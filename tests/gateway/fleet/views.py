"""Views in a line: who is there, since when, and with what to say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.fleet.member import FleetMember, MemberState, ReportValue
from gateway.fleet.view import FleetView

START = datetime(2030, 1, 1, tzinfo=UTC)
"""When the members of `member` joined, unless told otherwise."""


def at(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def member(name: str, /, state: str = "serving", since: float = 0.0, **report: ReportValue) -> FleetMember:
    return FleetMember(name, MemberState(state), at(since), report)


def view(*members: FleetMember | str, now: float = 1000.0) -> FleetView:
    """The members at `now`; a bare name is a serving one."""
    return FleetView(at(now), tuple(member(each) if isinstance(each, str) else each for each in members))
