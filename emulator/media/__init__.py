"""PURE. What a replica streams: a function of continuation state, prompt and seed, and of nothing else.

`filler` costs nothing and plays nowhere; `mp4` is real video, and needs the extra `media`, so only those who
want it import it.
"""

from __future__ import annotations

from emulator.media.chain import (
    DIGEST_CHARACTERS,
    MADE,
    PADDING,
    STATE_KIND,
    digest_after,
    digest_of,
    extension_of,
    made_before,
    padded,
    state_after,
)
from emulator.media.filler import generate
from emulator.media.segment import MediaKind, Order, Picture, Segment, check, stream_id

__all__ = [
    "DIGEST_CHARACTERS",
    "MADE",
    "PADDING",
    "STATE_KIND",
    "MediaKind",
    "Order",
    "Picture",
    "Segment",
    "check",
    "digest_after",
    "digest_of",
    "extension_of",
    "generate",
    "made_before",
    "padded",
    "state_after",
    "stream_id",
]
