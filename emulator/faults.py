"""PURE. The faults as values: what can be wrong with a replica, how much, when and how often.

Here are those of the port, the health routes and the connection, and the catalogue of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from .fault import Fault, Point, SessionFault, SessionPoint, check_seconds
from .protocol_faults import BigState, Crash, GpuError, NoPong, NoSnapshot, Poison, Reject

NEVER_SENT = (1004, 1005, 1006, 1015)
"""Close codes that may not stand in a close frame (RFC 6455, section 7.4)."""
MAX_REASON_BYTES = 123


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Fault):
    """The port is closed: connects are refused. Open sessions go on, idle HTTP connections are closed."""

    name: ClassVar[str] = "refuse"
    strikes_at: ClassVar[Point] = Point.LISTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus(Fault):
    """Health routes answer with this status."""

    name: ClassVar[str] = "health_status"
    strikes_at: ClassVar[Point] = Point.HEALTH
    status: int = 503
    """An HTTP status, 200 to 599."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 200 <= self.status <= 599:
            raise ValueError(f"status is an HTTP status from 200 to 599, not {self.status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthHang(Fault):
    """Health routes read the request and answer nothing."""

    name: ClassVar[str] = "health_hang"
    strikes_at: ClassVar[Point] = Point.HEALTH
    seconds: float | None = None
    """After this long the answer comes; None for never."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming(Fault):
    """No worker is ready: `/health` and `/readyz` answer 200 with the status `warming`, sessions wait for a
    GPU."""

    name: ClassVar[str] = "warming"
    strikes_at: ClassVar[Point] = Point.HEALTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Fault):
    """Every message to the client comes later."""

    name: ClassVar[str] = "latency"
    strikes_at: ClassVar[Point] = Point.SEND
    seconds: float = 0.3
    """Added before each message."""
    jitter_seconds: float = 0.0
    """Up to this much more, drawn for each message."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_seconds(self.seconds)
        check_seconds(self.jitter_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(SessionFault):
    """The session goes quiet: nothing more is sent, the connection stays open and answers pings."""

    name: ClassVar[str] = "stall"
    seconds: float | None = None
    """How long; None for until the client leaves or the fault is lifted."""
    then: Literal["continue", "reset"] = "continue"
    """What follows: the session goes on, or its connection is reset."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_seconds(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(SessionFault):
    """The connection is reset in the middle of a message: a frame is begun and not finished."""

    name: ClassVar[str] = "abort"
    declared_bytes: int = 65536
    """What the frame's header promises."""
    sent_bytes: int = 1024
    """What of it is sent."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if not 0 <= self.sent_bytes < self.declared_bytes:
            raise ValueError("sent_bytes must be 0 or more, and less than declared_bytes")
        if self.point == "upgrade":
            raise ValueError("abort needs an open session; before the handshake use reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(SessionFault):
    """The connection is reset between two messages, or instead of the answer to the upgrade."""

    name: ClassVar[str] = "reset"
    point: SessionPoint = "upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession(SessionFault):
    """The replica closes the session with a code and a reason."""

    name: ClassVar[str] = "close"
    code: int = 1011
    """A code that may go on the wire: 1000 to 1014 without 1004, 1005 and 1006, or 3000 to 4999."""
    reason: str = ""
    """At most 123 bytes of UTF-8."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if self.code in NEVER_SENT or not (1000 <= self.code <= 1014 or 3000 <= self.code <= 4999):
            raise ValueError(f"code may be 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {self.code}")
        if len(self.reason.encode()) > MAX_REASON_BYTES:
            raise ValueError(f"reason may have {MAX_REASON_BYTES} bytes of UTF-8")
        if self.point == "upgrade":
            raise ValueError("close needs an open session; before the handshake use reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky(Fault):
    """A seeded mix: some sessions are broken in one way or another, and a health request fails now and
    then."""

    name: ClassVar[str] = "flaky"
    strikes_at: ClassVar[Point] = Point.UPGRADE
    sessions: float = 0.5
    """Share of the sessions that are broken."""
    health: float = 0.1
    """Share of the health requests that fail."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not (0 <= self.sessions <= 1 and 0 <= self.health <= 1):
            raise ValueError("sessions and health are shares from 0 to 1")


CATALOGUE: Mapping[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        Refuse, HealthStatus, HealthHang, Warming, Latency, Stall, Abort, Reset, CloseSession,
        Reject, GpuError, NoPong, NoSnapshot, BigState, Crash, Poison, Flaky,
    )
}  # fmt: skip
"""Every fault by its name."""


class BadFault(ValueError):
    """No such fault, or fields that it does not have; the text says what would be right."""


def fault_from(name: str, fields: Mapping[str, Any]) -> Fault:
    """The fault `name` with these fields. Raises BadFault."""
    kind = CATALOGUE.get(name)
    if kind is None:
        raise BadFault(f"there is no fault {name!r}; there are: {', '.join(CATALOGUE)}")
    known = [entry.name for entry in dataclasses.fields(kind)]
    if unknown := [key for key in fields if key not in known]:
        raise BadFault(f"{name} has no field {unknown[0]!r}; its fields: {', '.join(known)}")
    try:
        return msgspec.convert(dict(fields), kind)
    except msgspec.ValidationError as error:
        raise BadFault(f"{name}: {error}") from error


def fields_of(fault: Fault) -> dict[str, Any]:
    """The fields of `fault`, as `fault_from` takes them."""
    return dataclasses.asdict(fault)


def describe(fault: Fault) -> str:
    """Its name, and the fields that differ from their defaults."""
    changed = [
        f"{entry.name}={getattr(fault, entry.name)}"
        for entry in dataclasses.fields(fault)
        if getattr(fault, entry.name) != entry.default
    ]
    return " ".join([fault.name, *changed])
