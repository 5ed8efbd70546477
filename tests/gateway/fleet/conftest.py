"""Which event loop a test module's tests run on, the log lines of an event, and the servers of a fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.fleet.redis_store import open_client
from tests.gateway.fleet.stages import MemoryStage, RedisStage, Stage
from tests.gateway.session.conftest import lines, pytest_asyncio_loop_factories, tracebacks
from tests.support.redis_server import KINDS, Kind, RedisServer

__all__ = ["lines", "pytest_asyncio_loop_factories", "tracebacks"]


class Servers:
    """One server of each kind, started when it is first asked for, and kept for all tests of the session."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._running: dict[Kind, RedisServer] = {}

    def __getitem__(self, kind: Kind) -> RedisServer:
        if kind not in self._running:
            self._running[kind] = RedisServer(kind, self._factory.mktemp(kind))
        return self._running[kind]

    def close(self) -> None:
        for server in self._running.values():
            server.kill()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory)
    yield servers
    servers.close()


@pytest.fixture(params=["memory", *KINDS])
async def stage(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[Stage]:
    """An empty store of each kind, at the beginning of its time."""
    if request.param == "memory":
        yield MemoryStage()
        return
    server = servers[request.param]
    client = open_client(server.url, timeout_seconds=10)
    stage = RedisStage(server, client)
    stage.begin()
    yield stage
    stage.close()
    await client.aclose()


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: Servers) -> RedisServer:
    """A real server of each kind, empty."""
    server = servers[request.param]
    assert server.say("FLUSHALL") == "+OK"
    return server
