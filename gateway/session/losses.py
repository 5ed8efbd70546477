"""PURE. How often a session may lose its replica, and whose fault that was.

- Bound: so many losses in a row, without progress for the client in between.
- Poison guard: what two replicas in a row were at when they were lost is not tried on a third.
- Blame: a loss is held against its replica once the session has got further on another, for then it was not
  the session's doing; not when the replica closed for its own restart.
"""

from __future__ import annotations

from typing import Literal

from gateway.session.core import Blame
from gateway.session.events import Closed

LOSS_CODES = frozenset({None, 1001, 1006, 1011, 1012, 1013, 1014})
"""Closes by which a replica ends a session that was not at its end; None is a connection that broke. 1000 and
those of applications are meant; 1002, 1003, 1007 to 1010 say what the client did wrong.
"""

RESTART_CODES = frozenset({1001, 1012})

LossKind = Literal["crash", "unhealthy", "restart"]
"""A crash may be the session's doing and may be held against the replica; that a replica turned unhealthy is
known already, though a session may have done it; a restart is nobody's fault.
"""

Verdict = Literal["move", "too_often", "poison"]


def is_loss(closed: Closed) -> bool:
    return closed.code in LOSS_CODES


def kind_of(closed: Closed) -> LossKind:
    return "restart" if closed.code in RESTART_CODES else "crash"


class Losses:
    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._in_a_row = 0
        self._suspects: frozenset[object] = frozenset()
        self._unblamed: list[str] = []

    def lost(self, replica: str, at_work: frozenset[object], kind: LossKind) -> Verdict:
        """The session lost this replica, which was at `at_work`: values that are equal when they are the
        same.
        """
        if kind != "restart":
            if at_work & self._suspects:
                self._unblamed.clear()
                return "poison"
            self._suspects = at_work
        if kind == "crash":
            self._unblamed.append(replica)
        if self._in_a_row >= self._attempts:
            return "too_often"
        self._in_a_row += 1
        return "move"

    def served(self) -> None:
        """The client saw the session open: the losses before do not count for the bound."""
        self._in_a_row = 0

    def completed(self) -> tuple[Blame, ...]:
        """The client got a whole segment."""
        self._in_a_row = 0
        self._suspects = frozenset()
        return self.settle()

    def settle(self) -> tuple[Blame, ...]:
        """The losses so far are their replicas' own."""
        blames = tuple(Blame(replica) for replica in self._unblamed)
        self._unblamed.clear()
        return blames
