"""PURE. When a replica that loses its sessions is left out for a while, although its probes pass.

1. A loss counts against a replica when somebody who can judge it says so: the session went on elsewhere, so
   that it was neither the client's fault nor a prompt's that takes every replica with it.
2. `consecutive_losses` of them in a row, without a session that got on in between, eject the replica: no
   session is placed on it while another one is usable. The row begins anew then.
3. It is out for `base_seconds`, and each further time for that much longer, up to `max_seconds`. A replica
   that has been back for `max_seconds` without another ejection begins at `base_seconds` again.
4. At most `max_ejected_share` of the replicas that are otherwise usable are out at once, rounded down: of one
   replica none, of two or three one. A replica that the bound keeps in is ejected by its next loss once there
   is room for it.
5. Losses while it is out do not count: its old sessions may still be ending.

Times are seconds of a clock that never goes back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class OutlierPolicy:
    """The rule's figures. Raises ValueError with every problem when it cannot be used."""

    consecutive_losses: int = 5
    """Sessions lost in a row that eject a replica."""
    base_seconds: float = 30.0
    """How long the first ejection lasts."""
    max_seconds: float = 300.0
    """How long any ejection lasts at most."""
    max_ejected_share: float = 0.5
    """Of the usable replicas at most this share is ejected at once; 0 turns ejection off."""

    def __post_init__(self) -> None:
        problems = []
        if self.consecutive_losses < 1:
            problems.append(f"consecutive_losses must be 1 or more, not {self.consecutive_losses}")
        if not 0 < self.base_seconds < math.inf:
            problems.append(f"base_seconds must be more than 0, not {self.base_seconds}")
        if not self.base_seconds <= self.max_seconds < math.inf:
            problems.append(f"max_seconds must not be below base_seconds, and is {self.max_seconds}")
        if not 0 <= self.max_ejected_share <= 1:
            problems.append(f"max_ejected_share must be from 0 to 1, not {self.max_ejected_share}")
        if problems:
            raise ValueError("\n".join(problems))


@dataclass(frozen=True, slots=True)
class OutlierRecord:
    """What the rule remembers of one replica."""

    losses: int = 0
    """Sessions lost in a row."""
    ejections: int = 0
    """How often it has been ejected, until it held out long enough."""
    ejected_until: float | None = None
    """When the last ejection ends or ended; None before the first."""

    def ejected(self, at: float) -> bool:
        """Whether it is out at `at`."""
        return self.ejected_until is not None and at < self.ejected_until


def may_eject(policy: OutlierPolicy, *, usable: int, ejected: int) -> bool:
    """Whether one more of `usable` replicas, of which `ejected` are out already, may be ejected."""
    return ejected + 1 <= math.floor(policy.max_ejected_share * usable)


def after_loss(policy: OutlierPolicy, record: OutlierRecord, *, at: float, permitted: bool) -> OutlierRecord:
    """What `record` becomes by a loss at `at`; `permitted` is what `may_eject` says."""
    if record.ejected(at):
        return record
    losses = record.losses + 1
    if losses < policy.consecutive_losses or not permitted:
        return replace(record, losses=losses)
    held_out = record.ejected_until is not None and at - record.ejected_until >= policy.max_seconds
    ejections = 1 if held_out else record.ejections + 1
    seconds = min(policy.base_seconds * ejections, policy.max_seconds)
    return OutlierRecord(losses=0, ejections=ejections, ejected_until=at + seconds)


def after_progress(record: OutlierRecord) -> OutlierRecord:
    """What `record` becomes when a session gets on: the row of losses is broken. An ejection goes on."""
    return replace(record, losses=0) if record.losses else record
