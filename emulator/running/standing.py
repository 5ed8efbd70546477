"""A gateway that runs already: is its URL one, and does it answer there?"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from emulator.running.gateways import Gateway
from emulator.running.play import DEFAULT_PORT, Standing

REACH_SECONDS = 5.0
"""How long a gateway that is said to run may take to answer."""


class BadGateway(Exception):
    """Its URL cannot be, or nobody answers there; the text begins with the URL."""


def standing(url: str, port: int | None = None) -> Standing:
    """The gateway at `url`, with its replicas on this machine from `port` on. Raises BadGateway."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https", "ws", "wss") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise BadGateway(f"{url!r} should be a URL such as http://127.0.0.1:8000")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise BadGateway(f"{url!r} should be scheme, host and port alone: sessions bring their path")
    return Standing(url, port or DEFAULT_PORT)


async def reach(gateway: Standing) -> None:
    """It answers. Raises BadGateway."""
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await Gateway(gateway.url).until_serving(patient=False)
    except TimeoutError:
        raise BadGateway(f"{gateway.url}: no gateway answers there") from None
