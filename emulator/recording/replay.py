"""Serves recorded sessions again, as the replica did: each connection gets the next one of the recording.

The client is expected to say what was recorded, in that order; where it differs, that is told in words and
the session is closed with 1008. What it says early waits for its turn. Health routes answer as recorded, or
as a healthy replica does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from emulator.protocol.messages import ErrorMessage, encode, type_in
from emulator.recording.comparing import difference, upgrade_difference
from emulator.recording.format import PIECE_BYTES, Binary, Closed, Conversation, Recording, Step, Text
from emulator.recording.sockets import (
    OPEN_SECONDS,
    PLAIN,
    end,
    end_of,
    json_response,
    offered_subprotocols,
    response,
    take_over,
    wants_websocket,
)
from emulator.replica import health
from emulator.replica.spec import HEALTH_PATHS

CLIENT_SECONDS = 120.0
"""How long the client may take to say what the recording has next."""
CAPACITY = 4
"""Told on the health routes."""

logger = logging.getLogger("emulator")


async def pause(seconds: float) -> None:
    """So much time has passed."""
    await asyncio.sleep(seconds)


class Differs(Exception):
    """The client says something else than the recording has; the text says what."""


class Unfinished(Exception):
    """The replay was stopped in the middle of the session."""


@dataclass(slots=True)
class Tally:
    """What has been replayed so far."""

    matched: int = 0
    differed: int = 0
    unfinished: int = 0
    """Were still played when the replay was stopped."""


class _Client(ServerConnection):
    """A client's connection, with what is played on it."""

    conversation: Conversation
    number: int


class Replay:
    """An async context manager: inside, clients are served on `port`."""

    def __init__(
        self,
        recording: Recording,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        speed: float = 1.0,
        say: Callable[[str], None] = lambda _: None,
        client_seconds: float = CLIENT_SECONDS,
    ) -> None:
        """`speed` 2 takes half of the recorded time, infinity none. `say` hears what is played, and where a
        client differs."""
        self._recording = recording
        self._host = host
        self._port = port
        self._speed = speed
        self._say = say
        self._client_seconds = client_seconds
        self._requests = {entry.path: entry for entry in recording.requests if entry.method == "GET"}
        self._served = 0
        self._open = 0
        self._stopping = False
        self._server: Server | None = None
        self.tally = Tally()

    @property
    def port(self) -> int:
        """Where clients come."""
        assert self._server is not None, "entered first"
        number: int = next(iter(self._server.sockets)).getsockname()[1]
        return number

    async def __aenter__(self) -> Replay:
        """Raises OSError when the port cannot be had."""
        self._server = await serve(
            self._play,
            self._host,
            self._port,
            process_request=self._on_request,
            process_response=self._on_response,
            select_subprotocol=self._select,
            create_connection=_Client,
            server_header=None,
            open_timeout=OPEN_SECONDS,
            **PLAIN,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Clients were told 1001."""
        assert self._server is not None
        self._stopping = True
        self._server.close()
        await self._server.wait_closed()

    # The handshake

    def _on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, _Client)
        if not wants_websocket(request):
            return self._plain(request.path)
        conversations = self._recording.conversations
        conversation = connection.conversation = conversations[self._served % len(conversations)]
        self._served += 1
        number = connection.number = self._served
        self._say(f"session {number} plays {conversation.name!r} (line {conversation.line})")
        path, _, query = request.path.partition("?")
        if conversation.upgrade is not None:
            found = upgrade_difference(conversation.upgrade, path, query)
            if found is not None:
                self._say(f"session {number}: {found}; it goes on")
        answer = conversation.answer
        if answer.status == 101:
            if answer.subprotocol not in (None, *offered_subprotocols(request)):
                self._say(
                    f"session {number}: the recording has the subprotocol {answer.subprotocol!r}, which the "
                    "client does not offer; it gets none"
                )
            return None
        self.tally.matched += 1
        self._say(f"session {number}: refused with {answer.status}, as recorded")
        return response(answer.status, list(answer.headers), answer.body.encode())

    def _on_response(self, connection: ServerConnection, _: Request, told: Response) -> None:
        assert isinstance(connection, _Client)
        if told.status_code == 101:
            take_over(told.headers, connection.conversation.answer.headers)

    def _select(self, connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        assert isinstance(connection, _Client)
        chosen = connection.conversation.answer.subprotocol
        return Subprotocol(chosen) if chosen is not None and chosen in offered else None

    def _plain(self, target: str) -> Response:
        path = target.partition("?")[0]
        if (recorded := self._requests.get(target) or self._requests.get(path)) is not None:
            return json_response(recorded.status, recorded.body)
        if path not in HEALTH_PATHS:
            return json_response(404, {"detail": "Not Found"})
        at = datetime.now(UTC).isoformat()
        body = health.body_of(path, warming=False, sessions=self._open, capacity=CAPACITY, at=at)
        return json_response(200, body)

    # A session

    async def _play(self, connection: ServerConnection) -> None:
        assert isinstance(connection, _Client)
        self._open += 1
        try:
            await _Playing(self, connection).run()
        except Unfinished:
            self.tally.unfinished += 1
            self._say(f"session {connection.number}: not over when the replay was stopped")
        except Differs as problem:
            self.tally.differed += 1
            self._say(f"session {connection.number} DIFFERS {problem}")
            await connection.close(1008, "replay: the client differs from the recording")
        except Exception:
            self.tally.differed += 1
            logger.exception("replay: session %d failed", connection.number)
        else:
            self.tally.matched += 1
            self._say(f"session {connection.number}: played to its end")
        finally:
            self._open -= 1

    @property
    def stopping(self) -> bool:
        """Connections are ended from here."""
        return self._stopping

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def client_seconds(self) -> float:
        return self._client_seconds

    def say(self, line: str) -> None:
        """Somebody hears it."""
        self._say(line)


class _Playing:
    """One recorded session on one connection."""

    def __init__(self, replay: Replay, connection: _Client) -> None:
        self._replay = replay
        self._connection = connection
        self._steps = connection.conversation.steps
        self._at = 0
        """The step that is due."""

    async def run(self) -> None:
        """Return when the session has ended as recorded. Raises Differs and Unfinished."""
        before = 0.0
        try:
            for at, step in enumerate(self._steps):
                self._at = at
                if step.side == "c":
                    await self._hear(step)
                else:
                    await self._wait(step, before)
                    if await self._speak(step):
                        return
                before = before if step.at_seconds is None else step.at_seconds
            self._at = len(self._steps)
            await self._hear_nothing_more()
        except ConnectionClosed:
            self._check_end()

    async def _wait(self, step: Step, before: float) -> None:
        gap = 0.0 if step.at_seconds is None else max(0.0, step.at_seconds - before)
        await pause(gap / self._replay.speed)

    async def _speak(self, step: Step) -> bool:
        """Whether that was the end."""
        match step.said:
            case Text(text=text):
                await self._connection.send(text)
            case Binary() as binary:
                if binary.data is not None or binary.size_bytes <= PIECE_BYTES:
                    await self._connection.send(b"".join(binary.pieces()))
                else:
                    # One message in many frames: never all of it in memory.
                    await self._connection.send(binary.pieces())
            case Closed() as how:
                await end(self._connection, how)
                return True
        return False

    async def _hear(self, step: Step) -> None:
        if isinstance(step.said, Closed):
            await self._hear_nothing_more()
        while True:
            message = await self._next()
            said = Text(message) if isinstance(message, str) else Binary.of(message)
            found = difference(step.said, said)
            if found is None:
                return
            if not await self._answer_of_its_own(message):
                raise Differs(f"{self._place()}: {found}")

    async def _hear_nothing_more(self) -> NoReturn:
        """Raises: by the end of the connection, or by what the client says instead."""
        while True:
            message = await self._next()
            if not await self._answer_of_its_own(message):
                told = message[:120] if isinstance(message, str) else f"{len(message)} bytes"
                raise Differs(
                    f"{self._place()}: the client says {told}, where the recording has nothing more"
                )

    async def _next(self) -> str | bytes:
        try:
            async with asyncio.timeout(self._replay.client_seconds):
                return await self._connection.recv()
        except TimeoutError as error:
            seconds = f"{self._replay.client_seconds:g} s"
            raise Differs(f"{self._place()}: the client did not go on within {seconds}") from error

    async def _answer_of_its_own(self, message: str | bytes) -> bool:
        """A gateway asks for the state after each segment, also when the recorded client did not: it is told,
        as a replica may, that there is none. Tells whether the message was such a question."""
        if not isinstance(message, str) or type_in(message) != "snapshot_state":
            return False
        text = "no continuation state available for session"
        answer = ErrorMessage(code="internal_error", message=text, retryable=False)
        who = f"session {self._connection.number}: {self._place()}"
        self._replay.say(f"{who}: asked for the state, which was not recorded; told that there is none")
        await self._connection.send(encode(answer).decode())
        return True

    def _check_end(self) -> None:
        """The client has ended the connection: fine, where the recording has nothing else of it to come."""
        how = end_of(self._connection)
        if how is None and self._replay.stopping:
            raise Unfinished
        if how is None:
            told = self._connection.protocol.close_sent
            why = f": {told.code} {told.reason}".rstrip() if told is not None else ""
            raise Differs(f"{self._place()}: the client broke the WebSocket protocol{why}")
        expected = next((step for step in self._steps[self._at :] if step.side == "c"), None)
        if expected is None:
            return
        found = difference(expected.said, how)
        if found is not None:
            raise Differs(f"{self._place()}: {found}")

    def _place(self) -> str:
        count = len(self._steps)
        if self._at >= count:
            return f"after the last of {count} steps"
        line = self._steps[self._at].line
        return f"at step {self._at + 1} of {count}" + (f" (line {line})" if line else "")
