"""Where a process's fleets are kept: stores that share one client, which is closed at the end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from gateway.errors import FleetRefused
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import FleetStore

if TYPE_CHECKING:
    from gateway.fleet.redis_store import RedisClient

Kind = Literal["memory", "redis"]


class FleetBackend:
    """A server of fleets. Making one connects to nothing; `async with` closes at its end what was opened, and
    may be entered again after that.
    """

    def __init__(self, kind: Kind, url: str | None = None, *, namespace: str, cluster: bool = False) -> None:
        """`url` is that of the `redis` backend. Raises FleetRefused for one that cannot be used."""
        self._config = RedisFleetConfig(namespace)
        self.memory = MemoryServer()
        """What the `memory` backend keeps: this process's own."""
        self._client = _client(url, cluster=cluster) if kind == "redis" else None

    def store(self, spec: FleetSpec) -> FleetStore:
        """The fleet of that name in here."""
        if self._client is None:
            return MemoryFleetStore(spec, self.memory)
        from gateway.fleet.redis_store import RedisFleetStore

        return RedisFleetStore(self._client, spec, self._config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()


def _client(url: str | None, *, cluster: bool) -> RedisClient:
    # Imported where it is wanted: the library is an extra.
    try:
        from gateway.fleet.redis_store import open_client
    except ImportError:
        missing = "redis needs a library that is not installed: pip install '.[fleet]' in a clone"
        raise FleetRefused(missing) from None
    if url is None:
        raise FleetRefused("the redis backend needs a url")
    return open_client(url, cluster=cluster)
