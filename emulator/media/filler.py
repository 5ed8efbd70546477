"""PURE. Filler: media that no browser plays and that costs nothing, for whoever only compares bytes."""

from __future__ import annotations

import hashlib

from emulator.media.chain import digest_after
from emulator.media.segment import Segment

INIT_BYTES = 32


def generate(digest: str, *, prompt: str, seed: int, chunks: int, chunk_bytes: int) -> Segment:
    """The segment that follows `digest`: an initialisation part and `chunks` parts of `chunk_bytes` bytes."""
    after = digest_after(digest, prompt=prompt, seed=seed)
    key = bytes.fromhex(after)
    return Segment(
        init=_stream(key, b"init", INIT_BYTES),
        chunks=tuple(_stream(key, b"chunk %d" % number, chunk_bytes) for number in range(chunks)),
        digest=after,
    )


def _stream(key: bytes, part: bytes, size_bytes: int) -> bytes:
    return hashlib.shake_128(key + part).digest(size_bytes)
