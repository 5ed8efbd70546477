"""Serves the control API on a listening socket inside the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Iterator

import uvicorn

from emulator.control.app import build_control
from emulator.control.feed import Feed
from emulator.control.sessions import Sessions
from emulator.farm import Farm
from emulator.replica.spec import base_url

TICK_SECONDS = 0.1
"""As the server's own; it counts on ten of them in a second."""
GOODBYE_SECONDS = 1
"""How long requests may take to end once the server stops; those that wait for events end at once."""


class ControlServer:
    """`run` serves until `stop`. Of the sessions it knows those that begin after it was made."""

    def __init__(self, farm: Farm, listening: socket.socket) -> None:
        self._listening = listening
        self._feed = Feed(farm.log)
        self._sessions = Sessions()
        self._unsubscribe = farm.log.subscribe(self._sessions.take)
        self._server = _QuietServer(
            uvicorn.Config(
                build_control(farm, self._feed, self._sessions),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=GOODBYE_SECONDS,
            )
        )

    @property
    def url(self) -> str:
        """How this machine asks it."""
        return base_url(*self._listening.getsockname()[:2])

    async def wait_until_up(self) -> None:
        """Requests are answered."""
        await self._server.up.wait()

    async def run(self) -> None:
        """Serve until told to stop."""
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            self._feed.close()
            self._unsubscribe()

    def stop(self) -> None:
        """`run` returns soon; whoever waits for events gets an answer at once."""
        self._feed.close()
        self._server.stop()


class _QuietServer(uvicorn.Server):
    """Leaves the signals to whoever owns the process, tells when it has started, and hears at once that it is
    over."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        for tick in itertools.count():
            if await self.on_tick(tick):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stopping.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
