"""PURE. The faults of a replica that is wrong in what it says, or dies of what it hears."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from emulator import media
from emulator.faults.fault import Fault, Point, SessionFault
from emulator.protocol.messages import ContinuationStateSnapshot, ErrorMessage, ServerMessage

MAX_STATE_BYTES = 48 * 1024 * 1024
"""Of a padded state: it has to fit into an init message again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject(Fault):
    """Sessions are refused in band, below the capacity too: accepted, told by an `error`, closed by 1013."""

    name: ClassVar[str] = "reject"
    code: Literal["session_rejected", "gpu_unavailable"] = "session_rejected"
    """Of the `error`, and the reason of the close."""
    point: Literal["open", "init"] = "open"
    """Before or after the first message has been read."""

    @property
    def at(self) -> Point:
        return Point(self.point)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuError(SessionFault):
    """The worker fails: an `error` with code `worker_failed`, then nothing; the connection stays open."""

    name: ClassVar[str] = "gpu_error"
    retryable: bool = True
    """What the `error` says of another attempt."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        if self.point == "upgrade":
            raise ValueError("gpu_error needs an open session; before the handshake use reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPong(Fault):
    """Pings are read and not answered; all else goes on."""

    name: ClassVar[str] = "no_pong"
    strikes_at: ClassVar[Point] = Point.PING


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSnapshot(Fault):
    """`snapshot_state` is answered with an `error`, code `internal_error`."""

    name: ClassVar[str] = "no_snapshot"
    strikes_at: ClassVar[Point] = Point.SNAPSHOT


@dataclass(frozen=True, slots=True, kw_only=True)
class BigState(Fault):
    """The continuation state in the answer to `snapshot_state` is padded; it is as good as without."""

    name: ClassVar[str] = "big_state"
    strikes_at: ClassVar[Point] = Point.SNAPSHOT
    size_bytes: int = 1024 * 1024
    """Of the state as JSON, at least."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 0 <= self.size_bytes <= MAX_STATE_BYTES:
            raise ValueError(f"size_bytes must be 0 to {MAX_STATE_BYTES}, not {self.size_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(SessionFault):
    """The replica dies with all its sessions, as by a kill; it stays dead until it is restarted."""

    name: ClassVar[str] = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison(Fault):
    """A prompt that contains the text kills the replica that takes it up, with all its sessions."""

    name: ClassVar[str] = "poison"
    strikes_at: ClassVar[Point] = Point.SEGMENT_START
    text: str = "poison"
    """What the prompt has to contain."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not self.text:
            raise ValueError("text must not be empty: every prompt contains that")


def snapshot_under(faults: Iterable[Fault], answer: ServerMessage) -> ServerMessage:
    """The answer to `snapshot_state` as these faults want it; any other message as it is."""
    for fault in faults:
        if not isinstance(answer, ContinuationStateSnapshot):
            break
        match fault:
            case NoSnapshot():
                text = "the continuation state cannot be read: told to by a fault"
                answer = ErrorMessage(code="internal_error", message=text, retryable=False)
            case BigState(size_bytes=size_bytes):
                answer = ContinuationStateSnapshot(state=media.padded(answer.state, size_bytes))
            case _:
                pass
    return answer
