"""PURE. A segment's media as it is asked for, and as it is made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from emulator.protocol.messages import MIME_FMP4

MediaKind = Literal["filler", "mp4"]
"""Computed bytes that play nowhere, or real video."""

SMALLEST = 64
"""Dots of a picture's side."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The shape of a segment's video."""

    width: int = 256
    height: int = 256
    fps: int = 24
    num_frames: int = 24


def check(picture: Picture) -> None:
    """Raises ValueError for a shape that real video cannot have here."""
    if min(picture.width, picture.height) < SMALLEST or picture.width % 2 or picture.height % 2:
        raise ValueError(f"width and height of real video must be even, and {SMALLEST} or more")
    if picture.fps < 1 or picture.num_frames < 1:
        raise ValueError("fps and num_frames of real video must be 1 or more")


@dataclass(frozen=True, slots=True)
class Order:
    """All that a segment of real video is a function of."""

    digest: str
    """The chain before it."""
    prompt: str
    seed: int = 0
    number: int = 0
    """Shown in the picture: how many segments lie before it."""
    chunks: int = 3
    """Parts after the initialisation part, each of which begins with a keyframe; never more than frames."""
    picture: Picture = field(default_factory=Picture)
    watermark: str = ""
    """The replica whose name and colour are painted in; empty for none, so that all make the same bytes."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What one prompt yields."""

    init: bytes
    """The initialisation part: the first binary message."""
    chunks: tuple[bytes, ...]
    """The media, one binary message each."""
    digest: str
    """The chain after this segment."""
    mime: str = MIME_FMP4
    """What a browser must be told to play it."""


def stream_id(digest: str, session: str) -> str:
    """The id of the stream that ends with the chain at `digest`: differs between segments, and between
    sessions where `session` does."""
    return hashlib.shake_128(f"{digest} {session}".encode()).hexdigest(16)
