"""The examples of docs/faults.md: each command runs, and every fault has one."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from emulator.control.server import ControlServer
from emulator.farm import Farm
from emulator.faults import CATALOGUE, fault_from, fields_of
from emulator.replica.port import bind
from tests.emulator.sessions import session

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "faults.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(1) as running:
        yield running


@pytest.fixture
async def api(farm: Farm) -> AsyncIterator[httpx.AsyncClient]:
    with bind("127.0.0.1", 0) as bound:
        server = ControlServer(farm, bound)
        running = asyncio.create_task(server.run())
        await server.wait_until_up()
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20) as client:
            yield client
        server.stop()
        await running


def test_every_fault_has_an_example() -> None:
    shown = {found[1] for command in COMMANDS if (found := re.search(r"/faults/(\w+)", command))}
    assert shown == set(CATALOGUE)


async def test_every_example_does_what_it_says(farm: Farm, api: httpx.AsyncClient) -> None:
    for command in COMMANDS:
        program, _, method, url, *rest = shlex.split(command, comments=True)
        assert (program, method) == ("curl", "PUT"), command
        path = url.removeprefix("127.0.0.1:9190")
        body = rest[1] if rest else ""
        answer = await api.put(path, content=body)
        assert answer.status_code == 200, (command, answer.text)
        name = path.rsplit("/", 1)[1]
        stands = fault_from(name, json.loads(body or "{}"))
        assert fields_of(stands).items() <= answer.json()["faults"][name].items(), command
        assert stands in farm.replicas["a"].faults
        await api.delete(path)
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        assert await client.segment("all is as before")
