"""What the tests of faults do over and over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import httpx

from emulator.farm import Farm
from emulator.faults import Fault
from emulator.replica.replica import Replica
from tests.support.waiting import eventually

PROMPT = {"type": "segment_prompt_source", "prompt": "p"}
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
"""An upgrade request."""
SHORT_SECONDS = 0.15
"""How long something must not happen: a test that waits for less of it is not wrong, only weaker."""


async def arm(replica: Replica, *faults: Fault) -> None:
    """The faults have their effect."""
    for fault in faults:
        replica.set_fault(fault)
    await replica.settle()


async def lift(replica: Replica, *names: str) -> None:
    """They have it no longer."""
    for name in names:
        replica.clear_fault(name)
    await replica.settle()


async def get(url: str, timeout: float = 20.0, **options: bool) -> httpx.Response:
    """The answer, over a connection of its own."""
    async with httpx.AsyncClient(trust_env=False, timeout=timeout, **options) as client:  # type: ignore[arg-type]
        return await client.get(url)


async def connects(replica: Replica, within_seconds: float) -> bool:
    """Whether a connect comes to an end in time; refused is an error."""
    try:
        async with asyncio.timeout(within_seconds):
            _, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    except TimeoutError:
        return False
    writer.close()
    return True


async def stays_away(coming: Awaitable[object], seconds: float = SHORT_SECONDS) -> bool:
    """Whether nothing comes for so long."""
    try:
        async with asyncio.timeout(seconds):
            await coming
    except TimeoutError:
        return True
    return False


async def another_life(farm: Farm, number: int = 2, replica: str = "a") -> None:
    """The replica has been started so many times."""

    def lives() -> int:
        events = farm.events(replica=replica).events
        return sum(e.kind == "state_changed" and e.detail["after"] == "running" for e in events)

    await eventually(lambda: lives() >= number, f"{replica} lives for the {number}th time")


def kinds(farm: Farm, replica: str = "a") -> list[str]:
    """Of the events of a replica so far."""
    return [event.kind for event in farm.events(replica=replica).events]
