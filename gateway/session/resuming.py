"""PURE. The rules of a streaming session that outlives its replica.

Messages pass as they came, and meanwhile a ledger keeps what another replica needs to go on. When the replica
is lost, the session moves: the next one gets the init with the last continuation state, the toggles, and once
it serves, the prompts again. The client sees one `session_resumed`, and then the interrupted segment afresh.
What only catches up is not shown to it.

1. Before a replica has said more than `queue_status` it may refuse the session (in band, or by 1013): it
   moves, all that the client said is said again, and nobody is blamed.
2. After each finished segment the replica is asked for its state, unless a question is open already: its
   answer will cover the segment too. Answers come in the order of the questions; those to ours are kept back.
3. A loss ends a session that cannot be continued, and any session after too many; see `losses`.
4. What a replica means to be the end is the end: `ltx2_stream_complete`, `session_timeout`, an error that
   forbids another attempt, a close that is no loss.
5. Between segments, a client that was shown the state of all that it has can go on in a new session.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import MessageTooBig, PoisonSuspected, ReplicaLost, SessionEnded
from gateway.session import protocol
from gateway.session.core import (
    CLIENT_VANISHED,
    Command,
    Commands,
    Handover,
    Move,
    MoveCause,
    Side,
    ToClient,
    ToReplica,
    UnhealthyPolicy,
    ending,
    message_for,
    queue_status,
    replica_close,
)
from gateway.session.events import Closed, Event, Message
from gateway.session.ledger import Ledger
from gateway.session.losses import Losses, LossKind, is_loss, kind_of
from gateway.session.outbox import Outbox
from gateway.session.present import Present, is_refusal
from gateway.session.protocol import ReplicaMessage
from gateway.session.seen import Seen

_INIT = "init"
"""What a replica is at until the stream starts."""

_LOST = Closed(ReplicaLost.close_code, ReplicaLost.close_reason)


@dataclass(frozen=True, slots=True)
class Bounds:
    max_message_bytes: int
    max_state_bytes: int
    snapshot_every: int
    """Finished segments after which a state is asked for."""


class ResumingCore:
    """Implements `SessionCore` from the init message on."""

    def __init__(self, bounds: Bounds, losses: Losses, *, resume: bool) -> None:
        self._max_message_bytes = bounds.max_message_bytes
        self._snapshot_every = bounds.snapshot_every
        self._losses = losses
        self._ledger = Ledger(bounds.max_state_bytes)
        if not resume:
            self._ledger.give_up("resume_is_off")
        self._outbox = Outbox()
        self._seen = Seen()
        self._now: Present | None = None
        self._had_replica = False
        self._goes_on = False
        self._media_passes = False
        self.ended = False
        self.resumes = 0

    @property
    def backlog_bytes(self) -> int:
        return self._outbox.backlog_bytes

    @property
    def in_segment(self) -> bool:
        return self._now is not None and self._now.in_segment

    @property
    def resumable(self) -> bool:
        return not self.ended and self._ledger.why_not is None

    @property
    def why_not_resumable(self) -> str | None:
        return self._ledger.why_not

    @property
    def handover(self) -> Handover:
        now, seen = self._now, self._seen
        if now is None or not now.stream_started or now.at_end or now.last_word or not self.resumable:
            return "never"
        asks = Side.CLIENT in now.questions
        under_way = now.in_segment or self._ledger.waits_for_segment or asks
        if seen.is_covered and not under_way:
            return "now"
        return "later" if asks or (seen.is_covered and seen.keeps_states) else "never"

    # What the shell tells

    def take_over(self, replica: str, name: str, *, spoke: bool) -> None:
        """This replica has been there since before the first message."""
        self._now = Present(replica, name, spoke)
        self._had_replica = self._seen.anything = spoke

    def attached(self, replica: str, name: str) -> Commands:
        if self.ended:
            return ()
        self._now = Present(replica, name, spoke=False)
        try:
            self._outbox.restart(self._ledger.replay())
        except RecursionError:  # the init could just be read, and cannot be written again
            return self._fail(ReplicaLost())
        return self._send()

    def from_client(self, event: Event) -> Commands:
        if self.ended:
            return ()
        match event:
            case Message():
                return self._take(event)
            case Closed(code=None):
                return self._end(Side.CLIENT, Closed(None), to_replica=CLIENT_VANISHED)
            case Closed():
                return self._end(Side.CLIENT, event, to_replica=event)
            case _:
                return ()

    def from_replica(self, event: Event) -> Commands:
        if self._media_passes and isinstance(event, Message):
            # Nearly all that a replica sends, on the shortest way.
            data = event.data
            if isinstance(data, bytes) and len(data) <= self._max_message_bytes:
                return (ToClient(event),)
        if self.ended or self._now is None:
            return ()
        match event:
            case Message(data=data):
                size = len(data) if isinstance(data, bytes) else event.size_bytes
                if size > self._max_message_bytes:
                    return self._fail(MessageTooBig())
                if isinstance(data, bytes):
                    return self._media(self._now, event)
                return self._text(self._now, event, data)
            case Closed():
                return self._closed(self._now, event)
            case _:
                return ()

    def fail(self, cause: SessionEnded) -> Commands:
        if self.ended:
            return ()
        if isinstance(cause, ReplicaLost) and self._now is not None:
            return self._lost(self._now, "crash")
        return self._fail(cause)

    def unavailable(self, cause: SessionEnded) -> Commands:
        if self.ended:
            return ()
        return (*self._losses.settle(), *self._fail(ReplicaLost() if self._had_replica else cause))

    def queued(self, position: int, depth: int) -> Commands:
        if self.ended or self._now is not None:
            return ()
        return (ToClient(Message(queue_status(position, depth))),)

    def unhealthy(self, policy: UnhealthyPolicy) -> Commands:
        if self._now is None or policy == "keep":
            return ()
        if policy == "close":
            return self._lost(self._now, "unhealthy")
        self._now.is_left = True
        return self._leave(self._now)

    def stalled(self) -> Commands:
        return self._lost(self._now, "crash") if self._now is not None and self._now.in_segment else ()

    # What the client says

    def _take(self, message: Message) -> Commands:
        size_bytes = message.size_bytes
        if size_bytes > self._max_message_bytes:
            return self._fail(MessageTooBig())
        self._outbox.add(self._ledger.note(message), size_bytes, bounded=self._now is not None)
        if self._now is None:
            return ()
        commands = self._send()
        if self._ledger.overflows and self._outbox.is_empty:
            self._ledger.give_up("too_much_in_flight")
        return commands

    def _send(self) -> Commands:
        """Tell the replica what need not wait any more."""
        now = self._now
        if now is None or self._outbox.is_empty:
            return ()
        commands: list[Command] = []
        for said in self._outbox.due(serves=now.serves, begun=self._ledger.begun):
            if said.asked is not None:
                said.asked.sent = True
            elif said.kind == "question":
                now.questions.append(Side.CLIENT)
            elif said.kind == "other":
                now.unknown += 1
            commands.append(ToReplica(said.message))
        return tuple(commands)

    # What the replica says

    def _media(self, now: Present, message: Message) -> Commands:
        now.last_word = False
        begin = self._begin(now)
        if not self._seen.binary():
            return begin
        self._media_passes = True
        return (*begin, ToClient(message))

    def _text(self, now: Present, message: Message, text: str) -> Commands:
        said = protocol.read_replica(text)
        if said is not None and said.type == "error":
            return self._error(now, message, said)
        now.last_word = False
        if said is None:
            return (*self._begin(now), *self._show(message, said))
        match said.type:
            case "queue_status":
                return self._show(message, said)
            case "ltx2_stream_start":
                return (*self._begin(now), *self._stream_start(now, message, said))
            case "ltx2_segment_start":
                return (*self._begin(now), *self._segment_start(now, message, said))
            case "ltx2_segment_complete" if now.in_segment:
                return self._segment_complete(now, message, said)
            case "continuation_state_snapshot":
                return (*self._begin(now), *self._state(now, message, said))
            case "ltx2_stream_complete" | "session_timeout":
                now.at_end = True
            case _:
                pass
        return (*self._begin(now), *self._show(message, said))

    def _begin(self, now: Present) -> Commands:
        """The replica serves, if it did not before."""
        now.spoke = True
        if now.serves:
            return ()
        now.serves = self._had_replica = True
        self._outbox.begun()
        if self._goes_on:
            self.resumes += 1
            self._goes_on = False
        told = self._seen.resumed(now.name)
        return (() if told is None else (ToClient(told),)) + self._send()

    def _stream_start(self, now: Present, message: Message, said: ReplicaMessage) -> Commands:
        now.stream_started = True
        if self._seen.first(said.type):
            self._losses.served()
        settled = () if self._ledger.waits_for_segment else self._losses.settle()
        return (*self._show(message, said), *settled)

    def _segment_start(self, now: Present, message: Message, said: ReplicaMessage) -> Commands:
        now.asked = self._ledger.segment_started(said.prompt)
        now.in_segment = True
        self._media_passes = False
        self._seen.start_segment(said.segment_idx, hidden=now.asked is not None and now.asked.seen)
        return (*self._show(message, said), *self._send())

    def _segment_complete(self, now: Present, message: Message, said: ReplicaMessage) -> Commands:
        commands: list[Command] = [*self._show(message, said)]
        now.in_segment = False
        self._ledger.segment_completed()
        if self._seen.complete_segment():
            if now.asked is not None:
                now.asked.seen = True
            commands += self._losses.completed()
        if self.resumable and self._ledger.uncovered >= self._snapshot_every and not now.questions:
            now.questions.append(Side.GATEWAY)
            commands.append(ToReplica(Message(protocol.SNAPSHOT_STATE)))
        return tuple(commands)

    def _state(self, now: Present, message: Message, said: ReplicaMessage) -> Commands:
        asker = now.questions.popleft() if now.questions else None
        if asker is Side.CLIENT:
            self._ledger.question_answered()
        state = bytes(said.state)
        if state.startswith(b"{"):
            self._ledger.keep_state(state)
        elif self._ledger.has_past:
            self._ledger.give_up("no_snapshot")
        if asker is Side.GATEWAY:
            return self._leave(now)
        self._seen.state(covers_all=not self._ledger.has_unshown_past)
        return (*self._show(message, said), *self._leave(now))

    def _error(self, now: Present, message: Message, said: ReplicaMessage) -> Commands:
        if not now.spoke and is_refusal(said) and self._can_start_over:
            return self._move("refused")
        if said.code == "worker_failed":
            return self._lost(now, "crash", told=message)
        now.spoke = True
        if said.code == "internal_error" and now.questions and not now.in_segment:
            # The answer to the oldest question.
            if self._ledger.has_past:
                self._ledger.give_up("no_snapshot")
            if now.questions.popleft() is Side.GATEWAY:
                return ()
            self._ledger.question_answered()
            return self._show(message, said)
        now.last_word = said.retryable is False
        self._media_passes = False
        if said.code == "invalid_message":
            if now.unknown:
                now.unknown -= 1
            else:
                self._ledger.prompt_refused()
        return (*self._show(message, said), *self._send())

    def _closed(self, now: Present, closed: Closed) -> Commands:
        self._now = None
        if closed.code == 1013 and not now.spoke and self._can_start_over:
            return self._move("refused")
        if is_loss(closed) and not now.at_end and not now.last_word:
            return self._lost(now, kind_of(closed), closed=closed)
        if closed.code is None:
            return self._end(Side.GATEWAY, _LOST, to_client=_LOST)
        return self._end(Side.REPLICA, closed, to_client=closed)

    def _show(self, message: Message, said: ReplicaMessage | None) -> Commands:
        shown = self._seen.pass_on(message, said)
        return () if shown is None else (ToClient(shown),)

    # The move and the end

    @property
    def _can_start_over(self) -> bool:
        return self._outbox.can_start_over or self.resumable

    def _lost(
        self, now: Present, kind: LossKind, *, closed: Closed | None = None, told: Message | None = None
    ) -> Commands:
        """`closed`: the replica is gone, in this way. `told`: what it said of its loss."""
        self._had_replica = True
        if not self.resumable or now.at_end:
            if closed is not None and closed.code is not None:
                return self._end(Side.REPLICA, closed, to_client=closed)
            if told is not None:
                goodbye = replica_close(ReplicaLost())
                return (ToClient(told), *self._end(Side.GATEWAY, _LOST, to_client=_LOST, to_replica=goodbye))
            return self._fail(ReplicaLost())
        asked = self._ledger.at_work()
        at_work = {thing for thing in (None if now.stream_started else _INIT, asked) if thing is not None}
        match self._losses.lost(now.url, frozenset(at_work), kind):
            case "move":
                return self._move("unhealthy" if kind == "unhealthy" else "lost")
            case "too_often":
                return (*self._losses.settle(), *self._fail(ReplicaLost()))
            case "poison":
                return self._fail(PoisonSuspected())

    def _leave(self, now: Present) -> Commands:
        """Move if the session is to leave, and no work would be lost."""
        good_moment = not now.in_segment and not self._ledger.uncovered and self._outbox.is_empty
        return self._move("unhealthy") if now.is_left and good_moment and self.resumable else ()

    def _move(self, cause: MoveCause) -> Commands:
        self._now = None
        self._media_passes = False
        self._ledger.detach()
        if self._seen.anything:
            self._seen.move()
            self._goes_on = self._goes_on or cause != "refused"
        return (Move(cause),)

    def _fail(self, cause: SessionEnded) -> Commands:
        closed = Closed(cause.close_code, cause.close_reason)
        text = message_for(cause)
        commands = self._end(Side.GATEWAY, closed, to_client=closed, to_replica=replica_close(cause))
        return commands if text is None else (ToClient(Message(text)), *commands)

    def _end(
        self, by: Side, last: Closed, *, to_client: Closed | None = None, to_replica: Closed | None = None
    ) -> Commands:
        commands = ending(by, last, to_client=to_client, to_replica=to_replica if self._now else None)
        self.ended = True
        self._media_passes = False
        self._now = None
        self._outbox.clear()
        return commands
