"""One session's place on a replica, counted from the moment in which it is given."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from gateway.replicas.model import Replica


class Lease:
    """Held until `release()` or the end of its `with`; made by the registry, which `ended` tells."""

    __slots__ = ("_ended", "_held", "_pending", "_replica")

    def __init__(self, replica: Replica, ended: Callable[[Replica], None]) -> None:
        self._replica = replica
        self._ended = ended
        self._held = True
        self._pending = True
        replica.sessions += 1
        replica.pending += 1
        replica.idle_since = None

    @property
    def replica(self) -> Replica:
        return self._replica

    @property
    def url(self) -> str:
        return self._replica.url

    def opened(self) -> None:
        """The upstream handshake has finished: the lease is no longer pending. Idempotent."""
        if self._pending:
            self._pending = False
            self._replica.pending -= 1

    def release(self) -> None:
        """The place is free again. Idempotent."""
        if not self._held:
            return
        self.opened()
        self._held = False
        self._replica.sessions -= 1
        self._ended(self._replica)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
