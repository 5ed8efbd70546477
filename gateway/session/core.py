"""PURE. The rules of a session between a client and its replica, under `protocol: passthrough`.

Events go in, commands come out. What either side says is handed to the other as it came. The side that closes
decides code and reason. The gateway's own words come only where they cannot be mistaken for the replica's: a
message of ours is sent only before the replica's first one was passed on; after that the close frame alone
tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gateway.errors import GatewayRestarting, MessageTooBig, ReplicaLost, SessionEnded
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


Command = ToClient | ToReplica | End
Commands = tuple[Command, ...]


class SessionCore(Protocol):
    """What the shell asks. After an `End` every answer is empty."""

    def from_client(self, event: Event) -> Commands:
        """The client said this."""

    def from_replica(self, event: Event) -> Commands:
        """The replica said this, or is gone (`Closed` without a code)."""

    def fail(self, cause: SessionEnded) -> Commands:
        """The shell ends the session for `cause`."""


class PassthroughCore:
    """Implements `SessionCore`; looks into no message."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._replica_spoke = False
        self._ended = False

    def from_client(self, event: Event) -> Commands:
        if self._ended:
            return ()
        match event:
            case Message():
                if event.size_bytes > self._max_message_bytes:
                    return self.fail(MessageTooBig())
                return (ToReplica(event),)
            case Closed(code=None):
                return self._end(ToReplica(CLIENT_VANISHED), End(Side.CLIENT, None, ""))
            case Closed(code=code, reason=reason):
                return self._end(ToReplica(event), End(Side.CLIENT, code, reason or ""))
            case Ping() | Pong():
                return ()

    def from_replica(self, event: Event) -> Commands:
        if self._ended:
            return ()
        match event:
            case Message():
                if event.size_bytes > self._max_message_bytes:
                    return self.fail(MessageTooBig())
                self._replica_spoke = True
                return (ToClient(event),)
            case Closed(code=None):
                return self.fail(ReplicaLost())
            case Closed(code=code, reason=reason):
                return self._end(ToClient(event), End(Side.REPLICA, code, reason or ""))
            case Ping() | Pong():
                return ()

    def fail(self, cause: SessionEnded) -> Commands:
        if self._ended:
            return ()
        closed = Closed(cause.close_code, cause.close_reason)
        end = End(Side.GATEWAY, cause.close_code, cause.close_reason)
        to_replica = ToReplica(replica_close(cause))
        text = None if self._replica_spoke else message_for(cause)
        if text is None:
            return self._end(ToClient(closed), to_replica, end)
        return self._end(ToClient(Message(text)), ToClient(closed), to_replica, end)

    def _end(self, *commands: Command) -> Commands:
        self._ended = True
        return commands


def replica_close(cause: SessionEnded) -> Closed:
    """How a replica is told of `cause`: by the same code where a WebSocket client may send it, else 1001."""
    code = cause.close_code if cause.close_code in (1001, 1008, 1009) else 1001
    return Closed(code, cause.close_reason)


def message_for(cause: SessionEnded) -> str | None:
    """The in-band message (JSON text) that tells a client of `cause`, or None where the close frame alone
    does.
    """
    if isinstance(cause, GatewayRestarting):
        return json.dumps({"type": "going_away", "message": cause.message, "retryable": True})
    if cause.code is None:
        return None
    return json.dumps(
        {"type": "error", "code": cause.code, "message": cause.message, "retryable": cause.retryable}
    )
