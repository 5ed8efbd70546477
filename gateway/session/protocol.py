"""PURE. Reading and writing of the streaming protocol, as far as a gateway must understand it.

JSON text messages told apart by `type`, media as binary. Only what a rule of the session needs is read; the
rest of a message is skipped without being built, and a message passes on as the text that it came as. What
cannot be read is a message of no kind that we know, and passes too.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

SNAPSHOT_STATE = '{"type":"snapshot_state"}'
"""Asks a replica for the continuation state."""


class _ClientMessage(Struct, frozen=True, tag_field="type"):
    """What a client says."""


class Init(_ClientMessage, frozen=True, tag="session_init_v2"):
    """Opens a session; always the first message."""

    client_id: Any = None
    auto_extension_enabled: Any = False
    loop_generation_enabled: Any = False
    enhancement_enabled: Any = False


class Prompt(_ClientMessage, frozen=True, tag="segment_prompt_source"):
    """Asks for the next segment."""

    prompt: str


class SeedPromptsUpdated(_ClientMessage, frozen=True, tag="seed_prompts_updated"):
    seed_prompts: list[str] = []


class EnhancementUpdated(_ClientMessage, frozen=True, tag="enhancement_updated"):
    enabled: bool


class AutoExtensionUpdated(_ClientMessage, frozen=True, tag="auto_extension_updated"):
    enabled: bool


class LoopGenerationUpdated(_ClientMessage, frozen=True, tag="loop_generation_updated"):
    enabled: bool


class GenerationPausedUpdated(_ClientMessage, frozen=True, tag="generation_paused_updated"):
    """While paused, a replica starts no prompt; it still answers snapshots."""

    paused: bool


class SnapshotState(_ClientMessage, frozen=True, tag="snapshot_state"):
    """Asks for the continuation state; answered between segments, in the order of the questions."""


Toggle = (
    SeedPromptsUpdated
    | EnhancementUpdated
    | AutoExtensionUpdated
    | LoopGenerationUpdated
    | GenerationPausedUpdated
)
"""Has no answer, takes effect when it arrives, and holds until the next of its type."""

ClientMessage = Init | Prompt | Toggle | SnapshotState


class ReplicaMessage(Struct, frozen=True):
    """What a replica says: of every type, known or not."""

    type: str
    segment_idx: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None = None
    prompt: str | None = None
    code: str | None = None
    retryable: bool | None = None
    state: Raw = Raw()
    """JSON of the continuation state; empty where there is none."""


# Lax like the real server, which takes "true" for true.
_client_messages = msgspec.json.Decoder(ClientMessage, strict=False)
_replica_messages = msgspec.json.Decoder(ReplicaMessage, strict=False)
_objects = msgspec.json.Decoder(dict[str, Raw])

MessageT = TypeVar("MessageT")


def read_client(data: str | bytes) -> ClientMessage | None:
    """The client's message; None for what is none of this protocol, malformed or binary."""
    return _read(_client_messages, data)


def read_replica(data: str) -> ReplicaMessage | None:
    """The replica's text message; None for what is no JSON object with a type."""
    return _read(_replica_messages, data)


def client_id(data: str | bytes) -> str | None:
    """The `client_id` of an init message; None for any other message, and for an init without one (an empty
    one is none).
    """
    said = read_client(data)
    return (said.client_id or None) if isinstance(said, Init) and isinstance(said.client_id, str) else None


def with_state(init: str, state: bytes) -> str:
    """The init message with this continuation state (JSON), its other keys as they were."""
    return _with_key(init, "continuation_state", state)


def with_segment_idx(text: str, number: int) -> str:
    """The message with this segment number, its other keys as they were; as it came where it is nested so
    deep that it could just be read.
    """
    try:
        return _with_key(text, "segment_idx", b"%d" % number)
    except RecursionError:
        return text


def session_resumed(segment_idx: int, replica: str) -> str:
    """Tells a client that its session goes on elsewhere, and which segment comes next."""
    return json.dumps({"type": "session_resumed", "segment_idx": segment_idx, "replica": replica})


def extension_prompt(prompt: str) -> str:
    """Asks again for a segment that a replica made on its own account."""
    return json.dumps({"type": "segment_prompt_source", "prompt": prompt, "source": "auto_extension"})


def _with_key(text: str, key: str, value: bytes) -> str:
    return msgspec.json.encode(_objects.decode(text) | {key: Raw(value)}).decode()


def _read(decoder: msgspec.json.Decoder[MessageT], data: str | bytes) -> MessageT | None:
    if isinstance(data, bytes):
        return None
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
