"""What the connections of one replica share: its spec, its faults, its counters, its pause.

The server changes it, the connections read it; they report back through `record`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from emulator.faults import Warming
from emulator.faults.fault import Draw
from emulator.replica.board import Board
from emulator.replica.spec import ReplicaSpec


class Record(Protocol):
    """Takes one event of a replica."""

    def __call__(
        self,
        kind: str,
        *,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None: ...


@dataclass(slots=True)
class Counters:
    """What a replica has counted; goes on over a kill and a restart."""

    sessions: int = 0
    """Open now."""
    sessions_total: int = 0
    """Upgrade requests ever."""
    connections_total: int = 0
    health_total: int = 0
    """Requests on health routes ever."""


def _stay_alive() -> None:
    """What has no life yet cannot die."""


@dataclass(slots=True)
class Premises:
    """One replica's common ground."""

    spec: ReplicaSpec
    board: Board
    counters: Counters
    record: Record
    crash: Callable[[], None] = _stay_alive
    """The replica dies at once, as by a kill. Whoever gives it a life sets this."""
    refuse_until: float = 0.0
    """Monotonic seconds until which a flaky session has closed the port."""
    running: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while the replica is paused: nobody reads or writes then."""
    closing: bool = False
    """The server is stopping: sessions say goodbye."""
    ears: set[asyncio.Event] = field(default_factory=set)
    """Set at every change of faults, pause or life: who waits for one of them wakes up."""

    def __post_init__(self) -> None:
        self.running.set()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def changed(self) -> None:
        """Everyone who waits looks again."""
        for ear in self.ears:
            ear.set()

    @property
    def is_warming(self) -> bool:
        """No worker is ready."""
        return self.board.live(Warming, self.now())

    def draws_of(self, what: str) -> Draw:
        """The random draws of one session or request: the same seed, replica and `what` give the same
        ones."""
        return random.Random(f"{self.spec.seed}:{self.spec.name}:{what}").random

    def strike_counted(self, name: str, connection: int, session: int | None) -> None:
        """The log shows that the fault `name` took its turn."""
        self.record("fault_struck", connection=connection, session=session, detail={"fault": name})
