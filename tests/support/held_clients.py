"""Clients that stay in their sessions until they are let go, for tests of who is served when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from emulator.running.story import Story
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import After, LongSession, Prompt, Step
from tests.support.undisturbed import assert_undisturbed
from tests.support.waiting import eventually


class Held:
    """A session that gets one segment and then stays until it is let go."""

    def __init__(self, url: str, name: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._gate = asyncio.Event()
        steps: list[Step] = [Prompt(f"of {name}"), After(self._gate)]
        self._session = LongSession(url, steps, init={"client_id": name}, headers=headers)
        self._task = asyncio.ensure_future(self._session.run())

    @property
    def story(self) -> Story:
        return self._session.story

    @property
    def position(self) -> int | None:
        """The last one that it was told of."""
        return self.story.queue[-1][0] if self.story.queue else None

    def let_go(self) -> None:
        """It closes once it has its segment."""
        self._gate.set()

    async def until_served(self) -> None:
        await eventually(lambda: self.story.completed == 1, "the session is served")

    async def until_waiting(self, position: int | None = None) -> None:
        """It has been told this position, or any."""

        def is_told() -> bool:
            return self.position is not None and position in (None, self.position)

        await eventually(is_told, f"it is told its position ({position})")

    async def over(self) -> Story:
        """Its end, whoever brings it."""
        return await self._task

    async def leave(self) -> None:
        """The client goes away without a word."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def assert_served(self) -> None:
        assert_undisturbed(self.story, self._session.asked)


class Clients:
    """Opens held sessions, and leaves none behind."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._all: list[Held] = []

    def come(self, name: str, *, headers: Mapping[str, str] | None = None) -> Held:
        self._all.append(Held(self._gateway.ws, name, headers=headers))
        return self._all[-1]

    async def leave(self) -> None:
        for held in self._all:
            await held.leave()


@contextlib.asynccontextmanager
async def clients_of(gateway: GatewayProcess) -> AsyncIterator[Clients]:
    clients = Clients(gateway)
    try:
        yield clients
    finally:
        await clients.leave()
