"""PURE. What a client of the streaming protocol sees of one session, held against the protocol.

A segment's media is what came for the last stream that was announced for it: when the session goes on
elsewhere, what came of the interrupted segment before is dropped.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

OPENING = ("gpu_assigned", "ltx2_stream_start")


@dataclass(slots=True)
class Segment:
    """One segment, as far as it has come."""

    number: int
    prompt: str
    stream_ids: list[str] = field(default_factory=list)
    """Every stream that was announced for it; more than one when it was interrupted."""
    steps: int = 0
    total_steps: int = 0
    parts: list[bytes] = field(default_factory=list, repr=False)
    """Binary messages of the last stream; the first is the initialisation part."""
    has_all_media: bool = False
    complete: bool = False

    @property
    def media(self) -> bytes:
        return b"".join(self.parts)


@dataclass(slots=True)
class Story:
    """One session from its first message on. Feed it with `take`; `problems` is what the protocol forbids."""

    segments: list[Segment] = field(default_factory=list)
    """By number."""
    queue: list[tuple[int, int]] = field(default_factory=list)
    """Position and depth of each `queue_status`."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    resumed: list[dict[str, Any]] = field(default_factory=list)
    """Each `session_resumed`."""
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    """Each state that was told."""
    types: list[str] = field(default_factory=list)
    """Of every text message, in order."""
    problems: list[str] = field(default_factory=list)
    completed: int = 0
    """Segments that are complete; those are the first ones."""
    finished: bool = False
    """The client has done all its steps, and closed."""
    over: bool = False
    close_code: int | None = None
    """Of the close frame that ended it; None for a connection that broke, or one that the client closed."""
    close_reason: str = ""
    status: int | None = None
    """The HTTP status where the upgrade was refused."""
    _just_resumed: bool = False
    _interrupted: bool = False

    def __str__(self) -> str:
        ended = f"closed {self.close_code} {self.close_reason!r}" if self.over else "open"
        return (
            f"{self.completed} segments, {ended}, errors {self.errors}, resumed {self.resumed},"
            f" problems {self.problems}, queue {self.queue[-5:]}, last messages {self.types[-8:]}"
        )

    @property
    def opened(self) -> bool:
        """The stream has started."""
        return "ltx2_stream_start" in self.types

    @property
    def media(self) -> bytes:
        """Of all complete segments, in order."""
        return b"".join(segment.media for segment in self.segments if segment.complete)

    @property
    def hashes(self) -> list[str]:
        """Of each complete segment's media."""
        return [hashlib.sha256(segment.media).hexdigest() for segment in self.segments if segment.complete]

    @property
    def prompts(self) -> list[str]:
        """Of each complete segment."""
        return [segment.prompt for segment in self.segments if segment.complete]

    def take(self, data: str | bytes) -> str | None:
        """The next message of the server; its type, None for one without."""
        if isinstance(data, bytes):
            self._take_media(data)
            return None
        kind: str | None = None
        try:
            message: dict[str, Any] = json.loads(data)
            kind = str(message["type"])
            self._take_message(kind, message)
        except (ValueError, KeyError, TypeError) as problem:
            self._forbid(f"a message that cannot be understood ({problem!r}): {data[:200]!r}")
        return kind

    def _take_message(self, kind: str, message: dict[str, Any]) -> None:
        if kind in OPENING and kind in self.types:
            self._forbid(f"a second {kind}")
        self.types.append(kind)
        if kind == "session_resumed":
            self._take_resumed(message)
            return
        self._just_resumed = False
        match kind:
            case "queue_status":
                self.queue.append((message["position"], message["queue_depth"]))
            case "error":
                self.errors.append(message)
            case "continuation_state_snapshot":
                self.snapshots.append(message["state"])
                if self._running is not None and not self._interrupted:
                    self._forbid("a snapshot inside a segment")
            case "ltx2_segment_start":
                self._take_start(message)
            case "step_complete" | "media_init" | "media_segment_complete" | "ltx2_segment_complete":
                self._take_part(kind, message)
            case _:
                pass

    @property
    def _running(self) -> Segment | None:
        return self.segments[-1] if self.segments and not self.segments[-1].complete else None

    def _take_resumed(self, message: dict[str, Any]) -> None:
        if self._just_resumed:
            self._forbid("session_resumed twice with nothing in between")
        if message["segment_idx"] != self.completed:
            self._forbid(f"resumed at segment {message['segment_idx']}, {self.completed} are complete")
        self.resumed.append(message)
        self._just_resumed = self._interrupted = True

    def _take_start(self, message: dict[str, Any]) -> None:
        number = message["segment_idx"]
        if not self.opened:
            self._forbid("a segment before the stream's start")
        if number != self.completed:
            self._forbid(f"segment {number} starts, {self.completed} are complete")
            return
        running = self._running
        if running is None:
            self.segments.append(Segment(number, message["prompt"]))
        elif not self._interrupted:
            self._forbid(f"segment {number} starts again, and nothing was resumed")
        else:
            # What came before is dropped, the streams are remembered.
            self.segments[-1] = Segment(number, message["prompt"], running.stream_ids)
        self.segments[-1].total_steps = message["total_steps"]
        self._interrupted = False

    def _take_part(self, kind: str, message: dict[str, Any]) -> None:
        segment = self._running
        if segment is None or self._interrupted or message["segment_idx"] != segment.number:
            self._forbid(f"{kind} of segment {message['segment_idx']}, which is not running")
            return
        match kind:
            case "step_complete":
                segment.steps += 1
                self._expect(message["step"] == segment.steps, f"step {message['step']} is not the next")
            case "media_init":
                self._expect(segment.steps == segment.total_steps, f"media after {segment.steps} steps")
                self._expect(message["stream_id"] not in segment.stream_ids, "a stream was announced twice")
                segment.stream_ids.append(message["stream_id"])
                segment.parts = []
            case "media_segment_complete":
                self._expect([message["stream_id"]] == segment.stream_ids[-1:], "another stream is complete")
                came = len(segment.parts) - 1
                self._expect(message["chunks"] == came, f"{came} chunks of {message['chunks']}")
                segment.has_all_media = True
            case _:
                self._expect(segment.has_all_media, f"segment {segment.number} is complete without its media")
                segment.complete = True
                self.completed += 1

    def _take_media(self, data: bytes) -> None:
        segment = self._running
        if segment is None or self._interrupted or not segment.stream_ids or segment.has_all_media:
            self._forbid(f"{len(data)} bytes of media outside a stream")
            return
        self._just_resumed = False
        segment.parts.append(data)

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._forbid(otherwise)

    def _forbid(self, what: str) -> None:
        self.problems.append(f"{what} (message {len(self.types)})")
