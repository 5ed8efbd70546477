"""PURE. The catalogue of the streaming protocol: JSON text messages told apart by `type`, media as binary.

Keys without a value are left out on the wire; unknown keys of a client's message are ignored, unknown types
are not.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

StreamMode = Literal["av_fmp4", "legacy_jpeg"]
PromptSource = Literal["curated", "enhanced", "user", "auto_extension"]
CompletionReason = Literal["segment_cap", "stop_requested", "error"]
ErrorCode = Literal[
    "session_rejected",
    "invalid_message",
    "preset_mismatch",
    "gpu_unavailable",
    "worker_failed",
    "upstream_timeout",
    "internal_error",
]

MIME_FMP4 = 'video/mp4; codecs="avc1.64001f, mp4a.40.2"'
MIME_JPEG = "image/jpeg"


class ContinuationState(msgspec.Struct, frozen=True):
    """What a session can be continued from, on any replica."""

    kind: str
    payload: dict[str, Any] = {}


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A message of either side."""


# Client to server


class SessionInitV2(_Message, frozen=True, tag="session_init_v2"):
    """Opens a session; always the first message."""

    client_id: str | None = None
    preset: str | None = None
    preset_label: str | None = None
    curated_prompts: list[str] = []
    initial_image: dict[str, Any] | None = None
    """Base64 inside; up to 32 MiB of text."""
    enhancement_enabled: bool = False
    auto_extension_enabled: bool = False
    loop_generation_enabled: bool = False
    single_clip_mode: bool = False
    stream_mode: StreamMode = "av_fmp4"
    continuation_state: ContinuationState | None = None


class SegmentPromptSource(_Message, frozen=True, tag="segment_prompt_source"):
    """Asks for the next segment."""

    prompt: str
    negative_prompt: str | None = None
    source: PromptSource = "user"
    seed: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None


class SeedPromptsUpdated(_Message, frozen=True, tag="seed_prompts_updated"):
    seed_prompts: list[str] = []


class EnhancementUpdated(_Message, frozen=True, tag="enhancement_updated"):
    enabled: bool


class AutoExtensionUpdated(_Message, frozen=True, tag="auto_extension_updated"):
    enabled: bool


class LoopGenerationUpdated(_Message, frozen=True, tag="loop_generation_updated"):
    enabled: bool


class GenerationPausedUpdated(_Message, frozen=True, tag="generation_paused_updated"):
    """While paused, prompts wait; snapshots are still answered."""

    paused: bool


class SnapshotState(_Message, frozen=True, tag="snapshot_state"):
    """Asks for the continuation state; answered between segments."""


ClientMessage = (
    SessionInitV2
    | SegmentPromptSource
    | SeedPromptsUpdated
    | EnhancementUpdated
    | AutoExtensionUpdated
    | LoopGenerationUpdated
    | GenerationPausedUpdated
    | SnapshotState
)


# Server to client


class QueueStatus(_Message, frozen=True, tag="queue_status"):
    position: int
    queue_depth: int


class GpuAssigned(_Message, frozen=True, tag="gpu_assigned"):
    gpu_id: int
    session_timeout: int
    """Seconds without a message from the client after which the server ends the session."""


class Ltx2StreamStart(_Message, frozen=True, kw_only=True, tag="ltx2_stream_start"):
    preset: str | None = None
    width: int
    height: int
    fps: int
    num_frames: int


class Ltx2SegmentStart(_Message, frozen=True, tag="ltx2_segment_start"):
    segment_idx: int
    """Counts from 0 in every session, continued or not."""
    prompt: str
    total_steps: int


class StepComplete(_Message, frozen=True, tag="step_complete"):
    segment_idx: int
    step: int
    """Counts from 1 to `total_steps`."""
    total_steps: int
    stage: str


class MediaInit(_Message, frozen=True, tag="media_init"):
    """Comes before the binary messages of a segment; the first of them is the initialisation part."""

    segment_idx: int
    mime: str
    stream_id: str
    mode: StreamMode


class MediaSegmentComplete(_Message, frozen=True, tag="media_segment_complete"):
    segment_idx: int
    stream_id: str
    chunks: int
    """Binary messages after the initialisation part."""
    duration_ms: float | None = None
    pts_base_ms: float | None = None


class Ltx2SegmentComplete(_Message, frozen=True, tag="ltx2_segment_complete"):
    segment_idx: int
    generation_time_ms: float
    e2e_latency_ms: float | None = None


class Ltx2StreamComplete(_Message, frozen=True, tag="ltx2_stream_complete"):
    reason: CompletionReason


class SessionTimeout(_Message, frozen=True, tag="session_timeout"):
    timeout_seconds: int


class ContinuationStateSnapshot(_Message, frozen=True, tag="continuation_state_snapshot"):
    state: ContinuationState


class ErrorMessage(_Message, frozen=True, tag="error"):
    code: ErrorCode
    message: str
    retryable: bool


ServerMessage = (
    QueueStatus
    | GpuAssigned
    | Ltx2StreamStart
    | Ltx2SegmentStart
    | StepComplete
    | MediaInit
    | MediaSegmentComplete
    | Ltx2SegmentComplete
    | Ltx2StreamComplete
    | SessionTimeout
    | ContinuationStateSnapshot
    | ErrorMessage
)

MessageT = TypeVar("MessageT")

MOST_SHOWN = 200
"""Characters of what a client calls itself or its message, where that is kept for people: it could be of any
length."""

_client_messages = msgspec.json.Decoder(ClientMessage)
_server_messages = msgspec.json.Decoder(ServerMessage)
_encoder = msgspec.json.Encoder()


class NotJson(ValueError):
    """The text is not JSON at all, which the real server does not survive: it drops the connection."""


class NotInCatalogue(ValueError):
    """The text is JSON, but no message of this protocol."""


def parse_client_message(text: str | bytes) -> ClientMessage:
    """The message in `text`. Raises NotJson or NotInCatalogue."""
    return _parse(text, _client_messages)


def parse_server_message(text: str | bytes) -> ServerMessage:
    """The message in `text`; for clients and tests. Raises NotJson or NotInCatalogue."""
    return _parse(text, _server_messages)


def _parse(text: str | bytes, decoder: msgspec.json.Decoder[MessageT]) -> MessageT:
    try:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError as error:
            # The decoder gives up at the first thing that does not fit, with the rest unread.
            msgspec.json.decode(text)
            raise NotInCatalogue(str(error)) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotJson(str(error)) from error


class _Envelope(msgspec.Struct):
    type: str


_envelopes = msgspec.json.Decoder(_Envelope)


def type_in(text: str | bytes) -> str | None:
    """The value of `type` of any message, in this catalogue or not, cut to MOST_SHOWN; None where there is
    none. Cheap."""
    try:
        return _envelopes.decode(text).type[:MOST_SHOWN]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class _Opening(msgspec.Struct):
    client_id: str


_openings = msgspec.json.Decoder(_Opening)


def client_id_in(text: str | bytes) -> str | None:
    """The `client_id` of an opening message, cut to MOST_SHOWN; None where there is none."""
    try:
        return _openings.decode(text).client_id[:MOST_SHOWN]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def encode(message: ClientMessage | ServerMessage) -> bytes:
    """UTF-8 JSON of `message`, without the keys that have no value."""
    return _encoder.encode(message)


def type_of(message: ClientMessage | ServerMessage) -> str:
    """The value of `type` on the wire."""
    return str(message.__struct_config__.tag)
