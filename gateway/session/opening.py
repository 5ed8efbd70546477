"""From a client's request to an open replica: place, connect, and on failure the next one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.admission import Admission, OnPosition, QueueFull, QueueTimeout, Turn
from gateway.logs import log_line
from gateway.replicas.registry import Lease
from gateway.replicas.urls import websocket_url
from gateway.selection import AllFull, NoneHealthy
from gateway.session.downstream import OpeningRequest
from gateway.session.forwarding import Network, upstream_headers
from gateway.session.upstream import Refused, Unreachable, Upstream, connect

logger = logging.getLogger("streamhold.session")

FINAL_STATUSES = (401, 403)
"""Answers that concern the client, whichever replica gives them: told at once, never retried elsewhere."""


class Evidence(Protocol):
    """Where the failures that sessions see go: each counts like a failed probe and causes one at once."""

    def report_failure(self, url: str, reason: str) -> None:
        """The replica at `url` gave no HTTP answer."""


@dataclass(slots=True)
class Wanted:
    """What one session asks of a replica, the same for its first one and for those after it."""

    request: OpeningRequest
    request_id: str
    client: str
    """The client's own address, for the log."""
    key: str | None = None
    """What keeps the client on one replica; None leaves the choice to the policy."""
    subprotocols: Sequence[str] | None = None
    """What is offered to the replica instead of the client's own list, once the client has been answered."""
    turn: Turn | None = None
    """The session's place in the order of arrival, once it has waited or served."""
    tried: set[str] = field(default_factory=set)
    """URLs that are left out: they failed this session since it last had a replica."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A replica took the session. Whoever gets this releases the lease and closes the upstream."""

    lease: Lease
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class NotOpened:
    """No replica did."""

    cause: Refused | AllFull | QueueFull | QueueTimeout | NoneHealthy


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens upstreams by the settings of `session:`."""

    admission: Admission
    evidence: Evidence
    proxies: Sequence[Network]
    connect_timeout_seconds: float
    connect_attempts: int
    max_message_bytes: int

    async def open(self, wanted: Wanted, *, on_position: OnPosition | None = None) -> Opened | NotOpened:
        """An open upstream, or why there is none.

        Where every healthy replica is full, this waits in the queue if the client can be told so
        (`on_position`). Cancel-safe: no lease, no place in the queue and no connection is left behind.
        """
        answered: Refused | None = None
        placed: Lease | AllFull | QueueFull | QueueTimeout | NoneHealthy = NoneHealthy()
        for _ in range(self.connect_attempts):
            placed = self.admission.place(wanted.tried, key=wanted.key)
            if isinstance(placed, AllFull) and on_position is not None:
                placed = await self.admission.wait(
                    wanted.tried, key=wanted.key, on_position=on_position, turn=wanted.turn
                )
            if not isinstance(placed, Lease):
                break
            wanted.tried.add(placed.url)
            match await self._connect(placed, wanted):
                case Upstream() as upstream:
                    placed.opened()
                    return Opened(placed, upstream)
                case Refused() as refused:
                    answered = refused
                    if refused.status in FINAL_STATUSES:
                        break
                case Unreachable():
                    continue
        if answered is not None:
            return NotOpened(answered)
        return NotOpened(NoneHealthy() if isinstance(placed, Lease) else placed)

    async def _connect(self, lease: Lease, wanted: Wanted) -> Upstream | Refused | Unreachable:
        outcome: Upstream | Refused | Unreachable | None = None
        request = wanted.request
        try:
            outcome = await connect(
                websocket_url(lease.url, request.raw_path, request.query),
                upstream_headers(
                    request,
                    request_id=wanted.request_id,
                    proxies=self.proxies,
                    subprotocols=wanted.subprotocols,
                ),
                timeout_seconds=self.connect_timeout_seconds,
                max_message_bytes=self.max_message_bytes,
            )
        finally:
            if not isinstance(outcome, Upstream):
                lease.release()
        match outcome:
            case Unreachable(reason=reason):
                self._tell(lease, wanted.request_id, reason)
                self.evidence.report_failure(lease.url, reason)
            case Refused(status=status):
                self._tell(lease, wanted.request_id, f"answered the upgrade with {status}")
            case Upstream():
                pass
        return outcome

    @staticmethod
    def _tell(lease: Lease, request_id: str, reason: str) -> None:
        line = log_line("connect_failed", replica=lease.replica.name, request_id=request_id, reason=reason)
        logger.warning(line)
