"""A farm of two with its control API, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from emulator.control.server import ControlServer
from emulator.farm import Farm


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2) as running:
        yield running


@pytest.fixture
async def server(farm: Farm) -> AsyncIterator[ControlServer]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        serving = ControlServer(farm, bound)
        running = asyncio.create_task(serving.run())
        await serving.wait_until_up()
        yield serving
        serving.stop()
        await running


@pytest.fixture
async def api(server: ControlServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20) as client:
        yield client
