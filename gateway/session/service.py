"""Who may have a session, and what a client is told that gets none; the rest is the session's own life."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gateway.admission import Admission, QueueFull, QueueTimeout
from gateway.errors import GatewayDraining, InternalError, NoHealthyReplica, ReplicasFull, SessionEnded
from gateway.logs import log_line
from gateway.quotas import ClientFull, GatewayFull
from gateway.selection import AllFull, NoneHealthy
from gateway.session.checks import refusal
from gateway.session.core import message_for
from gateway.session.downstream import Downstream, Headers, OpeningRequest
from gateway.session.events import Closed, Event, Message
from gateway.session.forwarding import Network, client_address
from gateway.session.opening import Asleep, NotOpened, Wanted
from gateway.session.roster import Roster
from gateway.session.session import Parts, Session
from gateway.session.upstream import Refused

logger = logging.getLogger("streamhold.session")

REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
"""What is kept of a client's own X-Request-Id; anything else is replaced."""

_CLIENT_ERRORS = range(400, 600)


@dataclass(frozen=True, slots=True)
class SessionService:
    """Serves clients, each through a door of its own. One instance a gateway."""

    roster: Roster
    parts: Parts
    fresh: Callable[[], Awaitable[None]]
    """Waits while the health of the replicas is not to be believed."""
    admission: Admission
    key_of: Callable[[OpeningRequest, str], str | None]
    """The affinity key of a request and the client's address; None where there is none to be seen in them."""
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
        address = client_address(door.request, self.proxies)
        place = self.admission.client(address)
        if isinstance(place, ClientFull):
            await self._refuse(door, request_id, 429, "this client has as many sessions as it may have")
            return
        if isinstance(place, GatewayFull):
            await self._tell_in_band(door, request_id, ReplicasFull())
            await self._flush(door)
            return
        with place, self.roster.entry() as entry:
            await self.fresh()
            wanted = Wanted(door.request, request_id, address, key=self.key_of(door.request, address))
            try:
                outcome = await Session(door, self.parts, wanted, entry).run()
            except GatewayDraining:
                await self._refuse(door, request_id, GatewayDraining.http_status, GatewayDraining.message)
                return
            if outcome is not None:
                await self._decline(door, outcome, request_id)
            await self._flush(door)

    async def _decline(self, door: Downstream, outcome: NotOpened, request_id: str) -> None:
        match outcome.cause:
            case Refused(status=status, headers=headers):
                shown = status if status in _CLIENT_ERRORS else 502
                await self._refuse(door, request_id, shown, "the replica refused this session", headers)
            case AllFull() | QueueFull() | QueueTimeout():
                await self._tell_in_band(door, request_id, ReplicasFull())
            case NoneHealthy() | Asleep():
                await self._tell_in_band(door, request_id, NoHealthyReplica())

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

    async def _flush(self, door: Downstream) -> None:
        """Return once the client has its last messages and the close, or has taken nothing for too long."""
        loop = asyncio.get_running_loop()
        while (since := door.stalled_since) is not None:
            left = since + self.parts.limits.slow_consumer_timeout_seconds - loop.time()
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
    return given if given is not None and REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
