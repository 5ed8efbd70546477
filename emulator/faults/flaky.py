"""PURE. What `--flaky` does to a session and to a health request, as a function of random draws.

About half of the sessions are broken, each in one way of the mix; a quarter of the others are only slow.
Health requests fail rarely and one by one, so that a gateway with usual thresholds seldom ejects the replica
and always takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.ending import Abort, CloseSession, Reset
from emulator.faults.fault import Draw, Fault, Kind, Point
from emulator.faults.health import HealthHang, HealthStatus
from emulator.faults.pace import Latency, Stall

MIX: tuple[tuple[str, float], ...] = (
    ("reset", 0.2),
    ("refuse", 0.15),
    ("abort", 0.25),
    ("close", 0.25),
    ("stall", 0.15),
)
"""The ways of breaking a session, with their shares among the broken ones."""
SLOW_SHARE = 0.25
"""Share of the unbroken sessions that have latency."""
CLOSED_SECONDS = 1.0
"""How long the port stays closed in the way `refuse`: short enough to fail one probe of a usual interval."""
LONGEST_STALL_SECONDS = 3.0
HANG_SECONDS = 3.0
"""How long a health request hangs: longer than the gateway's usual probe timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky(Fault):
    """A seeded mix: some sessions are broken in one way or another, and a health request fails now and
    then."""

    name: ClassVar[str] = "flaky"
    kind: ClassVar[Kind] = "mix"
    strikes_at: ClassVar[Point] = Point.UPGRADE
    sessions: float = 0.5
    """Share of the sessions that are broken."""
    health: float = 0.1
    """Share of the health requests that fail."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not (0 <= self.sessions <= 1 and 0 <= self.health <= 1):
            raise ValueError("sessions and health are shares from 0 to 1")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is in store for one session."""

    way: str
    """A name of MIX, or `slow`, or `healthy`."""
    faults: tuple[Fault, ...] = ()
    """Struck by this session alone."""
    refuse_seconds: float = 0.0
    """From the session's upgrade, the port is closed for this long."""


def session_plan(flaky: Flaky, draw: Draw) -> Plan:
    """The plan for one session; the same draws give the same plan."""
    if draw() >= flaky.sessions:
        if draw() < SLOW_SHARE:
            return Plan("slow", (Latency(seconds=0.02 + 0.08 * draw()),))
        return Plan("healthy")
    way = _pick(draw())
    spare = draw()
    match way:
        case "reset":
            return Plan(way, (Reset(point="upgrade"),))
        case "refuse":
            return Plan(way, (Reset(point="upgrade"),), CLOSED_SECONDS)
        case "abort":
            return Plan(way, (Abort(point="segment"),))
        case "close":
            return Plan(
                way, (CloseSession(point="segment" if spare < 0.7 else "init", code=1011, reason="flaky"),)
            )
        case _:
            return Plan(way, (Stall(seconds=1.0 + (LONGEST_STALL_SECONDS - 1.0) * spare, then="reset"),))


def health_fault(flaky: Flaky, draw: Draw) -> Fault | None:
    """The fault of one health request, None for a healthy answer."""
    if draw() >= flaky.health:
        return None
    return HealthStatus(status=503) if draw() < 0.7 else HealthHang(seconds=HANG_SECONDS)


def _pick(at: float) -> str:
    for way, share in MIX:
        if at < share:
            return way
        at -= share
    return MIX[-1][0]
