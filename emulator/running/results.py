"""PURE. The verdict on a scenario, and its account: what happened when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from emulator.running.account import account_of
from emulator.running.seen import Played
from emulator.running.words import counted
from emulator.scenario import NEEDS, Need, Scenario
from emulator.scenario.text import printable

Verdict = Literal["passed", "failed", "cannot"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one scenario."""

    scenario: Scenario
    verdict: Verdict
    seconds: float
    findings: tuple[str, ...] = ()
    """What was not as expected, or why it could not be played."""
    played: Played | None = None
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """One line."""
        word = {"passed": "PASS", "failed": "FAIL", "cannot": "----"}[self.verdict]
        first = f"  {self.findings[0]}" if self.verdict == "cannot" else ""
        return f"{word}  {self.scenario.name}  ({self.seconds:.1f} s){first}"

    def lines(self, *, account: bool) -> Iterator[str]:
        """The verdict for people; with the account of what happened, if that is wanted. What others wrote is
        made fit for a terminal."""
        return (printable(line.expandtabs()) for line in self._lines(account=account))

    def _lines(self, *, account: bool) -> Iterator[str]:
        yield self.headline
        yield from (f"      note: {note}" for note in self.notes)
        if self.verdict == "failed":
            for finding in self.findings:
                first, *rest = finding.splitlines() or [""]
                yield f"      {first}"
                yield from (f"        | {line}" for line in rest)
        if account and self.played is not None:
            yield f"      what happened (seed {self.played.seed}; seconds since the beginning):"
            yield from (f"      {line}" for line in account_of(self.played))
        if self.verdict == "failed" and self.played is not None and self.played.gateway.tail:
            yield "      the gateway's last lines:"
            yield from (f"        | {line}" for line in self.played.gateway.tail.splitlines())


def lacking(needs: Sequence[Need]) -> str:
    """Why a gateway cannot be asked for a scenario, in words."""
    return "cannot: the gateway does not " + "; nor ".join(NEEDS[need] for need in needs)


def summary(results: Sequence[Result], seconds: float) -> str:
    """One line over all."""
    counts = Counter(result.verdict for result in results)
    parts = [f"{counts['passed']} passed"]
    parts += [f"{counts['failed']} failed"] if counts["failed"] else []
    parts += [f"{counts['cannot']} not judged, as the gateway cannot"] if counts["cannot"] else []
    return f"{counted(len(results), 'scenario')}: {', '.join(parts)} ({seconds:.0f} s)"
