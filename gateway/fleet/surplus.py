"""PURE. How many of its sessions a gateway hands back to its fleet, by one view.

Where `excess` finds nothing, or the view cannot be trusted, it is none. Else, so that no session goes to and
fro between gateways:

1. What is above the mean is rounded down (`excess` rounds up): whoever hands over stays at the mean or above
   it. By 3 and 2 sessions nothing moves; rounded up, the odd one would go back and forth for ever.
2. Sessions that were handed over lately are on their way: the report of the gateway where they arrive may be
   older than they are. They are counted as if they were there, in the mean and so in the tolerance.
3. What this gateway has now counts where it is less than it had when it reported.
"""

from __future__ import annotations

import math
from fractions import Fraction

from gateway.fleet.view import FleetView, exact

MOVABLE = "movable"
"""The report's key for the sessions that could be handed over: the cap of `excess`."""


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
