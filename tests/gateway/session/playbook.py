"""A session core's part, played line by line: an event in, exactly the expected commands out.

    Playbook(core)
        .client(Message("a")).expect(ToReplica(Message("a")))
        .fails(IdleTimeout()).expect(...)

A line without an `expect` behind it expects nothing, and so does the end: `over()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from gateway.errors import SessionEnded
from gateway.session.core import Command, Commands, SessionCore, UnhealthyPolicy
from gateway.session.events import Event


class Playbook:
    """Fails at the line whose answer is not the expected one."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._line = "the beginning"
        self._answer: Commands = ()

    def client(self, event: Event) -> Self:
        """The client says `event`."""
        return self._next(f"client says {event}", lambda: self._core.from_client(event))

    def replica(self, event: Event) -> Self:
        """The replica says `event`."""
        return self._next(f"replica says {event}", lambda: self._core.from_replica(event))

    def attached(self, replica: str, name: str | None = None) -> Self:
        """The replica with this URL took the session; it is called `name`, or like the URL."""
        return self._next(f"attached to {replica}", lambda: self._core.attached(replica, name or replica))

    def unavailable(self, cause: SessionEnded) -> Self:
        """No replica is to be had."""
        return self._next(f"no replica: {type(cause).__name__}", lambda: self._core.unavailable(cause))

    def queued(self, position: int, depth: int) -> Self:
        """The client waits."""
        return self._next(f"queued at {position}", lambda: self._core.queued(position, depth))

    def unhealthy(self, policy: UnhealthyPolicy) -> Self:
        """The replica turned unhealthy."""
        return self._next(f"unhealthy, {policy}", lambda: self._core.unhealthy(policy))

    def stalled(self) -> Self:
        """The replica was silent for too long inside a segment."""
        return self._next("stalled", self._core.stalled)

    def fails(self, cause: SessionEnded) -> Self:
        """The shell ends the session for `cause`."""
        return self._next(f"shell fails it for {type(cause).__name__}", lambda: self._core.fail(cause))

    def expect(self, *commands: Command) -> Self:
        """The last line was answered by exactly these, in this order."""
        answer, self._answer = self._answer, ()
        assert answer == commands, f"after {self._line}: {answer} instead of {commands}"
        return self

    def over(self) -> None:
        """Nothing else was commanded."""
        self.expect()

    def _next(self, line: str, answer: Callable[[], Commands]) -> Self:
        self.expect()
        self._line = line
        self._answer = answer()
        return self
