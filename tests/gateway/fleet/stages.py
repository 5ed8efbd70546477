"""One fleet's store to play on, with a clock that moves when it is told to: in memory, or a real server."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol, cast

from redis import Redis

from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer, MemoryTables
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.redis_store import RedisClient, RedisFleetStore, open_client
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import FleetStore
from tests.gateway.fleet.views import seconds
from tests.support.redis_server import RedisServer

SPEC = FleetSpec("gateways", seconds(10), report_max_bytes=200)
BEGIN_US = 4_000_000_000_000_000
"""Where the movable clock begins: so far ahead that no server expires a key by its own clock."""
CLOCK_KEY = "the-test's-clock"
MOVABLE_CLOCK = f"""local now = tonumber(redis.call('GET', "{CLOCK_KEY}"))"""
"""Stands in the scripts where they would ask the server for the time."""


class Stage(Protocol):
    """A server of fleets, seen by a test."""

    def store(self, spec: FleetSpec = SPEC) -> FleetStore: ...

    def move(self, microseconds: int) -> None:
        """Let time pass, or go back."""
        ...

    def tables(self, spec: FleetSpec = SPEC) -> MemoryTables:
        """What is held of a fleet, as a copy."""
        ...

    def lose(self, key: str, spec: FleetSpec = SPEC) -> None:
        """Lose `z`, the expiries, or `h`, the entries."""
        ...

    def write(self, member_id: bytes, entry: bytes, *, expiry_us: int | None = None) -> None:
        """Put something there that no store wrote."""
        ...

    def flush(self) -> None: ...


class MemoryStage:
    def __init__(self) -> None:
        self.now_us = BEGIN_US
        self.server = MemoryServer(lambda: self.now_us)

    def store(self, spec: FleetSpec = SPEC) -> FleetStore:
        return MemoryFleetStore(spec, self.server)

    def move(self, microseconds: int) -> None:
        self.now_us += microseconds

    def tables(self, spec: FleetSpec = SPEC) -> MemoryTables:
        return deepcopy(self.server.tables(spec.name))

    def lose(self, key: str, spec: FleetSpec = SPEC) -> None:
        tables = self.server.tables(spec.name)
        (tables.expiries if key == "z" else tables.entries).clear()

    def write(self, member_id: bytes, entry: bytes, *, expiry_us: int | None = None) -> None:
        tables = self.server.tables(SPEC.name)
        tables.entries[member_id] = entry
        if expiry_us is not None:
            tables.expiries[member_id] = expiry_us

    def flush(self) -> None:
        self.server.flush()


class RedisStage:
    """`client` belongs to the event loop of the test; the stage itself speaks to the server by another."""

    def __init__(self, server: RedisServer, client: RedisClient | None = None) -> None:
        self.server = server
        self.client = client if client is not None else open_client(server.url, timeout_seconds=10)
        self.redis: Redis = Redis(port=server.port, socket_timeout=10)
        self.config = RedisFleetConfig("test")
        self.flush()

    def store(self, spec: FleetSpec = SPEC) -> FleetStore:
        return RedisFleetStore(self.client, spec, self.config, clock=MOVABLE_CLOCK)

    def move(self, microseconds: int) -> None:
        self.redis.incrby(CLOCK_KEY, microseconds)
        self._lapse(SPEC)

    def _lapse(self, spec: FleetSpec) -> None:
        """What the server does by its own clock: a key whose end has come is gone, also one set just now."""
        now_us = self.redis.incrby(CLOCK_KEY, 0)
        for key in self.config.keys(spec):
            if 0 <= self.redis.pexpiretime(key) * 1000 <= now_us:
                self.redis.delete(key)

    def tables(self, spec: FleetSpec = SPEC) -> MemoryTables:
        self._lapse(spec)
        z, h = self.config.keys(spec)
        scored = cast("list[tuple[bytes, float]]", self.redis.zrange(z, 0, -1, withscores=True))
        entries = cast("dict[bytes, bytes]", self.redis.hgetall(h))
        ends = set(self.ends_ms(spec))
        expiries = {member_id: int(score) for member_id, score in scored}
        return MemoryTables(expiries, entries, next(iter(ends)) * 1000 if ends not in ({-2}, {-1}) else None)

    def ends_ms(self, spec: FleetSpec = SPEC) -> list[int]:
        """When the server drops each of the two keys; -2 for one that is not there."""
        return [self.redis.pexpiretime(key) for key in self.config.keys(spec)]

    def lose(self, key: str, spec: FleetSpec = SPEC) -> None:
        z, h = self.config.keys(spec)
        self.redis.delete(z if key == "z" else h)

    def write(self, member_id: bytes, entry: bytes, *, expiry_us: int | None = None) -> None:
        z, h = self.config.keys(SPEC)
        self.redis.hset(h, cast("Any", member_id), cast("Any", entry))
        if expiry_us is not None:
            self.redis.zadd(z, {member_id: expiry_us})

    def flush(self) -> None:
        """Lose every fleet. The clock goes on from where it was, from the beginning at first."""
        now = self.redis.get(CLOCK_KEY)
        self.redis.flushall()
        self.redis.set(CLOCK_KEY, cast("Any", now) or BEGIN_US)

    def begin(self) -> None:
        """As new, the clock included."""
        self.redis.flushall()
        self.redis.set(CLOCK_KEY, BEGIN_US)

    def close(self) -> None:
        self.redis.close()
