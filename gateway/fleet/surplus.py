"""PURE. How many of its sessions a gateway hands back to its fleet, by one view.

Where `excess` finds nothing, or the view cannot be trusted, it is none. Else, so that no session goes to and
fro between gateways:

1. What is above the mean is rounded down (`excess` rounds up): whoever hands over stays at the mean or above
   it. By 3 and 2 sessions nothing moves; rounded up, the odd one would go back and forth for ever.
2. Sessions that were handed over lately are on their way: the report of the gateway where they arrive may be
   older than they are. They are counted as if they were there, in the mean and so in the tolerance.
3. What this gateway has now counts where it is less than it had when it reported.

A client may come back to the very gateway that handed it back, each time. So what a step has brought about is
looked at once it has settled (`BackOff`):

4. Where the load is no less than before the step, the next one waits twice as long, counted from the step's
   begin: 2, 4, 8, 16 and then 32 settling times. Those that are on their way count as if they were back.
5. Where it is less, or the fleet has become another one, nobody waits: other members, other states, or a mean
   that is off by a session and by a quarter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from gateway.fleet.view import FleetView, exact

MOVABLE = "movable"
"""The report's key for the sessions that could be handed over: the cap of `excess`."""
MOST_DOUBLINGS = 5
"""So often at most is the wait doubled: 32 settling times."""
OTHER_MEAN = Fraction(1, 4)
"""A mean that is off by this share of itself makes another fleet."""


def surplus(view: FleetView, me: str, tolerance: float, *, load: int, on_their_way: int) -> int:
    """How many of its `load` sessions the member `me` should hand over now, where `excess` says any."""
    loads = view.loads()
    if me not in loads or math.isinf(tolerance):
        return 0
    mine = min(loads[me], Fraction(load))
    others = sum(loads.values(), Fraction()) - loads[me]
    mean = (others + mine + on_their_way) / len(loads)
    if mine <= mean * (1 + exact(tolerance)):
        return 0
    return math.floor(mine - mean)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a gateway that may hand sessions back knows at one time."""

    at_seconds: float
    """By its own steady clock."""
    view: FleetView
    load: int
    """Its sessions."""
    on_their_way: int
    """Those that went so lately that they may be anywhere."""

    @property
    def most(self) -> int:
        """Its sessions, if all that are on their way came back to it."""
        return self.load + self.on_their_way

    def is_of_another_fleet(self, than: Moment) -> bool:
        """Whether what was learnt `than` need not hold any more."""
        if self.view.hash != than.view.hash:
            return True
        loads, before = self.view.loads().values(), than.view.loads().values()
        if not loads or not before:
            return bool(loads) != bool(before)
        # Those on their way are in nobody's report, or in one already.
        least, mean = sum(loads, Fraction()) / len(loads), sum(before, Fraction()) / len(before)
        off = max(least - mean, mean - least - Fraction(self.on_their_way, len(loads)))
        return off >= max(Fraction(1), mean * OTHER_MEAN)


@dataclass(frozen=True, slots=True)
class BackOff:
    """What the last step has taught. A step is what goes from one settling time's begin to its end."""

    begun: Moment | None = None
    """When the first session of the last step was about to go; None where nothing is known of any."""
    in_vain: int = 0
    """Steps in a row that changed nothing; no more are counted than matter."""
    judged: bool = True
    """Whether the last step is over, and counted."""

    def stepped(self, moment: Moment) -> BackOff:
        """What holds once a session has gone at `moment`, the first of its step or a further one."""
        return BackOff(moment, self.in_vain, judged=False) if self.judged else self

    def next(self, now: Moment, settle_seconds: float) -> BackOff:
        """What is known `now`, where a step takes `settle_seconds` to show."""
        if self.begun is None or now.is_of_another_fleet(self.begun):
            return BackOff()
        if self.judged or now.at_seconds - self.begun.at_seconds < settle_seconds:
            return self
        if now.most < self.begun.most:
            return BackOff()
        return BackOff(self.begun, min(self.in_vain + 1, MOST_DOUBLINGS))

    def wait_seconds(self, settle_seconds: float) -> float:
        """How long after the begin of the last step nobody goes; 0 where that does not matter."""
        return settle_seconds * 2**self.in_vain if self.in_vain and self.judged else 0.0

    def waits(self, now_seconds: float, settle_seconds: float) -> bool:
        """Whether nobody is to go yet."""
        return self.begun is not None and now_seconds - self.begun.at_seconds < self.wait_seconds(
            settle_seconds
        )
