"""What a command says and asks: lines on one stream, and answers from another, if a person is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from infra.errors import Unfinished


class Telling:
    """A line is out as soon as it is told: whoever reads sees what goes on now."""

    def __init__(self, out: TextIO, answers: TextIO | None = None) -> None:
        """`answers` of None is nobody there to ask."""
        self._out, self._answers = out, answers

    def line(self, text: str = "") -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def confirm(self, question: str, wanted: str, *, agreed: bool) -> None:
        """Return when `wanted` was typed, or was `agreed` to beforehand. Raises Unfinished otherwise."""
        if agreed:
            return
        if self._answers is None:
            raise Unfinished(question, "nobody is there to confirm that: add --yes")
        self._out.write(f"{question}\ntype {wanted} to go on: ")
        self._out.flush()
        if self._answers.readline().strip() != wanted:
            raise Unfinished("not confirmed: nothing was changed")
