"""PURE. The faults of a session's end: cut, reset, closed, or not closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.fault import Point, PointFault, SessionFault, SessionPoint

NEVER_SENT = (1004, 1005, 1006, 1015)
"""Close codes that may not stand in a close frame (RFC 6455, section 7.4)."""
MAX_REASON_BYTES = 123


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(PointFault):
    """The connection is reset in the middle of a message: a frame is begun and not finished."""

    name: ClassVar[str] = "abort"
    declared_bytes: int = 65536
    """What the frame's header promises."""
    sent_bytes: int = 1024
    """What of it is sent."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        if not 0 <= self.sent_bytes < self.declared_bytes:
            raise ValueError("sent_bytes must be 0 or more, and less than declared_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(PointFault):
    """The connection is reset between two messages, or instead of the answer to the upgrade."""

    name: ClassVar[str] = "reset"
    needs_session: ClassVar[bool] = False
    point: SessionPoint = "upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession(PointFault):
    """The replica closes the session with a code and a reason."""

    name: ClassVar[str] = "close"
    code: int = 1011
    """A code that may go on the wire: 1000 to 1014 without 1004, 1005 and 1006, or 3000 to 4999."""
    reason: str = ""
    """At most 123 bytes of UTF-8."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        if self.code in NEVER_SENT or not (1000 <= self.code <= 1014 or 3000 <= self.code <= 4999):
            raise ValueError(f"code may be 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {self.code}")
        if len(self.reason.encode(errors="surrogatepass")) > MAX_REASON_BYTES:
            raise ValueError(f"reason may have {MAX_REASON_BYTES} bytes of UTF-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreClose(SessionFault):
    """The client's close frame is not answered, and the connection stays open, until the client ends it."""

    name: ClassVar[str] = "ignore_close"
    strikes_at: ClassVar[Point] = Point.CLOSE
