"""PURE. What a healthy replica answers: messages in, timed actions out.

The real server reads, answers, and only then reads on: whatever arrives during a segment is answered after
it, in the order of arrival. Toggles have no answer and take effect when they arrive, so that a pause holds
back the prompts that are waiting. A segment is a generator of actions; the session's state moves on only
when it has been walked to its end, so a segment that was cut short never happened.

While `auto_extension_enabled` holds and nothing is waiting, the session goes on by itself: from a past (a
segment, or a state given at init) follows a prompt, a pure function of the state, so that every replica has
the same idea.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import msgspec

from emulator import media
from emulator.media import MediaKind, Order, Picture, Segment, check
from emulator.protocol.actions import (
    Action,
    AwaitMedia,
    BeginMedia,
    Close,
    Drop,
    Reach,
    Send,
    SendMedia,
    Wait,
    WaitUntilReady,
)
from emulator.protocol.messages import (
    MIME_JPEG,
    AutoExtensionUpdated,
    ClientMessage,
    ContinuationState,
    ContinuationStateSnapshot,
    EnhancementUpdated,
    ErrorCode,
    ErrorMessage,
    GenerationPausedUpdated,
    GpuAssigned,
    LoopGenerationUpdated,
    Ltx2SegmentComplete,
    Ltx2SegmentStart,
    Ltx2StreamComplete,
    Ltx2StreamStart,
    MediaInit,
    MediaSegmentComplete,
    NotInCatalogue,
    NotJson,
    QueueStatus,
    SeedPromptsUpdated,
    SegmentPromptSource,
    ServerMessage,
    SessionInitV2,
    SessionTimeout,
    SnapshotState,
    StepComplete,
    parse_client_message,
)

MAX_STEPS = 1000
MAX_BACKLOG = 64
"""Unanswered messages of a session; with that many waiting, its socket is not read."""


@dataclass(frozen=True, slots=True)
class Generation:
    """How a replica generates."""

    segment_seconds: float = 1.0
    """How long a segment takes; 0 for no wait at all."""
    steps: int = 4
    """Denoising steps of a prompt that asks for no number."""
    chunks: int = 3
    """Binary messages of a segment, after the initialisation part."""
    chunk_bytes: int = 16384
    """Size of each of them."""
    segment_cap: int | None = None
    """Segments after which a session is complete; None for no end."""
    extension_seconds: float = 0.25
    """How long the replica thinks before it makes a segment by itself."""
    session_timeout_seconds: float = 120.0
    """Silence of the client after which the session ends."""
    width: int = 256
    height: int = 256
    fps: int = 24
    num_frames: int = 24
    media: MediaKind = "filler"
    """`mp4` is real video, which whoever walks the script has to make: it is asked for it by an action."""
    watermark: bool = False
    """Real video shows the replica's name and a colour of its own; its bytes are those of no other replica
    then."""

    def __post_init__(self) -> None:
        if min(self.segment_seconds, self.extension_seconds) < 0:
            raise ValueError("segment_seconds and extension_seconds must be 0 or more")
        if self.session_timeout_seconds <= 0:
            raise ValueError("session_timeout_seconds must be more than 0")
        if not 1 <= self.steps <= MAX_STEPS or self.chunks < 1 or self.chunk_bytes < 1:
            raise ValueError(f"steps must be 1 to {MAX_STEPS}, chunks and chunk_bytes 1 or more")
        if self.watermark and self.media != "mp4":
            raise ValueError("a watermark needs a picture: media must be mp4")
        if self.media == "mp4":
            check(self.picture)

    @property
    def picture(self) -> Picture:
        """The shape of the video."""
        return Picture(self.width, self.height, self.fps, self.num_frames)

    @property
    def duration_ms(self) -> float:
        """Playing time of a segment."""
        return self.num_frames / self.fps * 1000.0


def rejection(capacity: int) -> tuple[Action, ...]:
    """What a client sees that comes when all places are taken; its own messages are not awaited."""
    return _refusal("session_rejected", f"max sessions reached ({capacity})", retryable=False)


def unavailability() -> tuple[Action, ...]:
    """What a client sees when there is a place and no GPU behind it."""
    return _refusal("gpu_unavailable", "no GPU worker is available", retryable=True)


def failure(*, retryable: bool) -> Send:
    """What a client sees when the worker that made its media is gone."""
    return Send(ErrorMessage(code="worker_failed", message="the GPU worker failed", retryable=retryable))


@dataclass(slots=True)
class _Malformed:
    """Stands in the queue for a message that could not be read, so that its error keeps its place in the
    order."""

    why: str
    fatal: bool


@dataclass(slots=True)
class Session:
    """One conversation. Feed it with `receive`, then walk `answers()` until it yields nothing more."""

    generation: Generation
    name: str = ""
    """Tells its stream ids from those of other sessions."""
    replica: str = ""
    """Whose it is: what a watermark says."""
    gpu_id: int = 0
    init: SessionInitV2 | None = None
    segment_idx: int = 0
    """The next segment's number."""
    state: ContinuationState | None = None
    """What a snapshot returns: given at init, or made by the last complete segment."""
    paused: bool = False
    ended: bool = False
    """Nothing is answered any more."""
    toggles: dict[str, object] = field(default_factory=dict)
    """The newest value of each, by message type; of these only auto extension matters to the generator."""
    _waiting: deque[ClientMessage | _Malformed] = field(default_factory=deque)
    _delivered: Segment | None = None

    @property
    def is_full(self) -> bool:
        """No more should be read: as many messages wait as may wait. Prompts that a pause holds back do not
        count, or the message that ends the pause could never come."""
        held = (
            sum(isinstance(message, SegmentPromptSource) for message in self._waiting) if self.paused else 0
        )
        return len(self._waiting) - held >= MAX_BACKLOG

    @property
    def backlog(self) -> int:
        """Messages received and not answered yet."""
        return len(self._waiting)

    def receive(self, data: str | bytes) -> None:
        """Take one message of the client: text, or bytes for a binary one."""
        if isinstance(data, bytes):
            self._waiting.append(_Malformed("binary messages are not part of this protocol", fatal=True))
            return
        try:
            message = parse_client_message(data)
        except NotJson as error:
            self._waiting.append(_Malformed(str(error), fatal=True))
            return
        except NotInCatalogue as error:
            self._waiting.append(_Malformed(str(error), fatal=False))
            return
        if self.init is not None and self._take_toggle(message):
            return
        if isinstance(message, SegmentPromptSource) and self.paused and self.backlog >= MAX_BACKLOG:
            self._waiting.append(
                _Malformed(f"{self.backlog} messages are waiting for the pause's end", fatal=False)
            )
            return
        if isinstance(message, SessionInitV2):
            # The picture has no influence on the media, and up to 32 MiB.
            message = msgspec.structs.replace(message, initial_image=None)
        self._waiting.append(message)

    def answers(self) -> Iterator[Action]:
        """What to do about all that was received and can be answered now. Lazy: each action is decided when
        the one before it has been done."""
        while not self.ended:
            if (message := self._next()) is None:
                if not self._extends:
                    return
                yield Wait(self.generation.extension_seconds)
                if (message := self._next() or self._extension()) is None:
                    return
            yield from self._answer(message)

    def deliver(self, segment: Segment) -> None:
        """The media that was asked for is there; call it when `AwaitMedia` comes."""
        self._delivered = segment

    def time_out(self) -> Iterator[Action]:
        """What to do when the client has been silent for `session_timeout_seconds`."""
        self.ended = True
        yield Send(SessionTimeout(timeout_seconds=round(self.generation.session_timeout_seconds)))
        yield Close(1000, "session_timeout")

    def _take_early(self, message: ClientMessage | _Malformed) -> bool:
        return not isinstance(message, _Malformed) and self._take_toggle(message)

    def _take_toggle(self, message: ClientMessage) -> bool:
        match message:
            case GenerationPausedUpdated(paused=paused):
                self.paused = paused
                self.toggles["generation_paused_updated"] = paused
            case EnhancementUpdated(enabled=enabled):
                self.toggles["enhancement_updated"] = enabled
            case AutoExtensionUpdated(enabled=enabled):
                self.toggles["auto_extension_updated"] = enabled
            case LoopGenerationUpdated(enabled=enabled):
                self.toggles["loop_generation_updated"] = enabled
            case SeedPromptsUpdated(seed_prompts=prompts):
                self.toggles["seed_prompts_updated"] = list(prompts)
            case _:
                return False
        return True

    @property
    def _extends(self) -> bool:
        """Whether it goes on by itself when nothing is waiting."""
        if self.init is None or self.paused or self.state is None:
            return False
        return bool(self.toggles.get("auto_extension_updated", self.init.auto_extension_enabled))

    def _extension(self) -> SegmentPromptSource | None:
        """The session's own next prompt, unless it was told not to meanwhile."""
        if not self._extends:
            return None
        prompt = media.extension_of(media.digest_of(self.state))
        return SegmentPromptSource(prompt=prompt, source="auto_extension")

    def _next(self) -> ClientMessage | _Malformed | None:
        """The oldest message that may be answered now: while paused, prompts are passed over and keep their
        order."""
        for index, message in enumerate(self._waiting):
            if self.paused and isinstance(message, SegmentPromptSource):
                continue
            del self._waiting[index]
            return message
        return None

    def _answer(self, message: ClientMessage | _Malformed) -> Iterator[Action]:
        if self.init is None:
            yield from self._open(message)
            return
        match message:
            case _Malformed(why=why, fatal=False):
                yield _invalid(why, retryable=True)
            case _Malformed():
                self.ended = True
                yield Send(Ltx2StreamComplete(reason="error"))
                yield Drop()
            case SegmentPromptSource():
                yield from self._segment(message)
            case SnapshotState():
                yield Reach("snapshot", self.segment_idx)
                yield Send(self._snapshot())
            case SessionInitV2():
                yield _invalid("the session is open already", retryable=True)
            case _:
                self._take_toggle(message)

    def _open(self, message: ClientMessage | _Malformed) -> Iterator[Action]:
        match message:
            case SessionInitV2():
                self.init = message
                self.state = message.continuation_state
                # Toggles that came early are in force from here on, before any that comes from now on.
                self._waiting = deque(early for early in self._waiting if not self._take_early(early))
                yield Send(QueueStatus(position=0, queue_depth=0))
                yield WaitUntilReady()
                timeout = round(self.generation.session_timeout_seconds)
                yield Send(GpuAssigned(gpu_id=self.gpu_id, session_timeout=timeout))
                yield Send(self._stream_start(message))
            case _Malformed(fatal=True):
                self.ended = True
                yield Drop()
            case _Malformed(why=why):
                self.ended = True
                yield _invalid(f"opening message: {why}", retryable=False)
                yield Close(1003, "expected_session_init_v2")
            case _:
                self.ended = True
                yield _invalid("first frame must be session_init_v2", retryable=False)
                yield Close(1003, "expected_session_init_v2")

    def _stream_start(self, init: SessionInitV2) -> Ltx2StreamStart:
        shape = self.generation
        return Ltx2StreamStart(
            preset=init.preset,
            width=shape.width,
            height=shape.height,
            fps=shape.fps,
            num_frames=shape.num_frames,
        )

    def _snapshot(self) -> ServerMessage:
        if self.state is None:
            text = "no continuation state available for session"
            return ErrorMessage(code="internal_error", message=text, retryable=False)
        return ContinuationStateSnapshot(state=self.state)

    def _segment(self, prompt: SegmentPromptSource) -> Iterator[Action]:
        pace = self.generation
        number = self.segment_idx
        steps = max(1, min(prompt.num_inference_steps or pace.steps, MAX_STEPS))
        before = media.digest_of(self.state)
        digest = media.digest_after(before, prompt=prompt.prompt, seed=prompt.seed or 0)
        made_before = media.made_before(self.state)
        stream_id = media.stream_id(digest, self.name)
        jpeg = self.init is not None and self.init.stream_mode == "legacy_jpeg"
        is_real = pace.media == "mp4" and not jpeg
        # Three quarters of the time go into the steps, the rest between the chunks.
        step_wait = Wait(pace.segment_seconds * 0.75 / steps)

        yield Send(Ltx2SegmentStart(segment_idx=number, prompt=prompt.prompt, total_steps=steps))
        yield Reach("segment_start", number, prompt.prompt)
        if is_real:
            order = Order(
                before,
                prompt.prompt,
                prompt.seed or 0,
                number=made_before,
                chunks=pace.chunks,
                picture=pace.picture,
                watermark=self.replica if pace.watermark else "",
            )
            yield BeginMedia(order)
        for step in range(1, steps + 1):
            yield step_wait
            yield Send(StepComplete(segment_idx=number, step=step, total_steps=steps, stage="denoise"))
        made = (yield from self._await_media()) if is_real else self._filler(before, prompt)
        yield Send(
            MediaInit(
                segment_idx=number,
                mime=MIME_JPEG if jpeg else made.mime,
                stream_id=stream_id,
                mode="legacy_jpeg" if jpeg else "av_fmp4",
            )
        )
        yield SendMedia(made.init, number, -1)
        chunk_wait = Wait(pace.segment_seconds * 0.25 / len(made.chunks))
        for index, chunk in enumerate(made.chunks):
            yield chunk_wait
            if index == len(made.chunks) - 1:
                yield Reach("segment", number)
            yield SendMedia(chunk, number, index)
        yield Send(
            MediaSegmentComplete(
                segment_idx=number, stream_id=stream_id, chunks=len(made.chunks), duration_ms=pace.duration_ms
            )
        )
        self.state = media.state_after(digest, segment_idx=number, prompt=prompt.prompt, made=made_before + 1)
        self.segment_idx = number + 1
        milliseconds = pace.segment_seconds * 1000.0
        yield Send(
            Ltx2SegmentComplete(
                segment_idx=number, generation_time_ms=milliseconds, e2e_latency_ms=milliseconds
            )
        )
        yield Reach("segment_end", number)
        if self._is_complete():
            self.ended = True
            yield Send(Ltx2StreamComplete(reason="segment_cap"))
            yield Close(1000, "segment_cap")

    def _await_media(self) -> Generator[Action, None, Segment]:
        yield AwaitMedia()
        made, self._delivered = self._delivered, None
        if made is None:
            raise RuntimeError("real media was awaited, and not delivered")
        return made

    def _filler(self, before: str, prompt: SegmentPromptSource) -> Segment:
        return media.generate(
            before,
            prompt=prompt.prompt,
            seed=prompt.seed or 0,
            chunks=self.generation.chunks,
            chunk_bytes=self.generation.chunk_bytes,
        )

    def _is_complete(self) -> bool:
        return self.generation.segment_cap is not None and self.segment_idx >= self.generation.segment_cap


def _refusal(code: ErrorCode, text: str, *, retryable: bool) -> tuple[Action, ...]:
    return (Send(ErrorMessage(code=code, message=text, retryable=retryable)), Close(1013, code))


def _invalid(why: str, *, retryable: bool) -> Send:
    return Send(ErrorMessage(code="invalid_message", message=why, retryable=retryable))
