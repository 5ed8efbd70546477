"""A client of the streaming protocol as an application has it: a plain WebSocket library, and retries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

STEP_SECONDS = 20.0
"""How long the client waits for anything that it is owed."""


@dataclass(slots=True)
class Attempt:
    """What one try of a session came to."""

    completed: bool = False
    """Every prompt was answered with a whole segment."""
    segments: int = 0
    close_code: int | None = None
    """What the server's close frame said; None where none came (1006) or the client closed first."""
    close_reason: str = ""
    status: int | None = None
    """The HTTP status where the upgrade was refused."""
    errors: list[str] = field(default_factory=list)
    """Codes of the `error` messages that came."""
    fault: str | None = None
    """What ended the try where it was neither of these: a refused connect, a broken handshake, silence."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client that tries again got in the end."""

    attempts: Sequence[Attempt]

    @property
    def completed(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].completed

    @property
    def broken(self) -> Sequence[Attempt]:
        """The tries that something ended."""
        return [attempt for attempt in self.attempts if not attempt.completed]


async def drive_session(
    url: str, *, prompts: Sequence[str] = ("a pier at dawn", "the same, in rain")
) -> Attempt:
    """One session: init, every prompt answered in turn, a normal close."""
    attempt = Attempt()
    try:
        async with connect(url, max_size=None, open_timeout=STEP_SECONDS, proxy=None) as session:
            await _run(session, attempt, prompts)
    except InvalidStatus as refused:
        attempt.status = refused.response.status_code
    except ConnectionClosed as closed:
        if closed.rcvd is not None:
            attempt.close_code, attempt.close_reason = closed.rcvd.code, closed.rcvd.reason
        else:
            attempt.fault = "the connection went without a close frame"
    except TimeoutError:
        attempt.fault = f"nothing came for {STEP_SECONDS:g} s"
    except (InvalidHandshake, InvalidMessage, OSError) as error:
        attempt.fault = f"{type(error).__name__}: {error}"
    return attempt


async def drive_until_complete(
    url: str,
    *,
    attempts: int = 10,
    prompts: Sequence[str] = ("a pier at dawn", "the same, in rain"),
    pause_seconds: float = 0.1,
) -> Outcome:
    """Sessions one after the other until one is complete, or the attempts are used up."""
    made: list[Attempt] = []
    for number in range(attempts):
        made.append(await drive_session(url, prompts=prompts))
        if made[-1].completed:
            break
        # As every client should: a growing pause with a random part, so that nobody comes back in step.
        await asyncio.sleep(pause_seconds * min(number + 1, 5) * random.uniform(0.5, 1.5))
    return Outcome(made)


async def _run(session: ClientConnection, attempt: Attempt, prompts: Sequence[str]) -> None:
    with contextlib.suppress(ConnectionClosed):
        # Closed already: what was said before the close is still to be read.
        await session.send(json.dumps({"type": "session_init_v2", "client_id": "tests"}))
    await _until(session, attempt, "ltx2_stream_start")
    for number, prompt in enumerate(prompts):
        await session.send(json.dumps({"type": "segment_prompt_source", "prompt": prompt, "seed": number}))
        await _until(session, attempt, "ltx2_segment_complete")
        attempt.segments += 1
    attempt.completed = True
    with contextlib.suppress(ConnectionClosed):
        await session.close(1000, "done")


async def _until(session: ClientConnection, attempt: Attempt, wanted: str) -> dict[str, Any]:
    """The next message of the type `wanted`; a stream in between must have as many messages as announced."""
    chunks = 0
    while True:
        async with asyncio.timeout(STEP_SECONDS):
            data = await session.recv()
        if isinstance(data, bytes):
            chunks += 1
            continue
        message: dict[str, Any] = json.loads(data)
        match message["type"]:
            case "error":
                attempt.errors.append(message["code"])
            case "media_init":
                # A stream begins; what came of another one before the session went on elsewhere is dropped.
                chunks = 0
            case "media_segment_complete":
                # The initialisation part comes before the chunks that are counted.
                assert chunks == message["chunks"] + 1, f"{chunks} binary messages for {message}"
            case kind if kind == wanted:
                return message
