"""How many sessions there may be: of this gateway, and of one client."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayFull:
    """The gateway has as many sessions as it takes."""


@dataclass(frozen=True, slots=True)
class ClientFull:
    """This client has as many sessions as one client may have."""


class Quotas:
    """Counts sessions from their admission to their end, whatever they do meanwhile. None is no limit."""

    def __init__(self, *, max_sessions: int | None, max_sessions_per_client: int | None) -> None:
        self.max_sessions = max_sessions
        """It may be another one at any time; sessions that are there stay."""
        self._max_of_one = math.inf if max_sessions_per_client is None else max_sessions_per_client
        self._clients: Counter[str | None] = Counter()

    @property
    def clients(self) -> int:
        """Clients that have a session; all those without a key are one."""
        return len(self._clients)

    def client(self, key: str | None) -> AbstractContextManager[None] | ClientFull | GatewayFull:
        """A session of the client `key`, counted while the `with` lasts, or why there may be none.

        Enter the `with` in the same step. A client without a key has no limit of its own.
        """
        if self.max_sessions is not None and self._clients.total() >= self.max_sessions:
            return GatewayFull()
        if key is not None and self._clients[key] >= self._max_of_one:
            return ClientFull()
        return self._counted(key)

    @contextmanager
    def _counted(self, key: str | None) -> Iterator[None]:
        self._clients[key] += 1
        try:
            yield
        finally:
            self._clients[key] -= 1
            if not self._clients[key]:
                del self._clients[key]
