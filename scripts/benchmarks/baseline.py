"""The bridge that the gateway is compared with: FastAPI, uvicorn and websockets, as a careful user writes it.

It forwards path, query, headers worth forwarding, subprotocol, messages, close code and reason to one
backend, lets backpressure pass both ways; no health checks, limits or retries. `BASELINE_BACKEND` is the
backend's ws:// origin.
"""

import asyncio
import os

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

BACKEND = os.environ["BASELINE_BACKEND"]
FORWARDED = ("authorization", "cookie", "origin", "traceparent", "x-request-id")

app = FastAPI()


async def _client_to_backend(client: WebSocket, backend: ClientConnection) -> None:
    while True:
        message = await client.receive()
        if message["type"] == "websocket.disconnect":
            await backend.close(message.get("code") or 1000, message.get("reason") or "")
            return
        text = message.get("text")
        await backend.send(text if text is not None else message["bytes"])


async def _backend_to_client(client: WebSocket, backend: ClientConnection) -> None:
    try:
        while True:
            message = await backend.recv()
            if isinstance(message, str):
                await client.send_text(message)
            else:
                await client.send_bytes(message)
    except ConnectionClosed as closed:
        code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1011, "backend lost")
        await client.close(code, reason)


@app.websocket("/{path:path}")
async def bridge(client: WebSocket, path: str) -> None:
    """One session: the backend's handshake, then the client's, then both directions until one side ends."""
    query = client.url.query
    url = f"{BACKEND}/{path}?{query}" if query else f"{BACKEND}/{path}"
    headers = [(name, value) for name, value in client.headers.items() if name in FORWARDED]
    offered = [Subprotocol(name) for name in client.scope.get("subprotocols", [])]
    try:
        # Media does not compress, and compression would only slow the baseline down.
        backend = await connect(
            url,
            additional_headers=headers,
            subprotocols=offered or None,
            compression=None,
            max_size=64 * 1024 * 1024,
            open_timeout=5,
            proxy=None,
        )
    except OSError:
        await client.close(1013, "backend unavailable")
        return
    async with backend:
        await client.accept(subprotocol=backend.subprotocol)
        pumps = {
            asyncio.create_task(_client_to_backend(client, backend)),
            asyncio.create_task(_backend_to_client(client, backend)),
        }
        done, pending = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pending:
            pump.cancel()
        await asyncio.wait(pumps)
        for pump in done:
            error = pump.exception()
            if error is not None and not isinstance(
                error, ConnectionClosed | WebSocketDisconnect | RuntimeError
            ):
                raise error
