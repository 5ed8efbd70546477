"""PURE. What a client said and its replica has not been told yet, in order, and what may be told when.

Until a replica has begun the session, all of it is kept as it was said, for the next to be told the same.
When another goes on with a session, it gets the init and the toggles at once, the rest when it serves: what
the replica was at when it was lost is then never in doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from gateway.session.ledger import AT_ONCE, MAX_KEPT_BYTES, Said


class Outbox:
    def __init__(self) -> None:
        self._early: list[Said] | None = []
        self._early_bytes = 0
        self._unsent: deque[Said] = deque()
        self._catches_up = False
        self.backlog_bytes = 0
        """Of what the client said while it could not be sent; 0 when all is sent."""

    @property
    def can_start_over(self) -> bool:
        """Whether another replica can be told exactly what was said so far."""
        return self._early is not None

    @property
    def is_empty(self) -> bool:
        return not self._unsent

    def add(self, said: Said, size_bytes: int, *, bounded: bool) -> None:
        """The client said this. `bounded`: nobody stops it from saying more while it is kept."""
        if self._early is not None:
            if self._early:  # an init is bounded by itself
                self._early_bytes += size_bytes
            self._early.append(said)
            if bounded and self._early_bytes > MAX_KEPT_BYTES:
                self._early = None
        self._unsent.append(said)
        self.backlog_bytes += size_bytes

    def restart(self, replay: Iterable[Said]) -> None:
        """Another replica is to be told all: as it was said, or by this replay and what no replay knows."""
        if self._early is not None:
            self._unsent = deque(self._early)
        else:
            self._unsent = deque([*replay, *(said for said in self._unsent if said.kind == "other")])
            self._catches_up = True

    def begun(self) -> None:
        """A replica has begun the session: from now on a replay tells the next."""
        self._early = None

    def due(self, *, serves: bool, begun: int) -> Iterator[Said]:
        """Take out what may be sent to a replica that serves or not, and has begun so many segments."""
        while self._unsent:
            gate = self._unsent[0].gate
            if self._catches_up and gate != AT_ONCE and not (serves and begun >= gate):
                return
            yield self._unsent.popleft()
        self.backlog_bytes = 0

    def clear(self) -> None:
        self._early = None
        self._unsent.clear()
        self.backlog_bytes = 0
