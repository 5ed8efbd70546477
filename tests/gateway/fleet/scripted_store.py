"""A fleet in memory on the running loop's clock, whose every call can be slow, lost, or answered too late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from gateway.errors import FleetUnavailable
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Answer, Beat
from gateway.fleet.view import FleetView
from tests.gateway.fleet.views import seconds

SPEC = FleetSpec("gateways", seconds(10))
Result = TypeVar("Result")


@dataclass
class Fate:
    """What becomes of a call."""

    delay_seconds: float = 0.0
    """Before it is applied."""
    answer_delay_seconds: float = 0.0
    """After it was applied."""
    error: Exception | None = None
    """Instead of being applied."""


HANGS = Fate(delay_seconds=1e9)
FAILS = Fate(error=FleetUnavailable("connection refused"))
APPLIED_UNANSWERED = Fate(answer_delay_seconds=1e9)


class LoopServer(MemoryServer):
    """A memory server on the running loop's time, `ahead_seconds` of it."""

    def __init__(self) -> None:
        super().__init__(lambda: round((asyncio.get_running_loop().time() + self.ahead_seconds) * 1_000_000))
        self.ahead_seconds = 0.0


class ScriptedStore:
    """One member's way to a server. `fates` are used up call by call; after them all goes well."""

    def __init__(self, server: MemoryServer, *fates: Fate, spec: FleetSpec = SPEC) -> None:
        self._store = MemoryFleetStore(spec, server)
        self.fates = list(fates)
        self.beats: list[tuple[float, Beat]] = []
        """Each beat that was begun, with the loop's time."""
        self.leaves: list[tuple[float, str]] = []
        self.seen: list[datetime] = []
        """`at` of each answer."""

    @property
    def spec(self) -> FleetSpec:
        return self._store.spec

    async def beat(self, beat: Beat) -> Answer:
        self.beats.append((asyncio.get_running_loop().time(), beat))
        answer = await self._meet(lambda: self._store.beat(beat))
        self.seen.append(answer.view.at)
        return answer

    async def view(self) -> FleetView:
        return await self._meet(self._store.view)

    async def leave(self, member_id: str, *, incarnation: str | None = None) -> bool:
        self.leaves.append((asyncio.get_running_loop().time(), member_id))
        return await self._meet(lambda: self._store.leave(member_id, incarnation=incarnation))

    async def _meet(self, call: Callable[[], Awaitable[Result]]) -> Result:
        fate = self.fates.pop(0) if self.fates else Fate()
        await asyncio.sleep(fate.delay_seconds)
        if fate.error is not None:
            raise fate.error
        result = await call()
        await asyncio.sleep(fate.answer_delay_seconds)
        return result
