"""Between two scenarios with one gateway: it has taken its replicas back before the next one begins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from emulator.running.gateways import Gateway
from emulator.running.statuses import statuses_in

SETTLE_SECONDS = 30.0
"""How long that may take; then the scenario begins with what there is."""
LOOK_SECONDS = 0.2


async def until_settled(gateway: Gateway, urls: Mapping[str, str]) -> None:
    """The gateway says of every replica that it knows that it is healthy, or it says nothing of them."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                answer = await gateway.get("/status")
                said = None if answer is None else statuses_in(answer.content, urls)
                if not said or set(said.values()) == {"healthy"}:
                    return
                await asyncio.sleep(LOOK_SECONDS)
