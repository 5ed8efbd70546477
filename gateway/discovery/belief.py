"""PURE. Which replicas there are, by the answers of a source that may forget some for a while.

A source is asked again and again, and can be wrong in one direction above all: it was emptied, restarted,
failed over, or has caught up with a part only, and leaves out replicas that are fine. To take sessions away
from them is worse than to list a dead one a little longer, whose probes and connects fail anyway. So

1. The first answer is believed as it is, and whatever a later one lists is believed at once: replicas join,
   change and drain without a wait.
2. One that is missing stays as it was last listed, until every answer for `confirm_seconds` has lacked it.
3. Where more than half of those believed are missing, all of them for instance, that takes `settle_seconds`.
4. Only answers count: when there is none, the wait begins anew with the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from gateway.discovery.listing import Listed


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a replica must have been missing to be gone."""

    confirm_seconds: float
    """Where at most half of them are missing."""
    settle_seconds: float
    """Where more are; never shorter than the other."""

    def needed(self, missing: int, of: int) -> float:
        """How long `missing` of so many must have been missing."""
        longest = max(self.confirm_seconds, self.settle_seconds)
        return longest if missing * 2 > of else self.confirm_seconds


@dataclass(frozen=True, slots=True)
class Belief:
    """The replicas that are taken to be there."""

    replicas: Mapping[str, Listed] = field(default_factory=lambda: MappingProxyType({}))
    """By URL, as each was last listed."""
    missing_since: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Of those, the ones that the last answers in a row have lacked: since when, by the caller's steady
    clock.
    """
    answered: bool = False
    """Whether there has been an answer at all."""

    def next(self, listed: tuple[Listed, ...], at_seconds: float, patience: Patience) -> Self:
        """What is believed after an answer that came at `at_seconds`."""
        present = {one.key: one for one in listed}
        if not self.answered:
            return type(self)(MappingProxyType(present), answered=True)
        missing = {
            key: self.missing_since.get(key, at_seconds) for key in self.replicas if key not in present
        }
        needed = patience.needed(len(missing), of=len(self.replicas))
        kept = {key: since for key, since in missing.items() if at_seconds - since < needed}
        replicas = {key: self.replicas[key] for key in kept} | present
        return type(self)(MappingProxyType(replicas), MappingProxyType(kept), answered=True)

    def unanswered(self) -> Self:
        """What is believed after a question that got no answer: the same, for as long as it takes."""
        return type(self)(self.replicas, answered=self.answered)
