"""Both sides of a session in a test's hands: a client's door and a replica's connection that only record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.session.asgi_door import CAPABILITIES
from gateway.session.downstream import Capabilities, DownstreamListener, OpeningRequest
from gateway.session.events import Closed, Event, Message
from gateway.session.upstream import CLOSE_TIMEOUT_SECONDS, Upstream, UpstreamListener
from tests.gateway.session.requests import request

PINGING = Capabilities(pings=True, client_reasons=True, largest_frame_bytes=None)
"""What a door of our own wire could do."""


class FakeDoor:
    """Implements `Downstream`. What the session does to it is in its fields."""

    def __init__(
        self, asked: OpeningRequest | None = None, *, capabilities: Capabilities = CAPABILITIES
    ) -> None:
        self.request = asked or request()
        self.capabilities = capabilities
        self.stalled_since: float | None = None
        self.listener: DownstreamListener | None = None
        self.subprotocol: str | None = None
        self.refusal: tuple[int, dict[bytes, bytes], bytes] | None = None
        self.sent: list[Event] = []
        self.calls: list[str] = []
        """Pauses, resumes and drops, in order."""
        self.takes = asyncio.Event()
        """Cleared while the client does not take what was sent."""
        self.takes.set()
        self.accepting: BaseException | None = None
        """What `accept` raises after it has begun."""

    @property
    def accepted(self) -> bool:
        return self.listener is not None

    async def refuse(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        assert self.refusal is None, "refused once"
        assert not self.accepted
        self.refusal = (status, dict(headers), body)
        await asyncio.sleep(0)

    async def accept(self, listener: DownstreamListener, subprotocol: str | None) -> None:
        assert not self.accepted, "accepted once"
        assert self.refusal is None
        self.listener, self.subprotocol = listener, subprotocol
        await asyncio.sleep(0)
        if self.accepting is not None:
            raise self.accepting

    def send(self, event: Event) -> None:
        assert self.accepted
        if not (self.sent and isinstance(self.sent[-1], Closed)):
            self.sent.append(event)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def drop_unsent(self) -> None:
        self.calls.append("drop")

    async def flushed(self) -> None:
        await self.takes.wait()

    def says(self, event: Event) -> None:
        """The client says this."""
        assert self.listener is not None
        self.listener.downstream_event(event)

    @property
    def texts(self) -> list[str | bytes]:
        """Payloads that the client was sent."""
        return [event.data for event in self.sent if isinstance(event, Message)]


class FakeUpstream(Upstream):
    """A replica's connection that stands on nothing. What the session does to it is in its fields."""

    def __init__(self, *, subprotocol: str | None = None) -> None:
        super().__init__(max_message_bytes=1 << 20)
        self.sent: list[Event] = []
        self.calls: list[str] = []
        self.waiting_bytes = 0
        """What the replica has not taken."""
        self.early: list[Event] = []
        """What came before the session listened."""
        self.session: UpstreamListener | None = None
        self.cut = False
        self.awaited = False
        """Whether the session waited for its close handshake."""
        self._chosen = subprotocol
        self._over = False

    @property
    def subprotocol(self) -> str | None:
        return self._chosen

    @property
    def unsent_bytes(self) -> int:
        return self.waiting_bytes

    def listen(self, listener: UpstreamListener) -> None:
        self.session = listener
        self.calls.append("listen")
        for event in self.early:
            self.says(event)

    def mute(self) -> None:
        super().mute()
        self.session = self._listener

    def send(self, event: Event) -> None:
        if not (self.sent and isinstance(self.sent[-1], Closed)):
            self.sent.append(event)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.cut = True
        asyncio.get_running_loop().call_soon(self._is_over)

    async def closed(self) -> None:
        self.awaited = True
        goodbye = self._over or (bool(self.sent) and isinstance(self.sent[-1], Closed))
        await asyncio.sleep(0 if goodbye else CLOSE_TIMEOUT_SECONDS)
        self._is_over()

    def says(self, event: Event) -> None:
        """The replica says this."""
        assert self.session is not None
        if not self._over:
            self._over = isinstance(event, Closed)
            self.session.upstream_event(event)

    @property
    def texts(self) -> list[str | bytes]:
        """Payloads that the replica was sent."""
        return [event.data for event in self.sent if isinstance(event, Message)]

    def _is_over(self) -> None:
        if self.session is not None:
            self.says(Closed(None))
