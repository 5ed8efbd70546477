"""`session.paths`: the WebSocket routes. Each connection is one session behind Granian's door."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection

from litestar.enums import ScopeType
from litestar.handlers import ASGIRouteHandler, asgi
from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.utils import normalize_path

from gateway.logs import log_line
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


class NoSessionHere:
    """Answers an upgrade on any path but `paths` with 404, where the framework would close it without a word.

    A path is compared as the framework routes it: without a slash at its end, and below the server's prefix.
    """

    def __init__(self, app: ASGIApp, paths: Collection[str]) -> None:
        self._app = app
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.WEBSOCKET or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        door = AsgiDoor(scope, receive, send)
        logger.info(log_line("session_refused", status=404, path=scope["path"]))
        await door.run(_refuse_unknown_path)

    def _is_known(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return normalize_path(path) in self._paths


async def _refuse_unknown_path(door: AsgiDoor) -> None:
    body = json.dumps(
        {"status_code": 404, "detail": "this path takes no sessions; see session.paths"}
    ).encode()
    await door.refuse(404, [(b"content-type", b"application/json")], body)


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
