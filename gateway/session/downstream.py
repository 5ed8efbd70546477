"""The client's side of a session as a port. A door is an adapter of it: one for Granian, others beside it.

A door speaks its own wire; the session sees events (`events.py`) and never a socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.session.events import Event

Headers = Sequence[tuple[bytes, bytes]]
"""Name and value as they came, names lower-case, in order, repeated where the client repeated them."""


@dataclass(frozen=True, slots=True)
class OpeningRequest:
    """The client's upgrade request, byte for byte where a replica must see it so."""

    raw_path: str
    """Path as it stood in the request line, percent-encoding kept."""
    query: str
    """Everything after the first `?`, undecoded; empty without one."""
    headers: Headers
    client_host: str
    """Address of the TCP peer, which may be a proxy."""
    scheme: str
    """`http` or `https`: how the client reached this gateway."""

    def header(self, name: bytes) -> str | None:
        """The first value of `name` (lower-case), or None."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    @property
    def subprotocols(self) -> tuple[str, ...]:
        """What the client offers, in its order (RFC 6455, section 11.3.4: the header may be repeated)."""
        offered = b",".join(value for key, value in self.headers if key == b"sec-websocket-protocol")
        return tuple(name for part in offered.decode("latin-1").split(",") if (name := part.strip()))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a door's wire can carry. What it can't is documented, not emulated."""

    pings: bool
    """Whether `send(Ping())` reaches the client and its Pong comes back as an event."""
    client_reasons: bool
    """Whether the reason of a client's close frame is known."""
    largest_frame_bytes: int | None
    """Client frames above this end the connection before the session can say why; None without such a limit.
    """


class DownstreamListener(Protocol):
    """What a door calls. All of it is synchronous, on the event loop, and must not raise."""

    def downstream_event(self, event: Event) -> None:
        """The client sent this. After `Closed` nothing follows."""

    def downstream_paused(self) -> None:
        """The client does not take what was sent; stop sending where that is possible."""

    def downstream_resumed(self) -> None:
        """What was held back is gone; go on."""


class Downstream(Protocol):
    """A client's connection. Before `accept` only `refuse` may be used, after it only the rest."""

    request: OpeningRequest
    capabilities: Capabilities

    @property
    def accepted(self) -> bool:
        """Whether `accept` has begun; it can't be taken back."""

    async def refuse(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer the upgrade with an HTTP status instead of 101."""

    async def accept(self, listener: DownstreamListener, subprotocol: str | None) -> None:
        """Answer 101; from then on the client is read, also while its messages are held back."""

    def send(self, event: Event) -> None:
        """Queue `event` and return at once. After a `Closed`, and once the client is gone, a no-op."""

    def pause_reading(self) -> None:
        """Hand over no further event until `resume_reading`; a message or two may be held meanwhile."""

    def resume_reading(self) -> None:
        """Undo `pause_reading`; a no-op where nothing is paused."""

    @property
    def stalled_since(self) -> float | None:
        """Loop time since which the client has taken nothing although something waits for it; None if nothing
        waits.
        """

    def drop_unsent(self) -> None:
        """Forget what the client has not taken, except a `Closed`, so that a close can still reach it."""

    async def flushed(self) -> None:
        """Return once all that was sent is on its way or the client is gone. Cancel-safe."""
