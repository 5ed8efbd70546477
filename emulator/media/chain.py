"""PURE. The chain that carries a session's past: media is a function of continuation state, prompt and seed.

The state after a segment is a hash over the state before it, the prompt and the seed. So a segment depends
on all that came before, and two replicas that are given the same state make the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import string

from emulator.protocol.messages import ContinuationState

STATE_KIND = "ltx2.v1"
SCHEMA_VERSION = 1
MADE = "segments_made"
"""The key of a state's payload that counts the segments since the chain began. A session that goes on
elsewhere counts its own segments anew; this count goes on, and is the number in the picture."""
PADDING = "padding"
"""A key of a state's payload that means nothing."""
DIGEST_CHARACTERS = 64
"""Hexadecimal digits of SHA-256."""
MOST_MADE = 10**9
"""A count above it is no count."""

_EXTENSIONS = ("the light changes", "the camera moves on", "somebody enters", "it begins to rain")
_FRESH = hashlib.sha256(b"streamhold emulator: a session without a past").hexdigest()


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


def made_before(state: ContinuationState | None) -> int:
    """How many segments lie behind `state`; a foreign one tells by its `segment_index`, or counts as none."""
    if state is None:
        return 0
    if (made := _count(state.payload.get(MADE))) is not None:
        return made
    index = _count(state.payload.get("segment_index"))
    return 0 if index is None else index + 1


def digest_after(digest: str, *, prompt: str, seed: int) -> str:
    """The chain once the segment of `prompt` and `seed` has been made."""
    return hashlib.sha256(f"{digest}\n{seed}\n".encode() + prompt.encode(errors="surrogatepass")).hexdigest()


def state_after(digest: str, *, segment_idx: int, prompt: str, made: int = 1) -> ContinuationState:
    """The continuation state once segment `segment_idx` of a session is complete, the chain stands at
    `digest`, and `made` segments lie behind it."""
    return ContinuationState(
        kind=STATE_KIND,
        payload={
            "schema_version": SCHEMA_VERSION,
            "segment_index": segment_idx,
            "source_prompt": prompt,
            "digest": digest,
            MADE: made,
        },
    )


def padded(state: ContinuationState, size_bytes: int) -> ContinuationState:
    """A state of `size_bytes` or more as JSON that is continued like `state`."""
    return ContinuationState(kind=state.kind, payload={**state.payload, PADDING: "x" * size_bytes})


def extension_of(digest: str) -> str:
    """The prompt that a replica thinks of by itself where the chain stands at `digest`."""
    return f"and then, {_EXTENSIONS[int(digest[:8], 16) % len(_EXTENSIONS)]} ({digest[:8]})"


def _is_digest(text: str) -> bool:
    return len(text) == DIGEST_CHARACTERS and set(text) <= set(string.hexdigits.lower())


def _count(value: object) -> int | None:
    """None for what is no count."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_MADE:
        return value
    return None
