"""Stands between clients and a replica, passes everything on as it came, and has it written down.

Messages, their kind and order, close codes and reasons, connections that go without a close frame, path,
query, headers and subprotocols pass. Pings are answered on either side by itself, and frames are joined to
messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from emulator.recording.format import Answer, Side
from emulator.recording.recorder import Recorder, SessionRecorder
from emulator.recording.sockets import (
    OPEN_SECONDS,
    PLAIN,
    carried_headers,
    end,
    end_of,
    offered_subprotocols,
    reset,
    response,
    take_over,
    wants_websocket,
)

logger = logging.getLogger("emulator")


class BadAddress(ValueError):
    """What is to be recorded has no usable address."""


def address_of(text: str) -> str:
    """`ws://host:port` (or wss) of the replica. Raises BadAddress."""
    wanted = "must be ws://host:port (or wss), without a path"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{text!r} {wanted} ({error})") from error
    scheme = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}.get(parts.scheme)
    if scheme is None or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise BadAddress(f"{text!r} {wanted}")
    if parts.username is not None or parts.password is not None:
        raise BadAddress(f"the address {wanted}, and without a user: name and password go into headers")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}" + (f":{port}" if port is not None else "")


class _Client(ServerConnection):
    """A client's connection, with the one to the replica that was opened for it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.upstream: ClientConnection | None = None
        self.session: SessionRecorder | None = None
        self.is_carried = False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.upstream is not None and not self.is_carried:
            # It went between its replica's answer and its own; nobody else would end that connection.
            reset(self.upstream)


class RecordingProxy:
    """An async context manager: inside, clients are served on `port`."""

    def __init__(
        self,
        of: str,
        recorder: Recorder,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`of` as `address_of` gives it. `say` hears a line for each session's begin and end."""
        self._of = of
        self._recorder = recorder
        self._say = say
        self._host = host
        self._port = port
        self._server: Server | None = None
        self._stack = contextlib.AsyncExitStack()

    @property
    def port(self) -> int:
        """Where clients come."""
        assert self._server is not None, "entered first"
        number: int = next(iter(self._server.sockets)).getsockname()[1]
        return number

    async def __aenter__(self) -> RecordingProxy:
        """Raises OSError when the port cannot be had."""
        http = self._of.replace("ws", "http", 1)
        self._http = await self._stack.enter_async_context(
            httpx.AsyncClient(base_url=http, timeout=OPEN_SECONDS, trust_env=False)
        )
        try:
            self._server = await self._stack.enter_async_context(
                serve(
                    self._carry,
                    self._host,
                    self._port,
                    process_request=self._on_request,
                    process_response=self._on_response,
                    select_subprotocol=self._select,
                    create_connection=_Client,
                    server_header=None,
                    open_timeout=OPEN_SECONDS * 2,
                    **PLAIN,
                )
            )
        except OSError:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Clients were told 1001, and the replica is left."""
        await self._stack.aclose()

    # The handshake: the replica's first, so that the client gets its answer

    async def _on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, _Client)
        if not wants_websocket(request):
            return await self._plain(request)
        headers, offered = carried_headers(request.headers), offered_subprotocols(request)
        session = connection.session = self._recorder.begin(request.path, headers, offered)
        try:
            connection.upstream = await connect(
                self._of + request.path,
                additional_headers=headers,
                subprotocols=[Subprotocol(name) for name in offered] or None,
                user_agent_header=None,
                open_timeout=OPEN_SECONDS,
                proxy=None,
                process_exception=lambda error: error,
                **PLAIN,
            )
        except InvalidStatus as refused:
            answer = refused.response
            body = bytes(answer.body or b"")
            told = carried_headers(answer.headers)
            self._answered(
                session, Answer(answer.status_code, None, tuple(told), body.decode(errors="replace"))
            )
            return response(answer.status_code, told, body)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            text = f"{self._of} gave no answer to the upgrade: {_words(error)}"
            logger.warning("recording: %s", text)
            self._answered(session, Answer(502, body=text))
            return response(502, [("Content-Type", "text/plain; charset=utf-8")], f"{text}\n".encode())
        upstream = connection.upstream
        assert upstream.response is not None
        told = carried_headers(upstream.response.headers)
        self._answered(session, Answer(101, upstream.subprotocol, tuple(told)))
        return None

    def _answered(self, session: SessionRecorder, answer: Answer) -> None:
        session.answered(answer)
        self._say(f"session {session.number}: answered {answer.status}")

    def _select(self, connection: ServerConnection, _: object) -> Subprotocol | None:
        assert isinstance(connection, _Client)
        return connection.upstream.subprotocol if connection.upstream is not None else None

    def _on_response(self, connection: ServerConnection, _: Request, told: Response) -> None:
        assert isinstance(connection, _Client)
        upstream = connection.upstream
        if told.status_code == 101 and upstream is not None and upstream.response is not None:
            take_over(told.headers, carried_headers(upstream.response.headers))

    async def _plain(self, request: Request) -> Response:
        try:
            answer = await self._http.get(request.path, headers=carried_headers(request.headers))
        except httpx.HTTPError as error:
            text = f"{self._of} gave no answer to {request.path}: {_words(error)}"
            logger.warning("recording: %s", text)
            return response(502, [("Content-Type", "text/plain; charset=utf-8")], f"{text}\n".encode())
        headers = [
            (name, value)
            for name, value in answer.headers.multi_items()
            if name
            not in ("connection", "content-length", "transfer-encoding", "content-encoding", "keep-alive")
        ]
        self._recorder.http("GET", request.path, answer.status_code, _json_or_text(answer.text))
        return response(answer.status_code, headers, answer.content)

    # The messages

    async def _carry(self, connection: ServerConnection) -> None:
        assert isinstance(connection, _Client)
        upstream, session = connection.upstream, connection.session
        assert upstream is not None
        assert session is not None
        connection.is_carried = True
        carried = _Carried(connection, upstream, session)
        try:
            await carried.run()
        except Exception:
            logger.exception("recording: session %d failed", session.number)
        finally:
            for side in (connection, upstream):
                side.transport.abort()
        self._say(f"session {session.number}: {carried.how}")


class _Carried:
    """One session's two directions; the first end that a side makes is passed on to the other."""

    def __init__(self, client: ServerConnection, server: ClientConnection, session: SessionRecorder) -> None:
        self._client = client
        self._server = server
        self._session = session
        self._is_over = False
        self.how = "ended with the recording"
        """How it ended."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass("c", self._client, self._server))
            group.create_task(self._pass("s", self._server, self._client))

    async def _pass(
        self,
        side: Side,
        source: ServerConnection | ClientConnection,
        target: ServerConnection | ClientConnection,
    ) -> None:
        while True:
            try:
                message = await source.recv()
            except ConnectionClosed:
                await self._close(side, source, target)
                return
            self._session.passed(side, message)
            try:
                await target.send(message)
            except ConnectionClosed:
                # The other direction sees its end, and passes it on to us.
                return

    async def _close(
        self,
        side: Side,
        source: ServerConnection | ClientConnection,
        target: ServerConnection | ClientConnection,
    ) -> None:
        if self._is_over:
            return
        self._is_over = True
        how = end_of(source)
        if how is None:
            # It was us: the recording is being stopped, or the side broke the protocol. The other one hears
            # the same, and neither has said so.
            sent = source.protocol.close_sent
            assert sent is not None
            await target.close(sent.code, sent.reason)
            return
        self._session.closed(side, how)
        who = "client" if side == "c" else "replica"
        self.how = f"closed by the {who}, {how.code}" + (f" {how.reason}" if how.reason else "")
        await end(target, how)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
