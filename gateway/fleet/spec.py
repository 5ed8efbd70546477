"""PURE. What a fleet is, and how often its members may beat.

The members wait `every` after the answer to a beat, and an entry lives `ttl` from its write. So a slow
answer, the wait, a slow next write and the loop's own time must fit into the ttl: each beat may take
(ttl - every) / 3. And one beat may fail without the member being dropped: `every` is below half the ttl.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from gateway.errors import FleetRefused
from gateway.fleet.member import unfit

OnStop = Literal["leave", "linger"]
"""How a member goes."""

REPORT_MAX_BYTES = 4096
"""What a report's encoding may take where a spec does not say."""


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """A fleet that processes can join. All of its members must agree on `name` and `ttl`."""

    name: str
    """What the fleet is called: part of the store's keys. Text without tab, newline, brace or colon."""
    ttl: timedelta
    """How long an entry lives after it was written. A member that stalls is seen as gone after this long."""
    report_max_bytes: int = REPORT_MAX_BYTES
    """What the encoding of a report may take. Every beat returns every report: keep them small."""

    def __post_init__(self) -> None:
        checked_name(self.name, "a fleet's name", colon=False)
        if self.ttl < timedelta(milliseconds=1):
            raise FleetRefused(f"a fleet's ttl should be at least a millisecond, not {self.ttl}")
        if self.report_max_bytes < 2:
            raise FleetRefused(f"report_max_bytes should be at least 2, not {self.report_max_bytes}")


def checked_name(name: object, what: str, *, colon: bool = True) -> str:
    """`name`, if it may be part of the store's keys; FleetRefused otherwise."""
    if not isinstance(name, str) or not name:
        raise FleetRefused(f"{what} should be text of at least one character, not {name!r}")
    wrong = unfit(name) or ("colon" if not colon and ":" in name else None)
    if wrong:
        raise FleetRefused(f"{what} should have no {wrong}: {name!r}")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """How often a member beats, and how it goes."""

    every: timedelta
    """From the answer of a beat to the next one; below half the spec's ttl."""
    on_stop: OnStop = "leave"
    """`leave` removes the entry at once, `linger` leaves a draining one behind."""
    linger_for: timedelta | None = None
    """How long that one lives; the spec's ttl where this is None. It shortens no other entry's life."""

    def beat_deadline(self, spec: FleetSpec) -> timedelta:
        """How long one beat may take. Raises FleetRefused where this cadence does not fit `spec`."""
        if self.on_stop not in ("leave", "linger"):
            raise FleetRefused(f"on_stop should be leave or linger, not {self.on_stop!r}")
        if self.linger_for is not None and self.linger_for < timedelta(milliseconds=1):
            raise FleetRefused(f"linger_for should be at least a millisecond, not {self.linger_for}")
        if self.every <= timedelta(0):
            raise FleetRefused(f"every should be above 0, not {self.every.total_seconds():g} s")
        if self.every * 2 >= spec.ttl:
            raise FleetRefused(
                f"every ({self.every.total_seconds():g} s) should be below half of ttl "
                f"({spec.ttl.total_seconds():g} s), so that one beat may fail and the member still be there"
            )
        return (spec.ttl - self.every) / 3
