"""PURE. A member of a fleet: one process's entry, as all the others see it.

What a member may say:

1. Its id is text without a tab, a newline, a brace or any other control character, and not empty.
2. Its report maps text to whole numbers, floats and text. Truth values, NaN, infinity and anything nested are
   refused: every reader must read back exactly what was written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from gateway.errors import FleetRefused

ReportValue = int | float | str
Report = Mapping[str, ReportValue]

NOTHING: Report = MappingProxyType({})
"""The report of a member that has nothing to say."""


class MemberState(StrEnum):
    """Where a member is in its life."""

    STARTING = "starting"
    """It is there, and takes no work yet."""
    SERVING = "serving"
    """It takes work: the policies count it."""
    DRAINING = "draining"
    """It finishes what it has, and goes."""


@dataclass(frozen=True, slots=True)
class FleetMember:
    """One entry of a fleet, as the store had it."""

    id: str
    """Who it is: the same for as long as the entry lives."""
    state: MemberState
    since: datetime
    """When it joined, by the store's clock. Kept while its entry lives, whatever its state; newer after the
    entry had expired. Compare it with a view's `at`, never with a clock of one's own.
    """
    report: Report = field(default_factory=lambda: NOTHING, hash=False)
    """What it says of itself: read-only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "report", MappingProxyType(dict(self.report)))


def number_in(report: Report, key: str) -> int | float | None:
    """The number that `report` has under `key`, if it is 0 or more; None for text, a negative number or
    none at all.
    """
    value = report.get(key)
    if isinstance(value, str) or value is None or value < 0:
        return None
    return value


def checked_id(member_id: object) -> str:
    """`member_id`, if it may be a member's; FleetRefused otherwise."""
    if not isinstance(member_id, str) or not member_id:
        raise FleetRefused(f"a member's id should be text of at least one character, not {member_id!r}")
    if wrong := unfit(member_id):
        raise FleetRefused(f"a member's id should have no {wrong}: {member_id!r}")
    return member_id


def checked_report(report: object) -> dict[str, ReportValue]:
    """A copy of `report`, if every key and value in it may be reported; else FleetRefused, which names the
    key.
    """
    if not isinstance(report, Mapping):
        raise FleetRefused(f"a report should map text to numbers and text, not be a {type(report).__name__}")
    copied = dict(report)
    for key, value in copied.items():
        if not isinstance(key, str):
            raise FleetRefused(f"a report's keys should be text, not {key!r}")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            said = "a truth value" if isinstance(value, bool) else f"a {type(value).__name__}"
            raise FleetRefused(f"report[{key!r}] should be a whole number, a float or text, not {said}")
        if isinstance(value, float) and not math.isfinite(value):
            raise FleetRefused(f"report[{key!r}] should be a finite number, not {value}")
    return copied


def unfit(text: str) -> str | None:
    """What `text` has in it that neither an id nor a fleet's name may have; None for nothing."""
    for char in text:
        match char:
            case "\t":
                return "tab"
            case "\n":
                return "newline"
            case "{" | "}":
                return "brace"
            case _ if char < " " or char == "\x7f":
                return "control character"
            case _ if "\ud800" <= char <= "\udfff":
                return "half of a surrogate pair"
            case _:
                pass
    return None
