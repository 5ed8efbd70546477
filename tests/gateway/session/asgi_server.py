"""The server's side of an ASGI WebSocket, in a test's hands."""

from __future__ import annotations

import asyncio
from typing import Any

SCOPE: dict[str, Any] = {
    "type": "websocket",
    "path": "/v1/stream/é",
    "raw_path": b"/v1/stream/%C3%A9",
    "query_string": b"t=a%2Fb&t=c",
    "headers": [(b"host", b"gateway.example"), (b"x-one", b"1"), (b"x-one", b"2")],
    "client": ("192.0.2.7", "40000"),
    "scheme": "ws",
}


class Server:
    """The server's side of one ASGI WebSocket."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        """What has gone to the client."""
        self.pending_receives = 0
        self.sending = 0
        """How many sends are waiting for the client."""
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._takes = asyncio.Semaphore(0)
        self._taking = True
        self.arrives({"type": "websocket.connect"})

    def arrives(self, message: dict[str, Any]) -> None:
        self._incoming.put_nowait(message)

    def says(self, *messages: str | bytes) -> None:
        """The client sends these."""
        for data in messages:
            key = "text" if isinstance(data, str) else "bytes"
            self.arrives({"type": "websocket.receive", key: data})

    def vanishes(self, code: int = 1005) -> None:
        self.arrives({"type": "websocket.disconnect", "code": code})

    def stops_taking(self) -> None:
        """From now on the client reads nothing."""
        self._taking = False

    def takes(self, messages: int | None = None) -> None:
        """The client takes so many more messages, or reads on for good."""
        if messages is None:
            self._taking = True
        for _ in range(messages or self.sending):
            self._takes.release()

    async def receive(self) -> dict[str, Any]:
        self.pending_receives += 1
        assert self.pending_receives == 1, "one receive at a time"
        try:
            return await self._incoming.get()
        finally:
            self.pending_receives -= 1

    async def send(self, message: dict[str, Any]) -> None:
        if not self._taking:
            self.sending += 1
            assert self.sending == 1, "one send at a time"
            try:
                await self._takes.acquire()
            finally:
                self.sending -= 1
        self.sent.append(message)

    @property
    def delivered(self) -> list[str | bytes]:
        """Payloads that have gone to the client."""
        return [m["text"] if "text" in m else m["bytes"] for m in self.sent if m["type"] == "websocket.send"]

    @property
    def delivered_bytes(self) -> int:
        return sum(len(data) for data in self.delivered)
