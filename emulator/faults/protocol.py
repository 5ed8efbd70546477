"""PURE. The faults of a replica that is wrong in what it says, or does not say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from emulator import media
from emulator.faults.fault import Fault, Point, PointFault, SessionFault, check_range
from emulator.protocol.messages import ContinuationStateSnapshot, ErrorMessage, ServerMessage

MAX_STATE_BYTES = 48 * 1024 * 1024
"""Of a padded state: it has to fit into an init message again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuError(PointFault):
    """The worker fails: an `error` with code `worker_failed`, then nothing; the connection stays open."""

    name: ClassVar[str] = "gpu_error"
    retryable: bool = True
    """What the `error` says of another attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPong(SessionFault):
    """Pings are read and not answered; all else goes on."""

    name: ClassVar[str] = "no_pong"
    strikes_at: ClassVar[Point] = Point.PING


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSnapshot(SessionFault):
    """`snapshot_state` is answered with an `error`, code `internal_error`."""

    name: ClassVar[str] = "no_snapshot"
    strikes_at: ClassVar[Point] = Point.SNAPSHOT


@dataclass(frozen=True, slots=True, kw_only=True)
class BigState(SessionFault):
    """The continuation state in the answer to `snapshot_state` is padded; it is as good as without."""

    name: ClassVar[str] = "big_state"
    strikes_at: ClassVar[Point] = Point.SNAPSHOT
    size_bytes: int = 1024 * 1024
    """Of the state as JSON, at least."""

    def __post_init__(self) -> None:
        SessionFault.__post_init__(self)
        check_range(0, MAX_STATE_BYTES, size_bytes=self.size_bytes)


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
