"""What is told while scenarios are played: a verdict as each ends, and on a terminal those that run."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from emulator.running.results import Result
from emulator.scenario import Scenario

COLOURS = {"passed": "green", "failed": "red", "cannot": "yellow"}


class _Unheard(Console):
    """A console whose reader may go away (`| head`): the rest is played all the same, and told to nobody."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
    """A context manager; plain lines where nobody looks at a terminal."""

    def __init__(self, total: int, *, shows_all: bool) -> None:
        """`shows_all`: the account of what happened is told of scenarios that passed, too."""
        self._total = total
        self._shows_all = shows_all
        self._running: list[str] = []
        self._done = 0
        self._console = _Unheard(file=sys.stdout, highlight=False, soft_wrap=True)
        self._status = Status("", console=self._console) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def began(self, scenario: Scenario) -> None:
        """It is being played."""
        self._running.append(scenario.name)
        self._show()

    def ended(self, result: Result) -> None:
        """Its verdict is told."""
        self._running.remove(result.scenario.name)
        self._done += 1
        first, *rest = result.lines(account=self._shows_all or result.verdict == "failed")
        self._console.print(first, style=COLOURS[result.verdict], markup=False)
        for line in rest:
            self._console.print(line, markup=False)
        self._show()

    def _show(self) -> None:
        if self._status is not None:
            self._status.update(f"{self._done} of {self._total} played, now: {', '.join(self._running)}")
