"""The words of a streaming session, and a playbook that knows its passages."""

from __future__ import annotations

import json
from typing import Any

from gateway import errors
from gateway.errors import SessionEnded
from gateway.session.core import (
    Command,
    Commands,
    End,
    Move,
    Side,
    ToClient,
    ToReplica,
    message_for,
)
from gateway.session.events import Closed, Message
from gateway.session.streaming import StreamingCore
from tests.gateway.session.playbook import Playbook
from tests.gateway.session.stage import text

A, B, C, D = "http://a:1", "http://b:1", "http://c:1", "http://d:1"

INIT = text("session_init_v2", client_id="c1", initial_image={"data": "AAAA"}, custom=[1, 2])
QUEUE = text("queue_status", position=0, queue_depth=0)
GPU = text("gpu_assigned", gpu_id=0, session_timeout=120)
START = text("ltx2_stream_start", width=256, height=256, fps=24, num_frames=24)
SNAPSHOT = Message('{"type":"snapshot_state"}')
CHUNK = Message(b"\x00media")
ABORT = Closed(None)
PAUSE = text("generation_paused_updated", paused=True)
GO_ON = text("generation_paused_updated", paused=False)
ENHANCE = text("enhancement_updated", enabled=True)
EXTEND = text("auto_extension_updated", enabled=True)
NO_STATE = text("error", code="internal_error", message="no continuation state", retryable=False)
WORKER_FAILED = text("error", code="worker_failed", message="CUDA error", retryable=True)
REJECTED = text("error", code="session_rejected", message="max sessions reached (1)", retryable=False)


def prompt(words: str, **fields: Any) -> Message:
    return text("segment_prompt_source", prompt=words, **fields)


def begins(number: int, words: str = "p") -> Message:
    return text("ltx2_segment_start", segment_idx=number, prompt=words, total_steps=1)


def step(number: int) -> Message:
    return text("step_complete", segment_idx=number, step=1, total_steps=1, stage="denoise")


def is_done(number: int) -> Message:
    return text("ltx2_segment_complete", segment_idx=number, generation_time_ms=1.0)


def state(mark: object) -> dict[str, object]:
    return {"kind": "ltx2.v1", "payload": {"mark": mark}}


def snapshot(mark: object) -> Message:
    return text("continuation_state_snapshot", state=state(mark))


def resumed(number: int, name: str) -> ToClient:
    return ToClient(Message(json.dumps({"type": "session_resumed", "segment_idx": number, "replica": name})))


def init_with(mark: object) -> ToReplica:
    """The init as the next replica gets it: the state last, for it had none; else as it was."""
    fields = {"client_id": "c1", "initial_image": {"data": "AAAA"}, "custom": [1, 2]}
    return ToReplica(text("session_init_v2", **fields, continuation_state=state(mark)))


def ending(cause: SessionEnded, *, replica_is_there: bool) -> Commands:
    told = message_for(cause)
    assert told is not None
    commands: list[Command] = [
        ToClient(Message(told)),
        ToClient(Closed(cause.close_code, cause.close_reason)),
    ]
    if replica_is_there:
        commands.append(ToReplica(Closed(1001, cause.close_reason)))
    return (*commands, End(Side.GATEWAY, cause.close_code, cause.close_reason))


LOST = ending(errors.ReplicaLost(), replica_is_there=False)


class Play(Playbook):
    """A playbook with the passages that come again and again."""

    def __init__(self, **settings: Any) -> None:
        fields = {"resume": True, "resume_attempts": 3, "max_state_bytes": 1000, "snapshot_every": 1}
        self.core = StreamingCore(10_000, **(fields | settings))
        super().__init__(self.core)

    def passes(self, *messages: Message) -> Play:
        """The replica says these, and the client sees them as they are."""
        for message in messages:
            self.replica(message).expect(ToClient(message))
        return self

    def hides(self, *messages: Message) -> Play:
        """The replica says these, and nothing comes of it."""
        for message in messages:
            self.replica(message).expect()
        return self

    def says(self, *messages: Message) -> Play:
        """The client says these, and the replica hears them as they are."""
        for message in messages:
            self.client(message).expect(ToReplica(message))
        return self

    def streams(self, *, init: Message = INIT) -> Play:
        """On replica a, to the start of the stream."""
        self.attached(A, "a").expect()
        return self.says(init).passes(QUEUE, GPU, START)

    def makes(self, number: int, words: str = "p") -> Play:
        """A whole segment, and the state after it."""
        self.passes(begins(number, words), step(number), CHUNK)
        self.replica(is_done(number)).expect(ToClient(is_done(number)), ToReplica(SNAPSHOT))
        return self.hides(snapshot(number))

    def loses(self, how: Closed = ABORT) -> Play:
        self.replica(how).expect(Move("lost"))
        return self
