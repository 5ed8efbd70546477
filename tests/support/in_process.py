"""A gateway inside the test's own event loop, on a real socket: for what only its registry can do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from gateway import RouterConfig
from gateway.settings import Settings
from gateway.wiring import Gateway
from tests.support.waiting import eventually


@asynccontextmanager
async def gateway_in_process(config: RouterConfig) -> AsyncIterator[tuple[Gateway, int]]:
    """A gateway whose first probe round is done, and its port."""
    gateway = Gateway(Settings.for_router(config))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                gateway.app, ws="websockets-sansio", lifespan="on", log_config=None, ws_ping_interval=None
            )
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve(sockets=[listening]))
            try:
                await eventually(lambda: server.started, "the server is up")
                async with asyncio.timeout(20):
                    await gateway.monitor.first_round_done.wait()
                yield gateway, listening.getsockname()[1]
            finally:
                server.should_exit = True
                await asyncio.wait([serving], timeout=10)
