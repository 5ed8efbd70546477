"""What stands before the routes: it answers only those who may ask, and `HEAD` wherever there is a `GET`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

from emulator.control.answers import Problem
from emulator.control.guard import OWN_HOSTS, refusal
from emulator.control.problems import Forbidden


class Front:
    """An ASGI application around that of the routes."""

    def __init__(self, app: ASGIApp, own: Collection[str] = OWN_HOSTS) -> None:
        self._app = app
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Nothing but HTTP comes here: see `server`.
        assert scope["type"] == ScopeType.HTTP
        if (why := refusal(scope["headers"], self._own)) is not None:
            await _refuse(why, send)
        elif scope["method"] == "HEAD":
            # Of a copy: the server has to know that nothing follows the headers.
            head = _Head(receive, send)
            get = cast(Scope, {**scope, "method": "GET"})
            await self._app(get, head.receive, head.send)
        else:
            await self._app(scope, receive, _with_head_allowed(send))


class _Head:
    """The answer's headers, and then the end: also where the answer itself would have none."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_over = False

    async def receive(self) -> Any:
        if self._is_over:
            return {"type": "http.disconnect"}
        return await self._receive()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await _with_head_allowed(self._send)(message)
            self._is_over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _with_head_allowed(send: Send) -> Send:
    """What a route allows is told with `HEAD` beside `GET`."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            _allow_head(message)
        await send(message)

    return told


def _allow_head(start: HTTPResponseStartEvent) -> None:
    start["headers"] = [
        (name, value.replace(b"GET", b"GET, HEAD") if name.lower() == b"allow" else value)
        for name, value in start["headers"]
    ]


async def _refuse(why: str, send: Send) -> None:
    problem = Problem(Forbidden.status_code, Forbidden.error, why)
    body = msgspec.json.encode(problem) + b"\n"
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
