"""PURE. What the client of a streaming session has seen of it, whichever replica served.

A replica numbers segments from 0 in every session, so after a move its numbers are shifted to go on where
they were. What opens a session is shown once. What a replica makes again only to catch up is not shown.
"""

from __future__ import annotations

from gateway.session import protocol
from gateway.session.events import Message
from gateway.session.protocol import ReplicaMessage

_ONCE = ("gpu_assigned", "ltx2_stream_start")


class Seen:
    """Until the first move everything passes as it came."""

    def __init__(self) -> None:
        self.anything = False
        """Whether the session has begun for the client: more than its place in a queue."""
        self.hides_segment = False
        """Whether the replica is at a segment that the client has."""
        self.is_covered = True
        """Whether a state that the client was shown covers all its segments; true while it has none."""
        self.keeps_states = False
        """Whether the client was ever shown a state: such a client asks for them."""
        self._next_segment = 0
        self._once: set[str] = set()
        self._moved = False
        self._shift = 0
        self._told = False

    def move(self) -> None:
        """Another replica is going to serve."""
        self._moved = True
        self._shift = 0
        self.hides_segment = False

    def resumed(self, name: str) -> Message | None:
        """What tells the client that the replica of this name serves now; None when there is nothing to tell:
        nothing had begun, or it was told and has seen nothing since.
        """
        if not self._moved or not self.anything or self._told:
            return None
        self._told = True
        return Message(protocol.session_resumed(self._next_segment, name))

    def start_segment(self, number: int | None, *, hidden: bool) -> None:
        """The replica starts its segment `number`."""
        self.hides_segment = hidden
        if hidden or number is None:
            return
        if self._moved:
            self._shift = self._next_segment - number
        self._next_segment = number + self._shift

    def complete_segment(self) -> bool:
        """The replica's segment is complete. True when the client has one more than before."""
        was_shown = not self.hides_segment
        self.hides_segment = False
        if was_shown:
            self._next_segment += 1
            self.is_covered = False
        return was_shown

    def state(self, *, covers_all: bool) -> None:
        """The client is shown a continuation state."""
        self.keeps_states = True
        self.is_covered = covers_all

    def first(self, kind: str) -> bool:
        """Whether the client has not seen a message of this type, one of those that open a session."""
        return kind not in self._once

    def pass_on(self, message: Message, said: ReplicaMessage | None) -> Message | None:
        """The message as the client is to see it; None when it is not to."""
        if said is None:
            return self._shown(message)
        if said.type == "queue_status":
            # Its place in the queue says nothing of whether the session has begun.
            return None if self._moved and "gpu_assigned" in self._once else message
        if said.type in _ONCE:
            if self._moved and said.type in self._once:
                return None
            self._once.add(said.type)
        if said.segment_idx is None:
            return self._shown(message)
        if self.hides_segment:
            return None
        if self._shift and isinstance(message.data, str):
            message = Message(protocol.with_segment_idx(message.data, said.segment_idx + self._shift))
        return self._shown(message)

    def binary(self) -> bool:
        """Whether media of the present moment is shown."""
        if self.hides_segment:
            return False
        self.anything, self._told = True, False
        return True

    def _shown(self, message: Message) -> Message:
        self.anything, self._told = True, False
        return message
