"""Keeps the registry's replicas those that a source lists: the port to such a source, and the loop that asks.

No session is touched here, and no health: a replica that is new begins as unknown, one that is listed again
is what it was. While a source does not answer, the last set stays.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.clock import Clock, SystemClock
from gateway.discovery.belief import Belief, Patience
from gateway.discovery.listing import Listing, Problem
from gateway.discovery.static import Replicas, with_configured
from gateway.errors import SourceUnavailable
from gateway.logs import log_line
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry

logger = logging.getLogger("streamhold.discovery")

JITTER = 0.1
"""Each wait is longer or shorter by up to this share: many gateways do not ask in step."""
MOST_CAUSES = 20
"""Warnings that one outage is worth."""

MOST_PROBLEMS = 20
"""Entries that are no replicas which one answer has told by name."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a source is asked, and what its answers are worth."""

    every_seconds: float
    """From one question to the next."""
    deadline_seconds: float
    """A question that has not been answered by then has failed."""
    patience: Patience
    """How long a replica must be missing to be gone."""
    full_every_seconds: float = 0.0
    """A source that can tell its revision is asked for the whole list at least this often, whatever the
    revision says.
    """


class ReplicaSource(Protocol):
    """Somewhere that lists replicas. Asking changes nothing there."""

    @property
    def kind(self) -> str:
        """What the settings call it."""
        ...

    @property
    def pace(self) -> Pace:
        """How it wants to be asked."""
        ...

    async def revision(self) -> str | None:
        """A cheap word that is another one whenever the list may have changed; None from a source that has
        none, which is asked for the list each time. Raises SourceUnavailable.
        """
        ...

    async def listing(self) -> Listing:
        """Every replica that it knows. Raises SourceUnavailable."""
        ...


class ReplicaWatch:
    """Has the registry follow a source; the only one that reconciles it."""

    def __init__(
        self,
        registry: ReplicaRegistry,
        source: ReplicaSource,
        *,
        configured: Sequence[ReplicaEndpoint] = (),
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`configured` are replicas that are there whatever the source says."""
        self._registry, self._source = registry, source
        self._configured = tuple(configured)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._rng = rng if rng is not None else random.Random()
        self._belief = Belief()
        self._listing: Listing | None = None
        self._revision: str | None = None
        self._listed_at = 0.0
        self._failing_since: float | None = None
        self._failures = 0
        self._causes: set[str] = set()
        self._doubted = False
        self._problems: frozenset[Problem] = frozenset()
        self._replicas: Replicas | None = None

    async def run(self) -> None:
        """Ask for ever. Cancel-safe: the registry is changed between two awaits."""
        while True:
            every = self._source.pace.every_seconds
            await self._clock.sleep(every * (1 + JITTER * self._rng.uniform(-1, 1)))
            await self.look()

    async def look(self) -> None:
        """Ask once: afterwards the registry has what is believed now, or the failure has been told."""
        try:
            async with asyncio.timeout(self._source.pace.deadline_seconds):
                listing = await self._ask()
        except TimeoutError:
            self._failed(SourceUnavailable(f"no answer within {self._source.pace.deadline_seconds:.3g} s"))
        except SourceUnavailable as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001 - a defect of a source must not end the watch
            said = f"{type(error).__name__}: {error}"
            self._failed(SourceUnavailable(said, cause=type(error).__name__), error)
        else:
            self._answered(listing)

    async def _ask(self) -> Listing:
        """The source's list: a new one, unless the old one is still good."""
        # The revision is asked for first: what changes before the list comes is then seen as one more change.
        revision = await self._source.revision()
        now = self._clock.monotonic()
        known = self._listing
        if (
            known is not None
            and revision is not None
            and revision == self._revision
            and not self._belief.missing_since
            and now - self._listed_at < self._source.pace.full_every_seconds
        ):
            return known
        listing = await self._source.listing()
        self._listing, self._revision, self._listed_at = listing, revision, now
        return listing

    def _answered(self, listing: Listing) -> None:
        now = self._clock.monotonic()
        if self._failing_since is not None:
            seconds = now - self._failing_since
            logger.info(self._line("discovery_answers_again", failures=self._failures, seconds=seconds))
            self._failing_since, self._failures = None, 0
            self._causes.clear()
        self._belief = self._belief.next(listing.replicas, now, self._source.pace.patience)
        self._tell_doubt()
        wanted = with_configured(self._configured, self._belief.replicas.values())
        self._tell_problems((*listing.problems, *wanted.problems))
        if wanted != self._replicas:
            self._replicas = wanted
            self._registry.reconcile(wanted.endpoints, withheld=wanted.withheld)

    def _failed(self, failure: SourceUnavailable, defect: Exception | None = None) -> None:
        """One warning for each cause among the failures in a row; the last set stays, and what was missing is
        asked for anew.
        """
        self._belief = self._belief.unanswered()
        self._listing = None
        self._doubted = False
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        kept = len(self._belief.replicas)
        line = self._line("discovery_failed", replicas_kept=kept, reason=str(failure))
        new = failure.cause not in self._causes and len(self._causes) < MOST_CAUSES
        if new:
            self._causes.add(failure.cause)
        logger.log(logging.WARNING if new else logging.DEBUG, line, exc_info=defect)

    def _tell_doubt(self) -> None:
        """One warning when a set has shrunk so far that it is kept for longer."""
        missing, known = len(self._belief.missing_since), len(self._belief.replicas)
        doubted = missing * 2 > known
        if doubted and not self._doubted:
            seconds = self._source.pace.patience.needed(missing, known)
            line = self._line("discovery_doubted", missing=missing, known=known, kept_for_seconds=seconds)
            logger.warning(line)
        self._doubted = doubted

    def _tell_problems(self, problems: Iterable[Problem]) -> None:
        """One warning for each that was not there at the last answer; of many, for the first ones and their
        number.
        """
        found = frozenset(problems)
        new = sorted(found - self._problems, key=lambda one: (one.who, one.reason))
        for problem in new[:MOST_PROBLEMS]:
            logger.warning(self._line("discovery_ignored", who=problem.who, reason=problem.reason))
        if more := len(new[MOST_PROBLEMS:]):
            logger.warning(self._line("discovery_ignored", more=more))
        self._problems = found

    def _line(self, event: str, **fields: object) -> str:
        return log_line(event, source=self._source.kind, **fields)
