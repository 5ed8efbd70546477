"""From a session's plan to an open WebSocket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from emulator.running.seen import SESSION_HEADER
from emulator.scenario import Sessions

CLOSE_SECONDS = 5.0
"""How long the other side may take to answer a close."""
SMALL_BUFFER_BYTES = 32 * 1024
"""Of a client that reads slowly or not at all: what it does not take is soon noticed."""


class _Connect(connect):
    """Takes a redirect for what it is, as browsers do for WebSockets."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_connection(url: str, plan: Sessions, *, name: str, small: bool) -> ClientConnection:
    """An open session at the gateway `url`; `small` leaves little room for what is not read. Raises what the
    library raises."""
    path = plan.path + (f"?{plan.query}" if plan.query else "")
    options: dict[str, Any] = {"sock": await _small_socket(url)} if small else {}
    return await _Connect(
        url + path,
        additional_headers={SESSION_HEADER: name, **plan.headers},
        subprotocols=[Subprotocol(offered) for offered in plan.subprotocols] or None,
        user_agent_header=None if _has(plan.headers, "User-Agent") else "emulator",
        compression=None,
        proxy=None,
        max_size=None,
        max_queue=1,
        open_timeout=None,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
        **options,
    )


async def _small_socket(url: str) -> socket.socket:
    """Connected to the gateway, with little room for what is not read."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = found[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        connection.setblocking(False)
        await loop.sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _has(headers: Mapping[str, str], name: str) -> bool:
    return any(key.lower() == name.lower() for key in headers)
