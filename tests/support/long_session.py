"""A session of many steps that is meant to survive whatever happens to its replicas."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from emulator.running.story import Story

PATIENCE_SECONDS = 60.0
"""How long anything may take on a busy machine while a replica is replaced: a bound on a hang."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Ask for a segment."""

    text: str
    seed: int = 0
    wait: bool = True
    """Until it is complete; otherwise the next step follows at once."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys."""


@dataclass(frozen=True, slots=True)
class Say:
    """Send a message that has no answer: a toggle, or something of no type that is known."""

    message: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Ask for the continuation state and wait for the answer, be it an error."""


@dataclass(frozen=True, slots=True)
class Until:
    """Wait for a condition of the story, which is looked at after each message."""

    condition: Callable[[Story], object]


@dataclass(frozen=True, slots=True)
class After:
    """Wait for an event of the test's, for as long as that takes."""

    event: asyncio.Event


Step = Prompt | Say | Snapshot | Until | After

EVERYTHING = Until(lambda story: False)
"""Wait for the session's end: the server's close."""


def toggle(kind: str, **fields: object) -> Say:
    """As in `toggle("enhancement_updated", enabled=True)`."""
    return Say({"type": kind, **fields})


class _Over(Exception):
    """The server ended the session."""


class LongSession:
    """`run` it; `story` tells at any time how far it has come."""

    def __init__(
        self,
        url: str,
        steps: Iterable[Step],
        *,
        init: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`steps` may be a generator: a step is taken when the one before it is done. `init` adds keys."""
        self.story = Story()
        self.asked: list[Prompt] = []
        """Prompts that were sent."""
        self._url = url
        self._steps = steps
        self._init = {"type": "session_init_v2", "client_id": "tests", **(init or {})}
        self._headers = headers
        self._heard = asyncio.Event()

    async def run(self) -> Story:
        """The story, when the session is over: all steps done and closed, or ended by the other side."""
        story = self.story
        try:
            async with connect(
                self._url,
                max_size=None,
                open_timeout=PATIENCE_SECONDS,
                proxy=None,
                compression=None,
                additional_headers=self._headers,
            ) as socket:
                await self._live(socket)
        except InvalidStatus as refused:
            story.status = refused.response.status_code
        story.over = True
        return story

    async def _live(self, socket: ClientConnection) -> None:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(self._listen(socket))
            with contextlib.suppress(_Over, ConnectionClosed):
                await socket.send(json.dumps(self._init))
                for step in self._steps:
                    await self._do(socket, step)
                await self._until(lambda: self.story.completed >= len(self.asked))
                self.story.finished = True
                await socket.close(1000, "done")
            await asyncio.wait([listening], timeout=PATIENCE_SECONDS)
            listening.cancel()

    async def _listen(self, socket: ClientConnection) -> None:
        story = self.story
        try:
            while True:
                story.take(await socket.recv())
                self._heard.set()
        except ConnectionClosed as closed:
            if closed.rcvd is not None and not story.finished:
                story.close_code, story.close_reason = closed.rcvd.code, closed.rcvd.reason
        story.over = True
        self._heard.set()

    async def _do(self, socket: ClientConnection, step: Step) -> None:
        match step:
            case Prompt():
                await self._until(lambda: self.story.opened)
                self.asked.append(step)
                message = {"type": "segment_prompt_source", "prompt": step.text, "seed": step.seed}
                await socket.send(json.dumps({**message, **step.more}))
                if step.wait:
                    await self._until(lambda: self.story.completed >= len(self.asked))
            case Say(message=message):
                await socket.send(json.dumps(message))
            case Snapshot():
                answers = len(self.story.snapshots) + len(self.story.errors)
                await socket.send('{"type":"snapshot_state"}')
                await self._until(lambda: len(self.story.snapshots) + len(self.story.errors) > answers)
            case Until(condition=condition):
                await self._until(lambda: condition(self.story))
            case After(event=event):
                await self._until_set(event)

    async def _until(
        self, condition: Callable[[], object], *, patience_seconds: float | None = PATIENCE_SECONDS
    ) -> None:
        try:
            async with asyncio.timeout(patience_seconds):
                while not condition():
                    if self.story.over:
                        raise _Over
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            sent = f"{len(self.asked)} prompts sent"
            raise AssertionError(
                f"nothing more within {patience_seconds:g} s: {sent}; {self.story}"
            ) from None

    async def _until_set(self, event: asyncio.Event) -> None:
        async def wake() -> None:
            await event.wait()
            self._heard.set()

        waking = asyncio.ensure_future(wake())
        try:
            await self._until(event.is_set, patience_seconds=None)
        finally:
            waking.cancel()


async def live(url: str, steps: Iterable[Step], **options: Any) -> Story:
    """One session from its init to its end."""
    return await LongSession(url, steps, **options).run()
