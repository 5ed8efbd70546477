"""A client of one replica, for the emulator's own tests: the `websockets` client with deadlines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATIENCE_SECONDS = 20.0
INIT = {"type": "session_init_v2"}
SNAPSHOT = {"type": "snapshot_state"}


@dataclass(slots=True)
class Finished:
    """What came until the connection ended."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    media: list[bytes] = field(default_factory=list)
    code: int | None = None
    """None without a close frame."""
    reason: str = ""

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]


class Client:
    """One session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, *messages: dict[str, Any] | str | bytes) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def receive(self) -> dict[str, Any] | bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            received = await self.socket.recv()
        return received if isinstance(received, bytes) else dict(json.loads(received))

    async def receive_until(self, kind: str) -> Finished:
        """Everything up to the first message of this type."""
        return await self.receive_until_any(kind)

    async def receive_until_any(self, *kinds: str) -> Finished:
        """Everything up to the first message of one of these types."""
        seen = Finished()
        while not seen.messages or seen.messages[-1]["type"] not in kinds:
            received = await self.receive()
            if isinstance(received, bytes):
                seen.media.append(received)
            else:
                seen.messages.append(received)
        return seen

    async def open(self, **fields: Any) -> Finished:
        """Say the opening message and hear its answers."""
        await self.send({**INIT, **fields})
        return await self.receive_until("ltx2_stream_start")

    async def segment(self, prompt: str, seed: int | None = None) -> bytes:
        """The media of one segment."""
        await self.send({"type": "segment_prompt_source", "prompt": prompt, "seed": seed})
        return b"".join((await self.receive_until("ltx2_segment_complete")).media)

    async def snapshot(self) -> dict[str, Any]:
        """The continuation state."""
        await self.send(SNAPSHOT)
        return dict((await self.receive_until("continuation_state_snapshot")).messages[-1]["state"])

    async def to_the_end(self) -> Finished:
        """Everything until the connection ends."""
        seen = Finished()
        try:
            while True:
                received = await self.receive()
                if isinstance(received, bytes):
                    seen.media.append(received)
                else:
                    seen.messages.append(received)
        except ConnectionClosed as end:
            if end.rcvd is not None:
                seen.code, seen.reason = end.rcvd.code, end.rcvd.reason
        return seen


@asynccontextmanager
async def session(url: str, **options: Any) -> AsyncIterator[Client]:
    """A connected client."""
    async with connect(
        url, compression=None, proxy=None, max_size=None, open_timeout=PATIENCE_SECONDS, **options
    ) as socket:
        yield Client(socket)
