"""`session.paths`: the WebSocket routes. Each connection is one session behind Granian's door."""

from __future__ import annotations

import json
import logging

from litestar.enums import ScopeType
from litestar.handlers import ASGIRouteHandler, asgi
from litestar.types import Receive, Scope, Send

from gateway.session.asgi_door import AsgiDoor
from gateway.session.service import SessionService

logger = logging.getLogger("streamhold.session")


def stream_route(paths: list[str], service: SessionService) -> ASGIRouteHandler:
    """The handler of all session paths. A plain HTTP request there is told to upgrade (426)."""

    @asgi(paths, is_mount=False, copy_scope=False)
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET:
            await AsgiDoor(scope, receive, send).run(service.serve)
        else:
            await _upgrade_required(send)

    return stream


async def _upgrade_required(send: Send) -> None:
    body = json.dumps({"status_code": 426, "detail": "this path takes WebSocket sessions"}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"upgrade"),
        (b"upgrade", b"websocket"),
    ]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
