"""A session's life, in order: checks, a replica, the upstream handshake, the accept, the pump, the end."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gateway.errors import GatewayDraining, InternalError, NoHealthyReplica, ReplicasFull, SessionEnded
from gateway.logs import log_line
from gateway.selection import AllFull, NoneHealthy
from gateway.session.bridge import Bridge
from gateway.session.checks import refusal
from gateway.session.core import End, SessionCore, message_for
from gateway.session.downstream import Downstream, Headers, OpeningRequest
from gateway.session.events import Closed, Event, Message
from gateway.session.forwarding import Network, client_address
from gateway.session.opening import NotOpened, Opened, Opener
from gateway.session.roster import Entry, Roster
from gateway.session.upstream import Refused
from gateway.session.watch import Limits

logger = logging.getLogger("streamhold.session")

REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""What is kept of a client's own X-Request-Id; anything else is replaced."""

_CLIENT_ERRORS = range(400, 600)


@dataclass(frozen=True, slots=True)
class SessionService:
    """Serves clients, each through a door of its own. One instance a gateway."""

    roster: Roster
    opener: Opener
    fresh: Callable[[], Awaitable[None]]
    """Waits while the health of the replicas is not to be believed."""
    new_core: Callable[[], SessionCore]
    limits: Limits
    max_sessions: int
    tokens: Sequence[str]
    allowed_origins: Sequence[str]
    proxies: Sequence[Network]

    async def serve(self, door: Downstream) -> None:
        """Return when the session of `door` is over. Raises nothing: a defect ends this session with 1011."""
        request_id = _request_id(door.request)
        try:
            await self._serve(door, request_id)
        except Exception:  # an exception that leaves an ASGI handler is swallowed silently
            logger.exception(log_line("session_failed", request_id=request_id))
            if door.accepted:
                door.send(Closed(InternalError.close_code, InternalError.close_reason))
                await self._flush(door)
            else:
                await self._refuse(door, request_id, InternalError.http_status, InternalError.message)

    async def _serve(self, door: Downstream, request_id: str) -> None:
        if self.roster.draining:
            await self._refuse(door, request_id, GatewayDraining.http_status, GatewayDraining.message)
            return
        refused = refusal(door.request, tokens=self.tokens, allowed_origins=self.allowed_origins)
        if refused is not None:
            await self._refuse(door, request_id, *refused)
            return
        if len(self.roster) >= self.max_sessions:
            await self._tell_in_band(door, request_id, ReplicasFull())
            return
        with self.roster.entry() as entry:
            await self.fresh()
            outcome = await self.opener.open(door.request, request_id)
            if isinstance(outcome, Opened):
                await self._carry(door, outcome, entry, request_id)
            else:
                await self._decline(door, outcome, request_id)

    async def _decline(self, door: Downstream, outcome: NotOpened, request_id: str) -> None:
        match outcome.cause:
            case Refused(status=status, headers=headers):
                shown = status if status in _CLIENT_ERRORS else 502
                await self._refuse(door, request_id, shown, "the replica refused this session", headers)
            case AllFull():
                await self._tell_in_band(door, request_id, ReplicasFull())
            case NoneHealthy():
                await self._tell_in_band(door, request_id, NoHealthyReplica())

    async def _carry(self, door: Downstream, opened: Opened, entry: Entry, request_id: str) -> None:
        with opened.lease:
            try:
                await self._join(door, opened, entry, request_id)
            finally:
                opened.upstream.abort()
        await self._flush(door)

    async def _join(self, door: Downstream, opened: Opened, entry: Entry, request_id: str) -> None:
        upstream, replica = opened.upstream, opened.lease.replica
        began = asyncio.get_running_loop().time()
        bridge = Bridge(door, upstream, self.new_core(), self.limits)
        end: End | None = None
        try:
            await door.accept(bridge, upstream.subprotocol)
            logger.info(
                log_line(
                    "session_opened",
                    replica=replica.name,
                    request_id=request_id,
                    client=client_address(door.request, self.proxies),
                    path=door.request.raw_path,
                    subprotocol=upstream.subprotocol,
                )
            )
            entry.opened(bridge)
            end = await bridge.run()
            await upstream.closed()
        finally:
            self._log_end(bridge, replica.name, request_id, end, began)

    def _log_end(self, bridge: Bridge, replica: str, request_id: str, end: End | None, began: float) -> None:
        logger.info(
            log_line(
                "session_ended",
                replica=replica,
                request_id=request_id,
                duration_seconds=asyncio.get_running_loop().time() - began,
                bytes_from_client=bridge.from_client.size_bytes,
                bytes_from_replica=bridge.from_replica.size_bytes,
                messages_from_client=bridge.from_client.messages,
                messages_from_replica=bridge.from_replica.messages,
                closed_by=end.by.value if end else "gateway",
                code=end.code if end else None,
                reason=end.reason if end else "cancelled",
            )
        )

    async def _refuse(
        self, door: Downstream, request_id: str, status: int, reason: str, headers: Headers = ()
    ) -> None:
        logger.info(log_line("session_refused", request_id=request_id, status=status, reason=reason))
        body = json.dumps({"status_code": status, "detail": reason}).encode()
        fields = [(b"content-type", b"application/json"), (b"x-request-id", request_id.encode()), *headers]
        await door.refuse(status, fields, body)

    async def _tell_in_band(self, door: Downstream, request_id: str, cause: SessionEnded) -> None:
        """Accept early, with the first subprotocol that the client offers, and say in band why it ends."""
        logger.info(
            log_line(
                "session_refused", request_id=request_id, code=cause.close_code, reason=cause.close_reason
            )
        )
        await door.accept(_Deaf(), next(iter(door.request.subprotocols), None))
        if text := message_for(cause):
            door.send(Message(text))
        door.send(Closed(cause.close_code, cause.close_reason))
        await self._flush(door)

    async def _flush(self, door: Downstream) -> None:
        """Return once the client has its last messages and the close, or has taken nothing for too long."""
        loop = asyncio.get_running_loop()
        while (since := door.stalled_since) is not None:
            left = since + self.limits.slow_consumer_timeout_seconds - loop.time()
            if left <= 0:
                logger.info(log_line("close_not_taken", client=door.request.client_host))
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await door.flushed()


class _Deaf:
    """The listener of a client that is being told goodbye."""

    def downstream_event(self, event: Event) -> None:
        """Whatever it says comes too late."""

    def downstream_paused(self) -> None:
        """Nothing more is sent."""

    def downstream_resumed(self) -> None:
        """Nothing more is sent."""


def _request_id(request: OpeningRequest) -> str:
    given = request.header(b"x-request-id")
    return given if given is not None and REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
