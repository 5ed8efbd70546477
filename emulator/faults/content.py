"""PURE. The faults of what a session's messages are: too large, in too many frames, or broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator.faults.fault import Point, PointFault, SessionFault, check_range

MAX_OVERSIZED_BYTES = 1024 * 1024 * 1024
MAX_FRAGMENT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized(PointFault):
    """The replica sends one message more, larger than anybody should take."""

    name: ClassVar[str] = "oversized"
    size_bytes: int = 64 * 1024 * 1024 + 1
    """Of the message, which is one frame: by default a byte above the gateway's usual limit."""
    binary: bool = True
    """Binary (zeros), or text (spaces)."""

    def __post_init__(self) -> None:
        PointFault.__post_init__(self)
        check_range(0, MAX_OVERSIZED_BYTES, size_bytes=self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentStorm(SessionFault):
    """Every message to the client comes in very many frames."""

    name: ClassVar[str] = "fragment_storm"
    strikes_at: ClassVar[Point] = Point.BYTES
    fragment_bytes: int = 16
    """Payload of each frame."""
    ping_every: int = 0
    """After so many frames of a message comes a ping in between; 0 for none."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_range(1, MAX_FRAGMENT_BYTES, fragment_bytes=self.fragment_bytes)
        if self.ping_every < 0:
            raise ValueError(f"ping_every must be 0 or more, not {self.ping_every}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptMedia(SessionFault):
    """The bytes of the media are broken on their way; the messages around them are not."""

    name: ClassVar[str] = "corrupt_media"
    strikes_at: ClassVar[Point] = Point.MEDIA
    segment: int | None = None
    """Only in the segment with this number (from 0); None for every one."""
    how: Literal["flip", "cut"] = "flip"
    """`flip`: some bytes are others. `cut`: half of each message is missing."""
    flipped_bytes: int = 16
    """How many of each message are others, at even distances."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if self.segment is not None and self.segment < 0:
            raise ValueError(f"segment is a number from 0, not {self.segment}; null is every one")
        if self.flipped_bytes < 1:
            raise ValueError(f"flipped_bytes must be 1 or more, not {self.flipped_bytes}")

    def broken(self, media: bytes) -> bytes:
        """What becomes of one binary message; never what it was, unless it was empty."""
        if self.how == "cut":
            return media[: len(media) // 2]
        spoilt = bytearray(media)
        count = min(self.flipped_bytes, len(media))
        for number in range(count):
            spoilt[number * len(media) // count] ^= 0xFF
        return bytes(spoilt)
