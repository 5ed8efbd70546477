"""PURE. What passes between a session and its two sides, the same for every door and for the replica's
connection.

A text message is a `str`, a binary one is `bytes`; the peer's fragments are joined before they get here.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_REASON_BYTES = 123
"""A close frame's payload is at most 125 bytes, two of which are the code (RFC 6455, section 5.5)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A whole WebSocket message."""

    data: str | bytes

    @property
    def size_bytes(self) -> int:
        """Payload octets; for text an upper bound is avoided by counting its UTF-8 form."""
        return (
            len(self.data) if isinstance(self.data, bytes) or self.data.isascii() else len(self.data.encode())
        )


@dataclass(frozen=True, slots=True)
class Ping:
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Pong:
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Closed:
    """The side said goodbye, or is gone."""

    code: int | None
    """None when the connection ended without a close frame (abort, reset, end of stream)."""
    reason: str | None = None
    """None when the door cannot tell what the peer said."""


Event = Message | Ping | Pong | Closed


def wire_code(code: int | None) -> int:
    """A code that may go into a close frame: `code` itself where it may, 1000 for "no code given" (1005),
    else 1011.

    RFC 6455, section 7.4: 1004 to 1006 and 1015 are never sent, below 1000 and above 4999 nothing is defined.
    """
    if code == 1005:
        return 1000
    if code is None or not (1000 <= code <= 1014 or 3000 <= code <= 4999) or code in (1004, 1006):
        return 1011
    return code


def wire_reason(reason: str | None) -> str:
    """`reason` cut to 123 bytes of UTF-8 without splitting a character."""
    return (reason or "").encode()[:MAX_REASON_BYTES].decode(errors="ignore")
