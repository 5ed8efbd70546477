"""PURE. The core under `protocol: streaming`: the client's first message decides what the session is.

An init of the streaming protocol makes it one that can be resumed; anything else makes it a passthrough for
good. Until then the replica's messages pass, and what it may do without harm to either kind of session is to
refuse the session in band, or to vanish before it has said a word: another is found, for nothing has been
said to it.
"""

from __future__ import annotations

from gateway.errors import ReplicaLost, SessionEnded
from gateway.session import protocol
from gateway.session.core import Commands, Handover, Move, PassthroughCore, UnhealthyPolicy
from gateway.session.events import Closed, Event, Message
from gateway.session.losses import Losses
from gateway.session.present import is_refusal
from gateway.session.resuming import Bounds, ResumingCore


class StreamingCore:
    """Implements `SessionCore`."""

    def __init__(
        self,
        max_message_bytes: int,
        *,
        resume: bool,
        resume_attempts: int,
        max_state_bytes: int,
        snapshot_every: int,
    ) -> None:
        self._bounds = Bounds(max_message_bytes, max_state_bytes, snapshot_every)
        self._resume = resume
        self._losses = Losses(resume_attempts if resume else 0)
        self._core: PassthroughCore | ResumingCore = PassthroughCore(max_message_bytes)
        self._decided = False
        self._replica: str | None = None
        self._name = ""
        self._spoke = False

    @property
    def backlog_bytes(self) -> int:
        return self._core.backlog_bytes

    @property
    def in_segment(self) -> bool:
        return self._core.in_segment

    @property
    def resumes(self) -> int:
        return self._core.resumes

    @property
    def resumable(self) -> bool:
        return self._core.resumable

    @property
    def why_not_resumable(self) -> str | None:
        return self._core.why_not_resumable if self._decided else None

    @property
    def handover(self) -> Handover:
        return self._core.handover

    def attached(self, replica: str, name: str) -> Commands:
        self._replica, self._name = replica, name
        return self._core.attached(replica, name)

    def from_client(self, event: Event) -> Commands:
        if not self._decided and isinstance(event, Message):
            self._decide(event)
        return self._core.from_client(event)

    def from_replica(self, event: Event) -> Commands:
        if not self._decided and (moved := self._undecided(event)):
            return moved
        return self._core.from_replica(event)

    def fail(self, cause: SessionEnded) -> Commands:
        if not self._decided and isinstance(cause, ReplicaLost) and (moved := self._undecided(Closed(None))):
            return moved
        return self._core.fail(cause)

    def unavailable(self, cause: SessionEnded) -> Commands:
        return self._core.unavailable(cause)

    def queued(self, position: int, depth: int) -> Commands:
        return self._core.queued(position, depth)

    def unhealthy(self, policy: UnhealthyPolicy) -> Commands:
        return self._core.unhealthy(policy)

    def stalled(self) -> Commands:
        return self._core.stalled()

    def _decide(self, first: Message) -> None:
        self._decided = True
        if self._core.ended or first.size_bytes > self._bounds.max_message_bytes:
            return
        if isinstance(protocol.read_client(first.data), protocol.Init):
            core = ResumingCore(self._bounds, self._losses, resume=self._resume)
            if self._replica is not None:
                core.take_over(self._replica, self._name, spoke=self._spoke)
            self._core = core

    def _undecided(self, event: Event) -> Commands:
        """A `Move` where another replica will do though nothing is known of the session yet."""
        if self._replica is None or self._spoke or self._core.ended:
            return ()
        if isinstance(event, Message):
            said = protocol.read_replica(event.data) if isinstance(event.data, str) else None
            if said is not None and is_refusal(said):
                return self._move(Move("refused"))
            self._spoke = said is None or said.type != "queue_status"
            return ()
        if event == Closed(None) and self._losses.lost(self._replica, frozenset(), "crash") == "move":
            return self._move(Move("lost"))
        return ()

    def _move(self, move: Move) -> Commands:
        self._replica = None
        self._core = PassthroughCore(self._bounds.max_message_bytes)
        return (move,)
