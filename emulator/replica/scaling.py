"""PURE. A replica that costs something only while it is used, as serverless GPUs do.

1. Asleep it has no worker, and costs nothing. Its port is that of the platform before it: open.
2. Whatever comes wakes it, a probe as well as a session, and waits until it is warm.
3. Once nothing has come for a while and no session is open, it goes back to sleep. A connection that is open
   and says nothing keeps it from that no more than no connection.
4. Time counts from the moment that it is woken until it sleeps: warming up is paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ScaleToZero:
    """How soon it sleeps, and how long it takes to wake."""

    idle_seconds: float = 60.0
    """Without a request or a session for so long, it sleeps."""
    wake_seconds: float = 5.0
    """From what wakes it until it is warm."""

    def __post_init__(self) -> None:
        for name, seconds in (("idle_seconds", self.idle_seconds), ("wake_seconds", self.wake_seconds)):
            if not 0 <= seconds < math.inf:
                raise ValueError(f"{name} must be 0 or more, not {seconds}")


class Power(StrEnum):
    """What there is behind the port."""

    ASLEEP = "asleep"
    WAKING = "waking"
    AWAKE = "awake"


@dataclass(slots=True)
class Scaling:
    """One life of it. Times are seconds of a steady clock."""

    traits: ScaleToZero
    power: Power = Power.ASLEEP
    busy: int = 0
    """Requests and sessions under way."""
    turns_at: float | None = None
    """When it is warm, or asleep, if nothing comes before that."""

    def touch(self, now: float) -> bool:
        """Something has come; whether that woke it."""
        match self.power:
            case Power.ASLEEP:
                self.power, self.turns_at = Power.WAKING, now + self.traits.wake_seconds
                return True
            case Power.AWAKE:
                self._rest(now)
            case Power.WAKING:
                pass
        return False

    def begin(self) -> None:
        """One more request or session is under way."""
        self.busy += 1
        if self.power is Power.AWAKE:
            self.turns_at = None

    def end(self, now: float) -> None:
        """One is through."""
        self.busy -= 1
        if self.power is Power.AWAKE:
            self._rest(now)

    def turn(self, now: float) -> Power | None:
        """What it has become by time alone; None for nothing else than it was."""
        if self.turns_at is None or now < self.turns_at:
            return None
        if self.power is Power.WAKING:
            self.power = Power.AWAKE
            self._rest(now)
        else:
            self.power, self.turns_at = Power.ASLEEP, None
        return self.power

    def _rest(self, now: float) -> None:
        self.turns_at = None if self.busy else now + self.traits.idle_seconds
