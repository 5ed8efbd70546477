"""A driven session: a client of the streaming protocol that follows its plan and writes down what it sees.

It speaks through a plain WebSocket library, as an application does. One task listens, one follows the
script. With `reconnect` it asks for the continuation state after each segment, and begins from the last one
when it has to connect again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)

from emulator.running.connecting import CLOSE_SECONDS, open_connection
from emulator.running.pace import Pace
from emulator.running.seen import NO_CLOSE_FRAME, Attempt, Ending, SessionSeen
from emulator.scenario import Binary, Line, Prompt, Say, Wait

CONNECT_SECONDS = 30.0
"""How long an upgrade may take: a bound on a hang."""
SNAPSHOT = '{"type":"snapshot_state"}'
EVENTS: Mapping[str, str] = {
    "gpu_assigned": "assigned",
    "ltx2_segment_start": "segment_start",
    "ltx2_segment_complete": "segment_end",
    "session_resumed": "resumed",
    "error": "error",
}
"""Of messages that a scenario can wait for, by their type."""

Do = Literal["leave", "close", "stop_reading", "read"]
Notice = Callable[[str, str, str | None], None]
"""Called at once with the session's name, an event of it, and a message's type or an error's code."""


class _Over(Exception):
    """The connection has ended."""


class DrivenSession:
    """One session of a scenario. `run` it once; `placed` is set when the next one may open."""

    def __init__(
        self, seen: SessionSeen, url: str, notice: Notice, clock: Callable[[], float], others: asyncio.Event
    ) -> None:
        """`url` is the gateway's without path; `clock` tells seconds since the play began; `others` is set
        once nobody else is waited for."""
        self.seen = seen
        self.placed = asyncio.Event()
        self._plan = seen.plan
        self._url = url
        self._notice = notice
        self._clock = clock
        self._others = others
        self._pace = Pace(self._plan.read)
        self._changed = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._attempt = Attempt(began_at=0.0)
        self._done_lines = 0
        self._state: dict[str, Any] | None = None
        self._covered = 0
        self._is_queued = False
        self.task: asyncio.Task[None] | None = None
        """Of whoever runs it."""
        self._left = False

    @property
    def waits_for_others(self) -> bool:
        """Nothing more comes of it until the play is over: it stays, or has stopped reading for good."""
        stays = self._plan.then == "stay" and self.seen.through
        return self.seen.over or stays or self._pace.has_stopped_for_good

    async def run(self) -> None:
        """The session is over."""
        try:
            retries = self._plan.reconnect.times if self._plan.reconnect is not None else 0
            while not await self._once() and retries > 0 and not self._others.is_set():
                retries -= 1
                assert self._plan.reconnect is not None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._plan.reconnect.pause):
                        await self._others.wait()
        finally:
            self.seen.over = True
            self.placed.set()

    def do(self, what: Do, tasks: asyncio.TaskGroup) -> None:
        """It does that now, whatever its script says."""
        match what:
            case "leave":
                self._leave()
            case "close":
                tasks.create_task(self._close())
            case "stop_reading":
                self._pace.stop()
            case "read":
                self._pace.go_on()

    def cut_off(self) -> None:
        """It is over, wherever it was."""
        if self.task is not None:
            self.task.cancel()

    def finish(self) -> None:
        """The play is over."""
        self._pace.finish()

    # One connection

    async def _once(self) -> bool:
        """Whether there is nothing more to try."""
        attempt = self._attempt = Attempt(began_at=self._clock(), base=self._covered)
        self.seen.attempts.append(attempt)
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = self._socket = await open_connection(
                    self._url, self._plan, name=self.seen.name, small=self._pace.holds_back
                )
        except InvalidStatus as refused:
            attempt.status = refused.response.status_code
            self._end("refused", str(attempt.status))
            return False
        except TimeoutError:
            attempt.fault = f"no answer to the upgrade within {CONNECT_SECONDS:g} s"
        except (InvalidHandshake, InvalidMessage, OSError) as problem:
            attempt.fault = _told(problem)
        if connection is None:
            self._end("refused", None)
            return False
        attempt.opened_at = self._clock()
        attempt.subprotocol = connection.subprotocol
        self._pace.opened()
        self._notice(self.seen.name, "opened", None)
        try:
            await self._live(connection)
        finally:
            connection.transport.abort()
            self._note_ending(Ending(NO_CLOSE_FRAME, "", "client"))
        return self._is_final(attempt)

    def _is_final(self, attempt: Attempt) -> bool:
        if self.seen.through or self._left or self._others.is_set():
            return True
        if attempt.ending is not None and attempt.ending.code == 1000:
            return True
        if self._plan.reconnect is not None and self._plan.reconnect.insist:
            return False
        # An error that was not the last word has been lived with.
        story = attempt.story
        return story.types[-1:] == ["error"] and story.errors[-1].get("retryable") is False

    async def _live(self, connection: ClientConnection) -> None:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(self._listen(connection))
            following = tasks.create_task(self._follow(connection))
            await asyncio.wait({listening, following}, return_when=asyncio.FIRST_COMPLETED)
            # Where the client has closed, what is still to come is the answer. Where the other side has, what
            # came before is still to be taken, at the client's own pace.
            await asyncio.wait({listening}, timeout=CLOSE_SECONDS if self._left else None)
            listening.cancel()
            following.cancel()

    # Listening

    async def _listen(self, connection: ClientConnection) -> None:
        size = 0
        try:
            while True:
                await self._pace.wait(size)
                data = await connection.recv()
                size = len(data)
                self._take(data)
        except ConnectionClosed as closed:
            self._note_ending(_ending(closed, left=self._left))
        except WebSocketException as problem:
            self._attempt.fault = _told(problem)
            self._note_ending(Ending(NO_CLOSE_FRAME, "", "gateway"))

    def _take(self, data: str | bytes) -> None:
        attempt, now = self._attempt, self._clock()
        if attempt.first_message_at is None:
            attempt.first_message_at = now
        if attempt.heard_at is not None and self._owed > 0:
            attempt.silence_seconds = max(attempt.silence_seconds, now - attempt.heard_at)
        attempt.heard_at = now
        before = attempt.story.completed
        kind = attempt.story.take(data)
        if attempt.story.completed > before:
            attempt.completed_at.append(now)
            if attempt.first_segment_at is None:
                attempt.first_segment_at = now
        name = "binary" if isinstance(data, bytes) else kind or "other"
        attempt.binary_messages += name == "binary"
        attempt.other_messages += name == "other"
        if name != "binary" or attempt.sequence[-1:] != ["binary"]:
            attempt.sequence.append(name)
        self.placed.set()
        self._changed.set()
        self._tell(kind)
        if isinstance(data, bytes) and attempt.story.segments and len(attempt.story.segments[-1].parts) == 1:
            self._notice(self.seen.name, "media", None)

    def _tell(self, kind: str | None) -> None:
        """Whoever waits for a message of this type hears of it."""
        if kind is None:
            return
        name, story = self.seen.name, self._attempt.story
        if kind == "queue_status" and not self._is_queued:
            self._is_queued = True
            self._notice(name, "queued", None)
        if kind == "continuation_state_snapshot" and story.snapshots:
            self._state = story.snapshots[-1]
            self._covered = self._attempt.base + story.completed
        self._notice(name, "message", kind)
        if (event := EVENTS.get(kind)) is not None:
            self._notice(name, event, str(story.errors[-1].get("code")) if kind == "error" else None)

    def _note_ending(self, ending: Ending) -> None:
        if self._attempt.ending is None:
            self._attempt.ending = ending
            self._end("closed", None)

    def _end(self, event: str, kind: str | None) -> None:
        attempt = self._attempt
        attempt.ended_at = self._clock()
        if attempt.heard_at is not None and self._owed > 0:
            attempt.silence_seconds = max(attempt.silence_seconds, attempt.ended_at - attempt.heard_at)
        self._attempt.story.over = True
        self.placed.set()
        self._changed.set()
        self._notice(self.seen.name, event, kind)

    # Following the script

    @property
    def _owed(self) -> int:
        """Segments that were asked for on this connection and are not complete."""
        return len(self._attempt.asked) - self._attempt.story.completed

    async def _follow(self, connection: ClientConnection) -> None:
        with contextlib.suppress(_Over, ConnectionClosed):
            if (init := self._plan.init_message()) is not None:
                kept = {} if self._state is None else {"continuation_state": self._state}
                await connection.send(json.dumps({"client_id": self.seen.name, **init, **kept}))
            number = 0
            for index, line in enumerate(self._plan.prompts):
                if self._others.is_set():
                    break
                number += isinstance(line, Prompt)
                if isinstance(line, Prompt) and number <= self._attempt.base:
                    continue
                if isinstance(line, Prompt) or index >= self._done_lines:
                    await self._do(connection, line)
                    self._done_lines = max(self._done_lines, index + 1)
            await self._until(lambda: self._owed <= 0)
            self.seen.through = self._done_lines == len(self._plan.prompts)
            if self._plan.then == "stay":
                await self._others.wait()
            if self._plan.then == "leave":
                self._leave()
            else:
                await self._close()

    async def _do(self, connection: ClientConnection, line: Line) -> None:
        match line:
            case Prompt():
                await self._ask(connection, line)
            case Say(send=message):
                await connection.send(message if isinstance(message, str) else json.dumps(message))
            case Binary(binary_bytes=size):
                await connection.send(bytes(size))
            case Wait(wait=seconds):
                await asyncio.sleep(seconds)

    async def _ask(self, connection: ClientConnection, prompt: Prompt) -> None:
        if self._plan.init is not None:
            await self._until(lambda: self._attempt.story.opened)
        await self._until(lambda: self._owed <= self._plan.ahead)
        if self._attempt.asked:
            if self._plan.reconnect is not None and self._owed <= 0:
                await connection.send(SNAPSHOT)
            await asyncio.sleep(self._plan.pause)
        fields = prompt.model_dump(exclude_none=True)
        self._attempt.asked.append((prompt, self._clock()))
        if self._owed == 1:
            self._attempt.heard_at = self._clock()
        await connection.send(json.dumps({"type": "segment_prompt_source", **fields}))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._attempt.story.over:
                raise _Over
            self._changed.clear()
            await self._changed.wait()

    # Leaving

    async def _close(self) -> None:
        self._left = True
        if self._socket is not None:
            await self._socket.close(self._plan.code, self._plan.reason)

    def _leave(self) -> None:
        self._left = True
        if self._socket is not None:
            self._socket.transport.abort()


def _ending(closed: ConnectionClosed, *, left: bool) -> Ending:
    received, sent = closed.rcvd, closed.sent
    is_ours = left if received is None else sent is not None and not closed.rcvd_then_sent
    by: Literal["client", "gateway"] = "client" if is_ours else "gateway"
    if received is None:
        return Ending(NO_CLOSE_FRAME, "", by)
    return Ending(received.code, received.reason, by)


def _told(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
