"""The server's side of an ASGI WebSocket, in a test's hands."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from gateway.session.asgi_door import WIRE, Wire

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

    @property
    def scope(self) -> dict[str, Any]:
        return dict(SCOPE)

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


class EagerServer(Server):
    """A server as Granian is where one thread serves a connection: what it is asked for begins at the call,
    and is done in that order, some turns of the loop later.
    """

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        """What it was given to send, whatever became of it."""
        self.sends: deque[asyncio.Future[None]] = deque()
        self._unsent: deque[dict[str, Any]] = deque()
        self._receives: deque[asyncio.Future[dict[str, Any]]] = deque()
        self._arrived: deque[dict[str, Any]] = deque()
        super().__init__()

    @property
    def scope(self) -> dict[str, Any]:
        return {**SCOPE, WIRE: Wire(self.receive_now, self.send_now, sends_keep_order=True)}

    def arrives(self, message: dict[str, Any]) -> None:
        self._arrived.append(message)
        self._hand_out()

    def takes(self, messages: int | None = None) -> None:
        if messages is None:
            self._taking = True
        for _ in range(messages or len(self.sends)):
            self._take()

    def receive_now(self) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._receives.append(future)
        future.add_done_callback(lambda _: self._count())
        asyncio.get_running_loop().call_soon(self._hand_out)
        self._count()
        return future

    def send_now(self, message: dict[str, Any]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun.append(message)
        self._unsent.append(message)
        self.sends.append(future)
        future.add_done_callback(lambda _: self._count())
        if self._taking:
            asyncio.get_running_loop().call_soon(self._take)
        self._count()
        return future

    def _take(self) -> None:
        while self.sends:
            future, message = self.sends.popleft(), self._unsent.popleft()
            if not future.done():
                future.set_result(None)
                self.sent.append(message)
                break
        self._count()

    def _hand_out(self) -> None:
        while self._receives and self._receives[0].done():
            self._receives.popleft()
        if self._receives and self._arrived:
            self._receives.popleft().set_result(self._arrived.popleft())
            asyncio.get_running_loop().call_soon(self._hand_out)
        self._count()

    def _count(self) -> None:
        self.pending_receives = sum(not future.done() for future in self._receives)
        self.sending = 0 if self._taking else sum(not future.done() for future in self.sends)

    async def receive(self) -> dict[str, Any]:
        raise AssertionError("there is a wire below this")

    async def send(self, message: dict[str, Any]) -> None:
        raise AssertionError("there is a wire below this")
