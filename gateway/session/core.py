"""PURE. The rules of a session between a client and its replica, under `protocol: passthrough`.

Events go in, commands come out. What either side says is handed to the other as it came; what a client says
before it has a replica is kept for it. The side that closes decides code and reason. The gateway's own words
come only where they cannot be mistaken for the replica's: a message of ours is sent only before the replica's
first one was passed on; after that the close frame alone tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from gateway.errors import GatewayRestarting, HandedBack, MessageTooBig, ReplicaLost, SessionEnded
from gateway.session.events import Closed, Event, Message, Ping, Pong

CLIENT_VANISHED = Closed(1001, "client_gone")
"""What a replica is told of a client that left without a close frame."""


class Side(Enum):
    """Who ended a session."""

    CLIENT = "client"
    REPLICA = "replica"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class ToClient:
    event: Message | Closed


@dataclass(frozen=True, slots=True)
class ToReplica:
    event: Message | Closed


@dataclass(frozen=True, slots=True)
class End:
    """The session is over; the closes have been commanded before it."""

    by: Side
    code: int | None
    """The close code that the session ended with; None when the client left without one."""
    reason: str


MoveCause = Literal["lost", "refused", "unhealthy"]
UnhealthyPolicy = Literal["keep", "drain", "close"]

Handover = Literal["now", "later", "never"]
"""Whether a client would lose nothing if it were told to connect again: `now`; `later`, once what is under
way has come and the client was shown its state; `never`, as things stand.
"""


@dataclass(frozen=True, slots=True)
class Move:
    """Drop the present replica, if it is still there, and find another; `attached` or `unavailable` is the
    answer.
    """

    cause: MoveCause


@dataclass(frozen=True, slots=True)
class Blame:
    """The loss of a session may be held against this replica: what it was asked did no harm elsewhere."""

    replica: str
    """Its URL."""


Command = ToClient | ToReplica | End | Move | Blame
Commands = tuple[Command, ...]


class SessionCore(Protocol):
    """What the shell asks and tells.

    A core is made before a replica is known. From a `Move` to the next `attached` there is no replica: no
    `ToReplica` is commanded, and what a replica that was dropped still says is ignored. A `Move` is the last
    of its commands, and so is an `End`, after which every answer is empty.
    """

    @property
    def backlog_bytes(self) -> int:
        """Payload octets that the client said and no replica has been sent yet. 0 when it has caught up."""

    @property
    def in_segment(self) -> bool:
        """Whether the replica is at work on a segment, so that its silence means something."""

    @property
    def resumes(self) -> int:
        """How often the session went on elsewhere after it had begun."""

    @property
    def resumable(self) -> bool:
        """Whether the session would be moved if its replica were lost now."""

    @property
    def why_not_resumable(self) -> str | None:
        """For the log line: why not; None while it may be, or may become so."""

    @property
    def handover(self) -> Handover:
        """Whether the client has all with which it could go on in a new session, wherever that is."""

    def attached(self, replica: str, name: str) -> Commands:
        """The replica with this URL and display name took the session; also for the first one."""

    def from_client(self, event: Event) -> Commands:
        """The client said this."""

    def from_replica(self, event: Event) -> Commands:
        """The replica said this, or is gone (`Closed` without a code)."""

    def fail(self, cause: SessionEnded) -> Commands:
        """The shell has a cause to end the session. For `ReplicaLost` (no pong came) a core that can resume
        moves instead.
        """

    def unavailable(self, cause: SessionEnded) -> Commands:
        """No replica is to be had, at the start or after a `Move`: the session ends with `cause`, or as a
        lost one when it had begun.
        """

    def queued(self, position: int, depth: int) -> Commands:
        """The client waits for a replica; 0 is the next to be served."""

    def unhealthy(self, policy: UnhealthyPolicy) -> Commands:
        """The present replica turned unhealthy. `keep` changes nothing, `drain` leaves it at the next moment
        that costs no work, `close` leaves it now; what cannot be moved stays under `drain` and ends under
        `close`.
        """

    def stalled(self) -> Commands:
        """The replica has been silent for too long inside a segment."""


class PassthroughCore:
    """Implements `SessionCore`; looks into no message, and so never moves a session."""

    in_segment = False
    resumes = 0
    resumable = False
    why_not_resumable: str | None = "passthrough"
    handover: Handover = "never"

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._early: list[Message] = []
        self._attached = False
        self._replica_spoke = False
        self.ended = False
        self._backlog_bytes = 0

    @property
    def backlog_bytes(self) -> int:
        return self._backlog_bytes

    def attached(self, replica: str, name: str) -> Commands:
        if self.ended:
            return ()
        self._attached = True
        early, self._early, self._backlog_bytes = self._early, [], 0
        return tuple(ToReplica(message) for message in early)

    def from_client(self, event: Event) -> Commands:
        if self.ended:
            return ()
        match event:
            case Message():
                size_bytes = event.size_bytes
                if size_bytes > self._max_message_bytes:
                    return self.fail(MessageTooBig())
                if self._attached:
                    return (ToReplica(event),)
                self._early.append(event)
                self._backlog_bytes += size_bytes
                return ()
            case Closed(code=None):
                return self._end(Side.CLIENT, Closed(None, ""), to_replica=CLIENT_VANISHED)
            case Closed():
                return self._end(Side.CLIENT, event, to_replica=event)
            case Ping() | Pong():
                return ()

    def from_replica(self, event: Event) -> Commands:
        if self.ended or not self._attached:
            return ()
        match event:
            case Message():
                if event.size_bytes > self._max_message_bytes:
                    return self.fail(MessageTooBig())
                self._replica_spoke = True
                return (ToClient(event),)
            case Closed(code=None):
                return self.fail(ReplicaLost())
            case Closed():
                return self._end(Side.REPLICA, event, to_client=event)
            case Ping() | Pong():
                return ()

    def fail(self, cause: SessionEnded) -> Commands:
        if self.ended:
            return ()
        closed = Closed(cause.close_code, cause.close_reason)
        text = None if self._replica_spoke else message_for(cause)
        commands = self._end(Side.GATEWAY, closed, to_client=closed, to_replica=replica_close(cause))
        return commands if text is None else (ToClient(Message(text)), *commands)

    def unavailable(self, cause: SessionEnded) -> Commands:
        return self.fail(cause)

    def queued(self, position: int, depth: int) -> Commands:
        if self.ended or self._attached or self._replica_spoke:
            return ()
        return (ToClient(Message(queue_status(position, depth))),)

    def unhealthy(self, policy: UnhealthyPolicy) -> Commands:
        return self.fail(ReplicaLost()) if policy == "close" and self._attached else ()

    def stalled(self) -> Commands:
        return ()

    def _end(
        self, by: Side, last: Closed, *, to_client: Closed | None = None, to_replica: Closed | None = None
    ) -> Commands:
        self.ended = True
        self._early, self._backlog_bytes = [], 0
        return ending(by, last, to_client=to_client, to_replica=to_replica if self._attached else None)


def ending(by: Side, last: Closed, *, to_client: Closed | None, to_replica: Closed | None) -> Commands:
    """The session is over by `last`; each side that is still there is closed."""
    commands: list[Command] = []
    if to_client is not None:
        commands.append(ToClient(to_client))
    if to_replica is not None:
        commands.append(ToReplica(to_replica))
    return (*commands, End(by, last.code, last.reason or ""))


def replica_close(cause: SessionEnded) -> Closed:
    """How a replica is told of `cause`: by the same code where a WebSocket client may send it, else 1001."""
    code = cause.close_code if cause.close_code in (1001, 1008, 1009) else 1001
    return Closed(code, cause.close_reason)


def message_for(cause: SessionEnded) -> str | None:
    """The in-band message (JSON text) that tells a client of `cause`, or None where the close frame alone
    does.
    """
    if isinstance(cause, GatewayRestarting | HandedBack):
        return json.dumps({"type": "going_away", "message": cause.message, "retryable": True})
    if cause.code is None:
        return None
    return json.dumps(
        {"type": "error", "code": cause.code, "message": cause.message, "retryable": cause.retryable}
    )


def queue_status(position: int, depth: int) -> str:
    """The message (JSON text) that tells a client of its place in the queue."""
    return json.dumps({"type": "queue_status", "position": position, "queue_depth": depth})
