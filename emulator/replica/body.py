"""The port between a replica as people see it and whatever runs it: this process, or one of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from emulator.faults import ProcessFault
from emulator.replica.premises import Premises
from emulator.replica.server import ReplicaServer


class ChildFailed(RuntimeError):
    """The replica's process ended before it was ready."""


class Body(Protocol):
    """One life of a replica, from start to kill or stop. A dead one is not used again."""

    @property
    def pid(self) -> int | None:
        """The process that it lives in."""
        ...

    async def start(self) -> None:
        """Return once the port is open (or kept closed by a fault)."""
        ...

    def faults_changed(self) -> None:
        """The board was changed; the effect comes at once or soon."""
        ...

    async def settle(self) -> None:
        """Return once all changes so far have had their effect."""
        ...

    async def kill(self) -> None:
        """All connections are reset, the port is closed."""
        ...

    async def stop(self) -> None:
        """All sessions were told 1001, the port is closed."""
        ...

    def pause(self) -> None:
        """Nothing moves. Idempotent."""
        ...

    def resume(self) -> None:
        """It moves again. Idempotent."""
        ...

    def watches_changed(self) -> None:
        """The watches were changed."""
        ...

    def release(self, key: int) -> None:
        """It stands still no longer for the watch `key`. Idempotent."""
        ...


class LocalBody:
    """A replica in this very event loop."""

    def __init__(
        self, premises: Premises, tasks: asyncio.TaskGroup, on_death: Callable[[Body], None]
    ) -> None:
        """`on_death` would be called if it died without having been told to; only a process does."""
        self._premises = premises
        self._server = ReplicaServer(premises, tasks)
        self._tasks = tasks
        premises.order = self._order

    @property
    def pid(self) -> int | None:
        return os.getpid()

    async def start(self) -> None:
        await self._server.start()

    def faults_changed(self) -> None:
        self._server.faults_changed()

    async def settle(self) -> None:
        await self._server.settle()

    async def kill(self) -> None:
        await self._server.kill()

    async def stop(self) -> None:
        await self._server.stop()

    def _order(self, fault: ProcessFault, key: int) -> None:
        # Not in the session's own task, which may die of it.
        self._tasks.create_task(self._obey(fault, key))

    async def _obey(self, fault: ProcessFault, key: int) -> None:
        await self._premises.owner(fault)
        self._premises.release(key)

    def pause(self) -> None:
        self._server.pause()

    def resume(self) -> None:
        self._server.resume()

    def watches_changed(self) -> None:
        # They are the very ones that its connections look at.
        pass

    def release(self, key: int) -> None:
        self._premises.release(key)
