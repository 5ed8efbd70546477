"""PURE. What is known of the replica that has the session now; all of it ends with the replica."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.session.core import Side
from gateway.session.ledger import Asked
from gateway.session.protocol import ReplicaMessage


def is_refusal(said: ReplicaMessage) -> bool:
    """Whether a replica that has not begun the session does not take it."""
    return said.type == "error" and said.code in ("session_rejected", "gpu_unavailable")


@dataclass(slots=True)
class Present:
    """The one that has the session now."""

    url: str
    name: str
    spoke: bool
    """It said more than `queue_status`: it cannot refuse the session any more."""
    serves: bool = False
    """It said more than that and errors."""
    stream_started: bool = False
    in_segment: bool = False
    asked: Asked | None = None
    """The prompt of its segment."""
    questions: deque[Side] = field(default_factory=deque)
    """Who asked for a state and has no answer yet."""
    unknown: int = 0
    """Messages it was sent that it will answer with `invalid_message`."""
    at_end: bool = False
    """It said what ends a session; what follows is no loss."""
    last_word: bool = False
    """What it said last was an error that forbids another attempt."""
    is_left: bool = False
    """The session moves away at the next good moment."""
