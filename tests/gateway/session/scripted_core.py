"""A session's core that does what the test, speaking for the replica, tells it to."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast, get_args

from gateway.errors import ReplicaLost, SessionEnded
from gateway.session.core import (
    Blame,
    Commands,
    End,
    Handover,
    Move,
    MoveCause,
    Side,
    ToClient,
    ToReplica,
    UnhealthyPolicy,
)
from gateway.session.events import Closed, Event, Message

LOST, REFUSED, STARTS_SEGMENT, ENDS_SEGMENT = (
    Message("move lost"),
    Message("move refused"),
    Message("segment starts"),
    Message("segment ends"),
)
"""What a replica says to have the session moved, or its silence watched."""


def blames(url: str) -> Message:
    """What a replica says to have another one blamed."""
    return Message(f"blame {url}")


class ScriptedCore:
    """Implements `SessionCore`. Each replica is told all that the client has said; each loss is a `Move`."""

    def __init__(self, broken: Collection[str] = ()) -> None:
        """`broken` names the methods and properties that raise."""
        self.calls: list[str] = []
        """What the shell has called, in order, properties aside."""
        self.causes: list[SessionEnded] = []
        """Of the calls of `fail` and `unavailable`."""
        self.resumes = 0
        self.resumable = True
        self.why_not_resumable: str | None = None
        self._broken = set(broken)
        self._said: list[Message] = []
        self._backlog_bytes = 0
        self._attached = False
        self._ended = False
        self._in_segment = False
        self._replicas = 0

    def breaks(self, *names: str) -> None:
        """From now on these raise too."""
        self._broken.update(names)

    @property
    def backlog_bytes(self) -> int:
        self._break("backlog_bytes")
        return self._backlog_bytes

    @property
    def in_segment(self) -> bool:
        self._break("in_segment")
        return self._in_segment

    @property
    def handover(self) -> Handover:
        """Between segments it is `now`."""
        self._break("handover")
        return "later" if self._in_segment else "now"

    def attached(self, replica: str, name: str) -> Commands:
        self._called(f"attached {replica} {name}")
        self._attached, self._backlog_bytes = True, 0
        self.resumes = self._replicas
        self._replicas += 1
        return tuple(ToReplica(message) for message in self._said)

    def from_client(self, event: Event) -> Commands:
        self._called("from_client")
        match event:
            case Message():
                self._said.append(event)
                if self._attached:
                    return (ToReplica(event),)
                self._backlog_bytes += event.size_bytes
            case Closed() if not self._ended:
                return self._end(Side.CLIENT, event, ToReplica(event))
            case _:
                pass
        return ()

    def from_replica(self, event: Event) -> Commands:
        self._called("from_replica")
        assert self._attached or self._ended, "a replica that was dropped is not heard"
        match event:
            case Message(data=str(text)):
                word, _, rest = text.partition(" ")
                if word == "move":
                    return self._move(cast(MoveCause, rest))
                if word == "blame":
                    return (Blame(rest),)
                if word == "segment":
                    self._in_segment = rest == "starts"
                return (ToClient(event),)
            case Message():
                return (ToClient(event),)
            case Closed(code=None):
                return self._move("lost")
            case Closed():
                return self._end(Side.REPLICA, event, ToClient(event))
            case _:
                return ()

    def fail(self, cause: SessionEnded) -> Commands:
        self._called("fail")
        self.causes.append(cause)
        if isinstance(cause, ReplicaLost):
            return self._move("lost")
        return self._fail(cause)

    def unavailable(self, cause: SessionEnded) -> Commands:
        self._called("unavailable")
        self.causes.append(cause)
        return self._fail(cause)

    def queued(self, position: int, depth: int) -> Commands:
        self._called(f"queued {position} {depth}")
        return (ToClient(Message(f"{position} of {depth}")),)

    def unhealthy(self, policy: UnhealthyPolicy) -> Commands:
        self._called(f"unhealthy {policy}")
        return self._move("unhealthy") if policy == "close" else ()

    def stalled(self) -> Commands:
        self._called("stalled")
        return self._move("lost")

    def _fail(self, cause: SessionEnded) -> Commands:
        closed = Closed(cause.close_code, cause.close_reason)
        return self._end(Side.GATEWAY, closed, ToClient(closed), ToReplica(closed))

    def _move(self, cause: MoveCause) -> Commands:
        assert cause in get_args(MoveCause)
        self._attached = self._in_segment = False
        return (Move(cause),)

    def _end(self, by: Side, closed: Closed, *closes: ToClient | ToReplica) -> Commands:
        told = () if self._ended else (*closes, End(by, closed.code, closed.reason or ""))
        self._ended = True
        return told

    def _called(self, call: str) -> None:
        self.calls.append(call)
        self._break(call.partition(" ")[0])

    def _break(self, name: str) -> None:
        if name in self._broken:
            raise ZeroDivisionError(f"a defect in {name}")
