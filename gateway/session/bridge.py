"""One session's shell: hands events to the core, carries out its commands, and watches the clock.

Everything here happens synchronously in callbacks of the two sides; nothing is buffered in between. When one
side does not take what it is sent, the other is not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.errors import IdleTimeout, InternalError, MessageTooBig, PingTimeout, ReplicaLost, SessionEnded
from gateway.session.core import Commands, End, SessionCore, Side, ToClient, ToReplica
from gateway.session.downstream import Downstream
from gateway.session.events import Closed, Event, Message, Ping
from gateway.session.upstream import Upstream
from gateway.session.watch import Limits, Silence, Stall, next_check, slow_consumer

logger = logging.getLogger("streamhold.session")


@dataclass(slots=True)
class Traffic:
    """What passed, for the session's log line."""

    messages: int = 0
    size_bytes: int = 0

    def count(self, message: Message) -> None:
        self.messages += 1
        self.size_bytes += message.size_bytes


class Bridge:
    """Joins an accepted client and an open replica until one of them, or the gateway, ends the session."""

    def __init__(self, door: Downstream, upstream: Upstream, core: SessionCore, limits: Limits) -> None:
        self._door = door
        self._upstream = upstream
        self._core = core
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[End] = self._loop.create_future()
        now = self._loop.time()
        self._last_message_at = now
        self._client_silence = Silence(now)
        self._replica_silence = Silence(now)
        self._replica_stall = Stall()
        self._client_paused = False
        self._replica_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self.from_client = Traffic()
        self.from_replica = Traffic()

    async def run(self) -> End:
        """Return once the session has ended and both closes are on their way or their deadlines passed.

        Needs the door to be accepted with this bridge as its listener. Cancel-safe: both sides are cut.
        """
        self._check()
        try:
            self._upstream.listen(self)
            return await self._ended
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def fail(self, cause: SessionEnded) -> None:
        """End the session for `cause`; a no-op once it has ended."""
        if not self._ended.done():
            self._carry_out(self._core.fail(cause))

    # What the client's door calls.

    def downstream_event(self, event: Event) -> None:
        now = self._loop.time()
        self._client_silence.heard(now)
        if isinstance(event, Message):
            self._last_message_at = now
            self.from_client.count(event)
        self._guarded(self._core.from_client, event)

    def downstream_paused(self) -> None:
        self._replica_paused = True
        self._upstream.pause_reading()

    def downstream_resumed(self) -> None:
        if self._replica_paused:
            self._replica_paused = False
            self._replica_silence.heard(self._loop.time())
            self._upstream.resume_reading()

    # What the replica's connection calls.

    def upstream_event(self, event: Event) -> None:
        now = self._loop.time()
        self._replica_silence.heard(now)
        if isinstance(event, Message):
            self._last_message_at = now
            self.from_replica.count(event)
        elif isinstance(event, Closed) and self._upstream.too_big:
            self.fail(MessageTooBig())
            return
        self._guarded(self._core.from_replica, event)

    def upstream_paused(self) -> None:
        self._client_paused = True
        self._door.pause_reading()

    def upstream_resumed(self) -> None:
        if self._client_paused:
            self._client_paused = False
            self._client_silence.heard(self._loop.time())
            self._door.resume_reading()

    def _guarded(self, rule: Callable[[Event], Commands], event: Event) -> None:
        try:
            self._carry_out(rule(event))
        except Exception:  # the outermost loop of a session's callbacks: a defect ends this session alone
            logger.exception("defect in a session")
            self.fail(InternalError())

    def _carry_out(self, commands: Commands) -> None:
        for command in commands:
            match command:
                case ToClient(event=event):
                    self._door.send(event)
                case ToReplica(event=event):
                    self._upstream.send(event)
                case End():
                    if not self._ended.done():
                        self._ended.set_result(command)

    def _check(self) -> None:
        """Look at every deadline, and set the timer for the next one that can come."""
        if self._ended.done():
            return
        now = self._loop.time()
        if cause := self._overdue(now):
            self.fail(cause)
            return
        asked = [silence for silence, _ in self._askable()]
        due = next_check(now, self._limits, last_message_at=self._last_message_at, silences=asked)
        self._timer = self._loop.call_at(due, self._check)

    def _overdue(self, now: float) -> SessionEnded | None:
        limits = self._limits
        if now - self._last_message_at >= limits.idle_timeout_seconds:
            return IdleTimeout()
        upstream = self._upstream
        self._replica_stall = self._replica_stall.seen(
            sent_bytes=upstream.sent_bytes, unsent_bytes=upstream.unsent_bytes, now=now
        )
        since = (self._door.stalled_since, self._replica_stall.since)
        if cause := slow_consumer(now, limits, stalled_since=since):
            self._door.drop_unsent()
            return cause
        for silence, side in self._askable():
            answer = silence.check(now, limits)
            if answer == "ping":
                (upstream if side is Side.REPLICA else self._door).send(Ping())
            elif answer == "dead":
                return ReplicaLost() if side is Side.REPLICA else PingTimeout()
        return None

    def _askable(self) -> Iterator[tuple[Silence, Side]]:
        """The sides whose pong could be heard now: a side that is not read cannot answer."""
        if not self._replica_paused:
            yield self._replica_silence, Side.REPLICA
        if self._door.capabilities.pings and not self._client_paused:
            yield self._client_silence, Side.CLIENT
