"""Waiting for AWS: looks now and then, tells what has happened since, and bears a look that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from infra.clock import Clock, SystemClock
from infra.errors import AwsError, Credentials, Denied, Throttled, Unfinished, Unreachable
from infra.stack import Stack, event_line, in_progress, last_operation, unfinished
from infra.stacks import Stacks
from infra.telling import Telling
from infra.words import lasting, listed

QUIET_SECONDS = 60.0
"""After so long without news it is told that the wait goes on."""
FAILED_LOOKS = 6
"""So many in a row, and the wait is over."""
LONGEST_PAUSE_SECONDS = 60.0


GOES_ON = "what has begun goes on in AWS: the same command again waits for it"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to look, and for how long."""

    every_seconds: float = 5.0
    timeout_seconds: float = 3600.0


@dataclass(slots=True)
class Watch:
    """One wait, from its first look to its end."""

    telling: Telling
    pace: Pace = field(default_factory=Pace)
    clock: Clock = field(default_factory=SystemClock)

    def until(self, look: Callable[[], bool], what: str) -> None:
        """Return once `look()` is true. Raises Unfinished when time is up, AwsError when AWS stays silent.

        A `look` tells its own news.
        """
        began = self.clock.monotonic()
        failures = 0
        while True:
            try:
                if look():
                    return
                failures = 0
            except (Throttled, Unreachable) as error:
                failures += 1
                if failures > FAILED_LOOKS:
                    raise
                self._bear(error, failures)
            except (Credentials, Denied) as error:
                # A long wait outlives what somebody signed in with.
                raise type(error)(*error.lines, GOES_ON) from None
            waited = self.clock.monotonic() - began
            if waited >= self.pace.timeout_seconds:
                told = lasting(timedelta(seconds=waited))
                raise Unfinished(f"{what} is not done after {told}; --timeout gives it longer", GOES_ON)
            self.clock.sleep(min(self.pace.every_seconds * 2 ** min(failures, 8), self._longest()))

    def _bear(self, error: AwsError, failures: int) -> None:
        if failures == 1:
            self.telling.line(f"  {error.lines[0]}; looking again")

    def _longest(self) -> float:
        return max(LONGEST_PAUSE_SECONDS, self.pace.every_seconds)


def await_stack(stacks: Stacks, stack_id: str, watch: Watch, *, until: frozenset[str] | None = None) -> Stack:
    """The stack once AWS works on it no more, or is in one of the states `until`; what happens meanwhile is
    told. Raises as Watch.until does.
    """
    told: set[str] = set()
    found: list[Stack] = []
    quiet_since = watch.clock.monotonic()

    def look() -> bool:
        nonlocal quiet_since
        # The state first: whatever has happened before it is among the events then.
        stack = stacks.stack(stack_id)
        events = last_operation(stacks.events(stack_id))
        news = [event for event in events if event.id not in told]
        for event in news:
            told.add(event.id)
            watch.telling.line(event_line(event))
        now = watch.clock.monotonic()
        if news:
            quiet_since = now
        if stack is None:
            raise Unfinished("the stack is gone while it was waited for")
        if stack.status in until if until is not None else not in_progress(stack.status):
            found.append(stack)
            return True
        if now - quiet_since >= QUIET_SECONDS:
            quiet_since = now
            busy = unfinished(events)
            watch.telling.line(f"  still {stack.status}{f', at {listed(busy)}' if busy else ''}")
        return False

    watch.until(look, "the stack")
    return found[-1]
