"""Many messages at once, both ways: in order and whole, however Granian runs the gateway.

Under its default interface one thread serves a connection, and the gateway sends and receives ahead; where
several threads may, it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.peer import Peer
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import ScriptedReplica

pytestmark = pytest.mark.e2e

MESSAGES = 2_000
UNDER_WAY = 100
"""Each way: enough to be far ahead, and few enough that a peer that writes always gets to read as well."""
SIZES = (8, 64, 64, 300, 4_096, 4_097, 64, 20_000, 8, 8, 64, 70_000, 1_000)
"""Octets, again and again: bursts of small ones between some that are large for the gateway."""

WAYS = {
    "default": {},
    "asgi": {"GRANIAN_INTERFACE": "asgi"},
    "asgi, several threads": {"GRANIAN_INTERFACE": "asgi", "GRANIAN_RUNTIME_THREADS": "2"},
    "several threads": {"GRANIAN_RUNTIME_THREADS": "2"},
}


def numbered() -> Iterator[str | bytes]:
    """The messages, each of which tells its number and kind from its first octets."""
    for number in range(MESSAGES):
        text = f"{number:>7} ".ljust(SIZES[number % len(SIZES)], chr(ord("a") + number % 26))
        yield text if number % 3 else text.encode()


async def pass_all(speaker: Peer, hearer: Peer) -> None:
    """`speaker` says them all, and `hearer` hears them."""
    room = asyncio.Semaphore(UNDER_WAY)

    async def say() -> None:
        for message in numbered():
            await room.acquire()
            await speaker.send(message)

    async def hear() -> None:
        for number, expected in enumerate(numbered()):
            message = await hearer.recv()
            assert message == expected, f"number {number}: {message[:12]!r}"
            room.release()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(say())
        tasks.create_task(hear())


@pytest.mark.parametrize("environment", WAYS.values(), ids=WAYS.keys())
async def test_many_messages_both_ways_arrive_in_order_and_whole(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], env=environment) as gateway,
        raw_client(gateway.port) as client,
    ):
        session = await replica.session()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pass_all(client, session))
            tasks.create_task(pass_all(session, client))
        await session.close(4001, "said all")
        ending = await client.ended()
        assert (ending.code, ending.reason) == (4001, "said all")
