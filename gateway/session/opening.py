"""From a client's request to an open replica: place, connect, and on failure the next one.

A replica that sleeps takes longer than any other: it is given its own time, in which connects that fail at
once, or answers that say that nothing is there yet, are tried again. Whoever waits for that should know it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from gateway.admission import Admission, OnPosition, QueueFull, QueueTimeout, Turn
from gateway.logs import log_line
from gateway.replicas.lease import Lease
from gateway.replicas.urls import websocket_url
from gateway.selection import AllFull, NoneHealthy
from gateway.session.downstream import OpeningRequest
from gateway.session.forwarding import Network, upstream_headers
from gateway.session.upstream import Refused, Unreachable, Upstream, connect

logger = logging.getLogger("streamhold.session")

FINAL_STATUSES = (401, 403)
"""Answers that concern the client, whichever replica gives them: told at once, never retried elsewhere."""
STARTING_STATUSES = (502, 503, 504)
"""What stands before a replica that is not there yet answers so."""
WAKE_PAUSE_SECONDS = 1.0
"""Between two tries to reach one that wakes."""
TOLD_AGAIN_SECONDS = 20.0
"""Between two words to a client that waits for that. What stands before a gateway ends connections on which
nothing is said for long; a minute is usual.
"""


class Evidence(Protocol):
    """Where what sessions see of replicas goes: each failure counts like a failed probe and causes one."""

    def report_failure(self, url: str, reason: str) -> None:
        """The replica at `url` gave no HTTP answer, or could not be woken."""

    def report_awake(self, url: str, *, latency_ms: float) -> None:
        """The replica at `url`, which slept, has answered after so long."""


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
class Asleep:
    """Only replicas that sleep have room, and nobody was to be woken yet."""


Placed = Lease | AllFull | QueueFull | QueueTimeout | NoneHealthy | Asleep
"""What comes of looking for a place."""


@dataclass(frozen=True, slots=True)
class NotOpened:
    """No replica did."""

    cause: Refused | AllFull | QueueFull | QueueTimeout | NoneHealthy | Asleep


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens upstreams by the settings of `session:`."""

    admission: Admission
    evidence: Evidence
    proxies: Sequence[Network]
    connect_timeout_seconds: float
    connect_attempts: int
    max_message_bytes: int
    wake_timeout_seconds: float = 120.0
    """For a replica that sleeps, until it has answered the upgrade."""

    async def open(
        self, wanted: Wanted, *, on_position: OnPosition | None = None, wake: bool = True
    ) -> Opened | NotOpened:
        """An open upstream, or why there is none.

        Where every healthy replica is full, this waits in the queue if the client can be told so
        (`on_position`). Where only one that sleeps has room it is woken, unless `wake` is false; the client
        is told that it is next, now and then again. Cancel-safe: no lease, no place in the queue and no
        connection is left behind.
        """
        answered: Refused | None = None
        placed: Placed = NoneHealthy()
        for _ in range(self.connect_attempts):
            placed = await self._place(wanted, on_position, wake=wake)
            if isinstance(placed, Asleep):
                return NotOpened(placed)
            if not isinstance(placed, Lease):
                break
            wanted.tried.add(placed.url)
            match await self._connect(placed, wanted, on_position):
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

    async def _place(self, wanted: Wanted, on_position: OnPosition | None, *, wake: bool) -> Placed:
        placed: Placed = self.admission.place(wanted.tried, key=wanted.key)
        if isinstance(placed, AllFull) and on_position is not None:
            placed = await self.admission.wait(
                wanted.tried, key=wanted.key, on_position=on_position, turn=wanted.turn
            )
        if isinstance(placed, Lease) and placed.replica.sleeping and not wake:
            placed.release()
            return Asleep()
        return placed

    async def _connect(
        self, lease: Lease, wanted: Wanted, on_position: OnPosition | None
    ) -> Upstream | Refused | Unreachable:
        outcome: Upstream | Refused | Unreachable | None = None
        slept = lease.replica.sleeping
        try:
            if slept:
                with _told_again(on_position):
                    outcome = await self._wake(lease, wanted)
            else:
                outcome = await self._try(lease, wanted, self.connect_timeout_seconds)
        finally:
            if not isinstance(outcome, Upstream):
                lease.release()
        match outcome:
            case Unreachable(reason=reason):
                self._tell(lease, wanted.request_id, reason)
                self.evidence.report_failure(lease.url, reason)
            case Refused(status=status):
                reason = f"answered the upgrade with {status}"
                self._tell(lease, wanted.request_id, reason)
                if slept and status in STARTING_STATUSES:
                    self.evidence.report_failure(lease.url, reason)
            case Upstream():
                pass
        return outcome

    async def _wake(self, lease: Lease, wanted: Wanted) -> Upstream | Refused | Unreachable:
        """The outcome of the last try, once it says more than that nothing is there yet, or time is up."""
        logger.info(log_line("replica_wanted", replica=lease.replica.name, request_id=wanted.request_id))
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + self.wake_timeout_seconds
        while True:
            outcome = await self._try(lease, wanted, until - loop.time())
            is_there = isinstance(outcome, Upstream) or (
                isinstance(outcome, Refused) and outcome.status not in STARTING_STATUSES
            )
            if is_there:
                self.evidence.report_awake(lease.url, latency_ms=(loop.time() - began) * 1000)
            if is_there or until - loop.time() <= WAKE_PAUSE_SECONDS:
                return outcome
            await asyncio.sleep(WAKE_PAUSE_SECONDS)

    async def _try(
        self, lease: Lease, wanted: Wanted, timeout_seconds: float
    ) -> Upstream | Refused | Unreachable:
        request = wanted.request
        return await connect(
            websocket_url(lease.url, request.raw_path, request.query),
            upstream_headers(
                request,
                request_id=wanted.request_id,
                proxies=self.proxies,
                subprotocols=wanted.subprotocols,
            ),
            timeout_seconds=timeout_seconds,
            max_message_bytes=self.max_message_bytes,
        )

    @staticmethod
    def _tell(lease: Lease, request_id: str, reason: str) -> None:
        line = log_line("connect_failed", replica=lease.replica.name, request_id=request_id, reason=reason)
        logger.warning(line)


@contextmanager
def _told_again(on_position: OnPosition | None) -> Iterator[None]:
    """Inside, a client that can be told hears at once that it is next, and then every so often."""
    if on_position is None:
        yield
        return
    loop = asyncio.get_running_loop()
    again: asyncio.TimerHandle

    def tell_again(told: OnPosition) -> None:
        nonlocal again
        told(0, 1)
        again = loop.call_later(TOLD_AGAIN_SECONDS, tell_again, told)

    on_position(0, 1)
    again = loop.call_later(TOLD_AGAIN_SECONDS, tell_again, on_position)
    try:
        yield
    finally:
        again.cancel()
