"""PURE. The faults of the answer to an upgrade request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emulator.faults.fault import Kind, Point, SessionFault, check_range, check_seconds

MAX_PIECES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus(SessionFault):
    """The upgrade is refused with an HTTP status."""

    name: ClassVar[str] = "upgrade_status"
    kind: ClassVar[Kind] = "connect"
    strikes_at: ClassVar[Point] = Point.UPGRADE
    status: int = 503
    """An HTTP status, 300 to 599: 302 (with `location`), 401, 403, 429, 500, 503 ..."""
    location: str = "/elsewhere"
    """Where a redirect (300 to 399) leads; other statuses do without."""
    retry_after_seconds: int | None = None
    """Of a header `Retry-After`; None for no such header."""
    body: str = ""
    """Of the answer, as plain text."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_range(300, 599, status=self.status)
        check_header(location=self.location)
        check_seconds(retry_after_seconds=self.retry_after_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowUpgrade(SessionFault):
    """The answer to the upgrade comes in pieces, the last of them late."""

    name: ClassVar[str] = "slow_upgrade"
    kind: ClassVar[Kind] = "connect"
    strikes_at: ClassVar[Point] = Point.UPGRADE
    seconds: float = 3.0
    """From the request to the end of the answer."""
    pieces: int = 8
    """In how many pieces it comes, one after the other in equal intervals; 1 is all at the end."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_seconds(seconds=self.seconds)
        check_range(1, MAX_PIECES, pieces=self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class GluedFirstFrame(SessionFault):
    """The replica speaks first: a `queue_status` comes in the same TCP segment as the answer to the
    upgrade."""

    name: ClassVar[str] = "glued_first_frame"
    kind: ClassVar[Kind] = "connect"
    strikes_at: ClassVar[Point] = Point.UPGRADE


def check_header(**values: str) -> None:
    """Raise ValueError for what may not stand in an HTTP header."""
    for name, value in values.items():
        if not value.isascii() or not value.isprintable() or value != value.strip() or not value:
            raise ValueError(f"{name} must be printable ASCII without spaces around it, not {value!r}")
