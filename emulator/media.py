"""PURE. The generator: media bytes that are a function of continuation state, prompt and seed, and of
nothing else.

A chain of digests carries the past: the state after a segment is a hash over the state before it, the prompt
and the seed. So a segment depends on all that came before, and two replicas that are given the same state
make the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import string
from dataclasses import dataclass

from emulator.protocol.messages import ContinuationState

STATE_KIND = "ltx2.v1"
SCHEMA_VERSION = 1
PADDING = "padding"
"""A key of a state's payload that means nothing."""
DIGEST_CHARACTERS = 64
"""Hexadecimal digits of SHA-256."""

_EXTENSIONS = ("the light changes", "the camera moves on", "somebody enters", "it begins to rain")
_FRESH = hashlib.sha256(b"streamhold emulator: a session without a past").hexdigest()


@dataclass(frozen=True, slots=True)
class Segment:
    """What one prompt yields."""

    init: bytes
    """The initialisation part: the first binary message."""
    chunks: tuple[bytes, ...]
    """The media, one binary message each."""
    digest: str
    """The chain after this segment."""

    def stream_id(self, session: str) -> str:
        """Differs between segments, and between sessions where `session` does."""
        return hashlib.shake_128(f"{self.digest} {session}".encode()).hexdigest(16)


def digest_of(state: ContinuationState | None) -> str:
    """The chain that `state` stands for.

    A state made here carries it. A foreign one (a recording of a real server) gets the hash of its canonical
    JSON, so that continuing from it is deterministic too.
    """
    if state is None:
        return _FRESH
    digest = state.payload.get("digest")
    if state.kind == STATE_KIND and isinstance(digest, str) and _is_digest(digest):
        return digest
    payload = {key: value for key, value in state.payload.items() if key != PADDING}
    canonical = json.dumps([state.kind, payload], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def generate(digest: str, *, prompt: str, seed: int, chunks: int, chunk_bytes: int) -> Segment:
    """The segment that follows `digest`: an initialisation part and `chunks` parts of `chunk_bytes` bytes."""
    after = hashlib.sha256(f"{digest}\n{seed}\n".encode() + prompt.encode(errors="surrogatepass")).digest()
    return Segment(
        init=_stream(after, b"init", 32),
        chunks=tuple(_stream(after, b"chunk %d" % number, chunk_bytes) for number in range(chunks)),
        digest=after.hex(),
    )


def state_after(digest: str, *, segment_idx: int, prompt: str) -> ContinuationState:
    """The continuation state once segment `segment_idx` of a session is complete and the chain stands at
    `digest`."""
    return ContinuationState(
        kind=STATE_KIND,
        payload={
            "schema_version": SCHEMA_VERSION,
            "segment_index": segment_idx,
            "source_prompt": prompt,
            "digest": digest,
        },
    )


def padded(state: ContinuationState, size_bytes: int) -> ContinuationState:
    """A state of `size_bytes` or more as JSON that is continued like `state`."""
    return ContinuationState(kind=state.kind, payload={**state.payload, PADDING: "x" * size_bytes})


def extension_of(digest: str) -> str:
    """The prompt that a replica thinks of by itself where the chain stands at `digest`."""
    return f"and then, {_EXTENSIONS[int(digest[:8], 16) % len(_EXTENSIONS)]} ({digest[:8]})"


def _stream(key: bytes, part: bytes, size_bytes: int) -> bytes:
    return hashlib.shake_128(key + part).digest(size_bytes)


def _is_digest(text: str) -> bool:
    return len(text) == DIGEST_CHARACTERS and set(text) <= set(string.hexdigits.lower())
