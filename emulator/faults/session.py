"""PURE. The faults of a session's connection: late, quiet, cut or closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Fault, Point, SessionFault, SessionPoint, check_seconds

NEVER_SENT = (1004, 1005, 1006, 1015)
"""Close codes that may not stand in a close frame (RFC 6455, section 7.4)."""
MAX_REASON_BYTES = 123


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
