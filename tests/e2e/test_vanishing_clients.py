"""Clients whose connections are reset while the gateway writes to them: each is an end like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess, Launch
from tests.support.peer import Peer
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import ScriptedReplica
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

CLIENTS = 20


async def talk(session: Peer) -> None:
    """The replica sends all the time, as long as anybody listens, as fast as it is read."""
    while session.open:
        await session.send("still here")
        await asyncio.sleep(0)


async def hear_and_reset(gateway: GatewayProcess, messages: int) -> None:
    async with raw_client(gateway.port) as client:
        for _ in range(messages):
            await client.recv()
        client.abort()


def ends(gateway: GatewayProcess) -> list[str]:
    return [line for line in gateway.output().splitlines() if "session_ended" in line]


@pytest.mark.parametrize("launch", ["granian", "asgi"])
async def test_clients_that_reset_while_they_are_written_to_have_left(tmp_path: Path, launch: Launch) -> None:
    async with (
        ScriptedReplica(serve=talk) as replica,
        GatewayProcess(tmp_path, [replica.url], launch=launch) as gateway,
    ):
        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(hear_and_reset(gateway, 10 + number))
        await gateway.until_no_sessions()
        await eventually(lambda: len(ends(gateway)) == CLIENTS, "each end is logged")
        assert [line for line in ends(gateway) if "closed_by=client" not in line] == []
        assert "Traceback" not in gateway.output()
