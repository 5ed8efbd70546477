"""One session's pump: hands events to the core, carries out its commands, and watches the clock.

Everything here happens synchronously in callbacks of the two sides; nothing is buffered in between. When one
side does not take what it is sent, the other is not read. A session may have no replica for a while, before
its first one or between two: the core keeps what the client says meanwhile, which is read up to a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.errors import (
    HandedBack,
    IdleTimeout,
    InternalError,
    MessageTooBig,
    PingTimeout,
    ReplicaLost,
    SessionEnded,
)
from gateway.session.core import (
    Blame,
    Commands,
    End,
    Handover,
    Move,
    SessionCore,
    Side,
    ToClient,
    ToReplica,
    UnhealthyPolicy,
)
from gateway.session.downstream import Downstream
from gateway.session.events import Closed, Event, Message, Ping
from gateway.session.upstream import Upstream
from gateway.session.watch import Limits, Silence, Stall, next_check, slow_consumer

logger = logging.getLogger("streamhold.session")

BACKLOG_BYTES = 1024 * 1024
"""What may be kept of a client that has no replica yet; above it the client is not read."""


@dataclass(slots=True)
class Traffic:
    """What passed, for the session's log line."""

    messages: int = 0
    size_bytes: int = 0

    def count(self, message: Message) -> None:
        self.messages += 1
        self.size_bytes += message.size_bytes


class Bridge:
    """Joins an accepted client and the replica that serves it, until one of them, or the gateway, ends it."""

    def __init__(
        self, door: Downstream, core: SessionCore, limits: Limits, blame: Callable[[str], None]
    ) -> None:
        self._door = door
        self._core = core
        self._limits = limits
        self._blame = blame
        self._upstream: Upstream | None = None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[End] = self._loop.create_future()
        self._outcome: asyncio.Future[End | Move] = self._loop.create_future()
        self._first_message: asyncio.Future[Message] = self._loop.create_future()
        now = self._loop.time()
        self.since = now
        """When the session began, by the loop's clock."""
        self._last_message_at = now
        self._replica_message_at = now
        self._client_silence = Silence(now)
        self._replica_silence = Silence(now)
        self._replica_stall = Stall()
        self._client_paused = False
        self._replica_writable = True
        self._replica_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._handover_granted: Callable[[], bool] | None = None
        self.from_client = Traffic()
        self.from_replica = Traffic()

    def start(self) -> None:
        """Watch the session's deadlines from now on; `stop` undoes it."""
        self._check()

    def stop(self) -> None:
        """No deadline is watched any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def waiting(self) -> bool:
        """No replica serves the session at the moment."""
        return self._upstream is None

    @property
    def resumes(self) -> int:
        """How often the session has gone on at another replica."""
        return self._core.resumes

    @property
    def handover(self) -> Handover:
        """Whether the client would lose nothing by connecting again."""
        found: Handover = "never"

        def ask() -> Commands:
            nonlocal found
            found = self._core.handover
            return ()

        self._guarded(ask)
        return found

    def attach(self, upstream: Upstream, replica: str, name: str) -> None:
        """`upstream` serves the session from now on: what the core has kept is said to it, and it is heard.

        Where it has refused or lost the session already, that shows in `outcome`.
        """
        now = self._loop.time()
        self._upstream = upstream
        self._replica_message_at = now
        self._replica_silence = Silence(now)
        self._replica_stall = Stall()
        self._outcome = self._loop.create_future()
        if self.ended.done():
            self._outcome.set_result(self.ended.result())
        self._guarded(lambda: self._core.attached(replica, name))
        if self._upstream is upstream:
            upstream.listen(self)
            if self._replica_paused:
                upstream.pause_reading()
        self._guarded(self._regulate_client)
        self._check_anew()

    async def first_message(self) -> Message:
        """What the client says first. Cancel-safe."""
        return await asyncio.shield(self._first_message)

    async def outcome(self) -> End | Move:
        """How the time with the attached replica ended: by a `Move` also where the session has ended since.

        Cancel-safe.
        """
        return await asyncio.shield(self._outcome)

    # What the gateway decides.

    def fail(self, cause: SessionEnded) -> None:
        """End the session for `cause`; a no-op once it has ended."""
        self._guarded(lambda: self._core.fail(cause))

    def unavailable(self, cause: SessionEnded) -> None:
        """No replica could be had."""
        self._guarded(lambda: self._core.unavailable(cause))

    def queued(self, position: int, depth: int) -> None:
        """The client waits in the queue at `position` of `depth`."""
        self._guarded(lambda: self._core.queued(position, depth))

    def unhealthy(self, policy: UnhealthyPolicy) -> None:
        """The replica that serves the session turned unhealthy; a no-op where none does."""
        if not self.waiting:
            self._guarded(lambda: self._core.unhealthy(policy))

    def offer_handover(self, granted: Callable[[], bool]) -> None:
        """Ask `granted` now, and after each of the replica's messages, where the client would lose nothing
        by connecting again. Once it says yes, the session ends for that.
        """
        self._handover_granted = granted
        self._guarded(self._handed_over_if_granted)

    def _handed_over_if_granted(self) -> Commands:
        granted = self._handover_granted
        if granted is None or self._core.handover != "now" or not granted():
            return ()
        return self._core.fail(HandedBack())

    # What the client's door calls.

    def downstream_event(self, event: Event) -> None:
        now = self._loop.time()
        self._client_silence.heard(now)
        if isinstance(event, Message):
            self._last_message_at = now
            if not self.from_client.messages:
                self._first_message.set_result(event)
            self.from_client.count(event)
        self._guarded(self._core.from_client, event)
        if self._upstream is None or self._core.backlog_bytes > BACKLOG_BYTES:
            self._guarded(self._regulate_client)

    def downstream_paused(self) -> None:
        self._replica_paused = True
        if self._upstream is not None:
            self._upstream.pause_reading()

    def downstream_resumed(self) -> None:
        if self._replica_paused:
            self._replica_paused = False
            now = self._loop.time()
            self._replica_silence.heard(now)
            self._replica_message_at = now
            if self._upstream is not None:
                self._upstream.resume_reading()
            self._check_anew()

    # What the replica's connection calls.

    def upstream_event(self, event: Event) -> None:
        now = self._loop.time()
        self._replica_silence.heard(now)
        if isinstance(event, Message):
            self._last_message_at = now
            self._replica_message_at = now
            self.from_replica.count(event)
        elif isinstance(event, Closed) and self._upstream is not None and self._upstream.too_big:
            self.fail(MessageTooBig())
            return
        self._guarded(self._core.from_replica, event)
        if self._handover_granted is not None:
            self._guarded(self._handed_over_if_granted)
        if self._client_paused:
            self._guarded(self._regulate_client)  # the replica may have been told what was kept for it

    def upstream_paused(self) -> None:
        self._replica_writable = False
        self._guarded(self._regulate_client)

    def upstream_resumed(self) -> None:
        self._replica_writable = True
        self._guarded(self._regulate_client)

    def _regulate_client(self) -> Commands:
        """Read the client exactly while what it says has somewhere to go."""
        pause = self._core.backlog_bytes > BACKLOG_BYTES or not self._replica_writable
        if pause and not self._client_paused:
            self._client_paused = True
            self._door.pause_reading()
        elif self._client_paused and not pause:
            self._client_paused = False
            self._client_silence.heard(self._loop.time())
            self._door.resume_reading()
        return ()

    def _guarded(self, rule: Callable[..., Commands], *event: Event) -> None:
        """Carry out what `rule` says of `event`. A defect there ends this session alone, and is told.

        Once the session has ended, nothing more is asked.
        """
        if self.ended.done():
            return
        try:
            self._carry_out(rule(*event))
        except Exception:  # the outermost loop of a session's callbacks
            logger.exception("defect in a session")
            self._give_up()

    def _give_up(self) -> None:
        """End the session without asking the core, which may be what is broken."""
        if not self.ended.done():
            closed = Closed(InternalError.close_code, InternalError.close_reason)
            self._door.send(closed)
            if self._upstream is not None:
                self._upstream.send(Closed(1001, InternalError.close_reason))
            self._end(End(Side.GATEWAY, InternalError.close_code, InternalError.close_reason))

    def _carry_out(self, commands: Commands) -> None:
        for command in commands:
            match command:
                case ToClient(event=event):
                    self._door.send(event)
                case ToReplica(event=event):
                    if self._upstream is not None:
                        self._upstream.send(event)
                case Blame(replica=replica):
                    self._blame(replica)
                case Move():
                    self._detach()
                    self._outcome.set_result(command)
                case End():
                    self._end(command)

    def _end(self, end: End) -> None:
        self.ended.set_result(end)
        if not self._outcome.done():
            self._outcome.set_result(end)

    def _detach(self) -> None:
        """The replica is heard no more; what it does not read no longer holds the client back."""
        if self._upstream is not None:
            self._upstream.mute()
        self._upstream = None
        self._replica_writable = True
        self._regulate_client()

    def _check_anew(self) -> None:
        """A side can be asked from now on that could not be before: its deadline may be the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._check()

    def _check(self) -> None:
        """Look at every deadline, and set the timer for the next one that can come."""
        if not self.ended.done():
            self._guarded(self._look)

    def _look(self) -> Commands:
        now = self._loop.time()
        if cause := self._overdue(now):
            commands = self._core.fail(cause)
            if any(isinstance(command, End) for command in commands):
                return commands
            self._carry_out(commands)
        asked = [silence for silence, _ in self._askable()]
        due = next_check(
            now,
            self._limits,
            last_message_at=self._last_message_at,
            silences=asked,
            stalled_at=self._segment_stalled_at(),
        )
        self._timer = self._loop.call_at(due, self._check)
        return ()

    def _overdue(self, now: float) -> SessionEnded | None:
        limits = self._limits
        if now - self._last_message_at >= limits.idle_timeout_seconds:
            return IdleTimeout()
        if cause := slow_consumer(now, limits, stalled_since=self._stalls(now)):
            self._door.drop_unsent()
            return cause
        stalled_at = self._segment_stalled_at()
        if stalled_at is not None and now >= stalled_at:
            self._carry_out(self._core.stalled())
        for silence, side in list(self._askable()):
            answer = silence.check(now, limits)
            if answer == "ping":
                self._ping(side)
            elif answer == "dead":
                return PingTimeout() if side is Side.CLIENT else ReplicaLost()
        return None

    def _stalls(self, now: float) -> Iterator[float | None]:
        """Since when each side has taken nothing of what waits for it."""
        yield self._door.stalled_since
        if (upstream := self._upstream) is not None:
            self._replica_stall = self._replica_stall.seen(
                sent_bytes=upstream.sent_bytes, unsent_bytes=upstream.unsent_bytes, now=now
            )
            yield self._replica_stall.since

    def _segment_stalled_at(self) -> float | None:
        """When a replica that says nothing more within its segment counts as lost; None while it can't."""
        seconds = self._limits.segment_stall_seconds
        if seconds is None or self._upstream is None or self._replica_paused or not self._core.in_segment:
            return None
        return self._replica_message_at + seconds

    def _askable(self) -> Iterator[tuple[Silence, Side]]:
        """The sides whose pong could be heard now: a side that is not read cannot answer."""
        if self._upstream is not None and not self._replica_paused:
            yield self._replica_silence, Side.REPLICA
        if self._door.capabilities.pings and not self._client_paused:
            yield self._client_silence, Side.CLIENT

    def _ping(self, side: Side) -> None:
        if side is Side.CLIENT:
            self._door.send(Ping())
        elif self._upstream is not None:
            self._upstream.send(Ping())
