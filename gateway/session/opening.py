"""From a client's request to an open replica: place, connect, and on failure the next one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.admission import Admission
from gateway.logs import log_line
from gateway.replicas.model import websocket_url
from gateway.replicas.registry import Lease
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A replica took the session. Whoever gets this releases the lease and closes the upstream."""

    lease: Lease
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class NotOpened:
    """No replica did."""

    cause: Refused | AllFull | NoneHealthy


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens upstreams by the settings of `session:`."""

    admission: Admission
    evidence: Evidence
    proxies: Sequence[Network]
    connect_timeout_seconds: float
    connect_attempts: int
    max_message_bytes: int

    async def open(self, request: OpeningRequest, request_id: str) -> Opened | NotOpened:
        """An open upstream, or why there is none. Cancel-safe: no lease and no connection is left behind."""
        tried: set[str] = set()
        answered: Refused | None = None
        placed: Lease | AllFull | NoneHealthy = NoneHealthy()
        for _ in range(self.connect_attempts):
            placed = self.admission.place(tried)
            if not isinstance(placed, Lease):
                break
            tried.add(placed.url)
            match await self._connect(placed, request, request_id):
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
        return NotOpened(AllFull() if isinstance(placed, AllFull) else NoneHealthy())

    async def _connect(
        self, lease: Lease, request: OpeningRequest, request_id: str
    ) -> Upstream | Refused | Unreachable:
        outcome: Upstream | Refused | Unreachable | None = None
        try:
            outcome = await connect(
                websocket_url(lease.url, request.raw_path, request.query),
                upstream_headers(request, request_id=request_id, proxies=self.proxies),
                timeout_seconds=self.connect_timeout_seconds,
                max_message_bytes=self.max_message_bytes,
            )
        finally:
            if not isinstance(outcome, Upstream):
                lease.release()
        match outcome:
            case Unreachable(reason=reason):
                self._tell(lease, request_id, reason)
                self.evidence.report_failure(lease.url, reason)
            case Refused(status=status):
                self._tell(lease, request_id, f"answered the upgrade with {status}")
            case Upstream():
                pass
        return outcome

    @staticmethod
    def _tell(lease: Lease, request_id: str, reason: str) -> None:
        line = log_line("connect_failed", replica=lease.replica.name, request_id=request_id, reason=reason)
        logger.info(line)
