"""PURE but for its own fields. Which of a session's deadlines has passed, told from loop times alone.

Nothing here costs anything per message: a session keeps a few times, and one timer that looks at them when
the earliest of its deadlines could have come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gateway.errors import SlowConsumer


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadlines of `session:` in the settings, in seconds."""

    idle_timeout_seconds: float
    ping_interval_seconds: float
    ping_timeout_seconds: float
    slow_consumer_timeout_seconds: float
    segment_stall_seconds: float | None = None


@dataclass(slots=True)
class Silence:
    """Since when one side has said nothing, and whether it was asked."""

    last_heard_at: float
    pinged_at: float | None = None

    def heard(self, now: float) -> None:
        """Anything from the peer, a pong among it, shows that it lives."""
        self.last_heard_at = now
        self.pinged_at = None

    def check(self, now: float, limits: Limits) -> Literal["quiet", "ping", "dead"]:
        """`ping` once when the side was silent for the interval, `dead` when nothing followed in time."""
        if self.pinged_at is not None:
            return "dead" if now - self.pinged_at >= limits.ping_timeout_seconds else "quiet"
        if now - self.last_heard_at < limits.ping_interval_seconds:
            return "quiet"
        self.pinged_at = now
        return "ping"

    def due_at(self, limits: Limits) -> float:
        """When `check` can next say something other than `quiet`."""
        if self.pinged_at is not None:
            return self.pinged_at + limits.ping_timeout_seconds
        return self.last_heard_at + limits.ping_interval_seconds


@dataclass(frozen=True, slots=True)
class Stall:
    """Since when a side has taken nothing of what waits for it."""

    taken_bytes: int = 0
    since: float | None = None

    def seen(self, *, sent_bytes: int, unsent_bytes: int, now: float) -> Stall:
        """The stall after a look: `sent_bytes` were handed over in all, `unsent_bytes` of them still wait."""
        taken = sent_bytes - unsent_bytes
        if unsent_bytes == 0:
            return Stall(taken)
        if self.since is None or taken > self.taken_bytes:
            return Stall(taken, now)
        return self


def slow_consumer(
    now: float, limits: Limits, *, stalled_since: Iterable[float | None]
) -> SlowConsumer | None:
    """The cause when one of the sides has taken nothing for the slow-consumer timeout."""
    for since in stalled_since:
        if since is not None and now - since >= limits.slow_consumer_timeout_seconds:
            return SlowConsumer()
    return None


def next_check(
    now: float,
    limits: Limits,
    *,
    last_message_at: float,
    silences: Iterable[Silence],
    stalled_at: float | None = None,
) -> float:
    """Loop time of the next look: the earliest deadline that is known, and never later than a quarter of
    those whose time can begin between two looks (a slow consumer, a stalled segment).

    `silences` are those of the sides that can be asked now. At least a twentieth of a second ahead.
    """
    unforeseen = [limits.slow_consumer_timeout_seconds]
    if limits.segment_stall_seconds is not None:
        unforeseen.append(limits.segment_stall_seconds)
    dues = [
        last_message_at + limits.idle_timeout_seconds,
        now + min(unforeseen) / 4,
        *([] if stalled_at is None else [stalled_at]),
        *(silence.due_at(limits) for silence in silences),
    ]
    return max(min(dues), now + 0.05)
