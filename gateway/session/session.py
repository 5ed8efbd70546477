"""One session's life after the checks: a replica, the accept, the pump, the next replica, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.admission import QueueFull, QueueTimeout
from gateway.errors import (
    GatewayDraining,
    InternalError,
    NoHealthyReplica,
    QueueTimedOut,
    ReplicasFull,
    SessionEnded,
    UpgradeRefused,
)
from gateway.logs import log_line
from gateway.replicas.model import Replica
from gateway.selection import AllFull, NoneHealthy
from gateway.session.bridge import Bridge
from gateway.session.core import End, Move, SessionCore, Side
from gateway.session.downstream import Downstream
from gateway.session.events import Closed
from gateway.session.losses import is_loss
from gateway.session.opening import FINAL_STATUSES, Asleep, NotOpened, Opened, Opener, Wanted
from gateway.session.roster import Entry
from gateway.session.upstream import Refused
from gateway.session.watch import Limits

logger = logging.getLogger("streamhold.session")

FULL_FOR_SECONDS = 1.0
"""How long a replica that refused a session in band counts as full."""

MOVED = Closed(1001, "session_moved")
"""What a replica is told whose session goes on elsewhere, should it still hear."""


class Records(Protocol):
    """What is remembered of the replicas from what sessions saw of them."""

    def mark_full(self, url: str, seconds: float) -> None:
        """The replica refused a session in band: it is full for a moment."""

    def blame(self, url: str) -> None:
        """The replica lost a session."""

    def praise(self, url: str) -> None:
        """The replica carried a session to its end."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What every session of a gateway is made of."""

    opener: Opener
    records: Records
    new_core: Callable[[], SessionCore]
    key_of_init: Callable[[str | bytes], str | None] | None
    """The affinity key that an init message holds; None where affinity does not look into it."""
    limits: Limits
    init_timeout_seconds: float
    """How long a client may take to say its init message before it is placed without a key."""
    can_queue: bool


class Session:
    """Carries one client from its admission to its end."""

    def __init__(self, door: Downstream, parts: Parts, wanted: Wanted, entry: Entry) -> None:
        self._door = door
        self._parts = parts
        self._wanted = wanted
        self._entry = entry
        self._core = parts.new_core()
        self._bridge = Bridge(door, self._core, parts.limits, parts.records.blame)
        self._replica: Replica | None = None
        """The one that serves the session, or did so last."""
        self._began = asyncio.get_running_loop().time()

    async def run(self) -> NotOpened | None:
        """Serve the client to the session's end. NotOpened when no replica took it and it is not answered
        yet.

        It is answered before a replica is known when it has to wait, or when affinity needs its first
        message. Cancel-safe: no lease, no place in the queue and no connection is left behind.
        """
        self._wanted.turn = self._parts.opener.admission.turn()
        if self._parts.key_of_init is not None:
            await self._accept_early()
            await self._live(None)
            return None
        outcome = await self._open()
        if isinstance(outcome, Opened):
            await self._accept_and_live(outcome)
        elif isinstance(outcome.cause, AllFull | Asleep) and self._parts.can_queue:
            await self._accept_early()
            await self._live(None)
        else:
            return outcome
        return None

    async def _open(self) -> Opened | NotOpened:
        """The first replica. Raises GatewayDraining when the drain's deadline comes before there is one."""
        try:
            async with asyncio.timeout(None) as self._entry.opening:
                # Whoever can be told that it waits is told so before anybody is woken.
                return await self._parts.opener.open(self._wanted, wake=not self._parts.can_queue)
        except TimeoutError:
            raise GatewayDraining from None
        finally:
            self._entry.opening = None

    async def _accept_early(self) -> None:
        offered = self._wanted.request.subprotocols[:1]
        self._wanted.subprotocols = offered
        await self._door.accept(self._bridge, next(iter(offered), None))

    async def _accept_and_live(self, opened: Opened) -> None:
        try:
            chosen = opened.upstream.subprotocol
            self._wanted.subprotocols = [chosen] if chosen is not None else []
            await self._door.accept(self._bridge, chosen)
        except BaseException:
            give_back(opened)
            raise
        await self._live(opened)

    async def _live(self, opened: Opened | None) -> None:
        end = End(Side.GATEWAY, InternalError.close_code, InternalError.close_reason)
        try:
            self._bridge.start()
            self._entry.opened(self._bridge, has_replica=opened is not None)
            while not self._bridge.ended.done():
                if opened is None:
                    opened = await self._find()
                if opened is None:
                    break
                serving, opened = opened, None
                outcome = await self._serve_by(serving)
                if isinstance(outcome, Move):
                    self._note_move(outcome)
            end = self._bridge.ended.result()
        except asyncio.CancelledError:
            end = End(Side.GATEWAY, None, "cancelled")
            raise
        finally:
            self._bridge.stop()
            if opened is not None:
                give_back(opened)
            self._log_end(end)

    async def _serve_by(self, opened: Opened) -> End | Move:
        """The replica of `opened` serves until the session ends or moves; then it is free again."""
        lease, upstream = opened.lease, opened.upstream
        try:
            self._log_attached(opened)
            self._replica = lease.replica
            self._entry.replica = lease.url
            self._wanted.tried.clear()
            self._bridge.attach(upstream, lease.url, lease.replica.name)
            outcome = await self._bridge.outcome()
            if isinstance(outcome, End):
                if _is_good(outcome):
                    self._parts.records.praise(lease.url)
                await upstream.closed()
            else:
                upstream.send(MOVED)
                if outcome.cause == "refused":
                    # Before its place is free, or the next in line would be sent there.
                    self._parts.records.mark_full(lease.url, FULL_FOR_SECONDS)
            return outcome
        finally:
            self._entry.replica = None
            give_back(opened)

    def _note_move(self, move: Move) -> None:
        assert self._replica is not None
        assert self._wanted.turn is not None
        if move.cause == "refused":
            # Replicas that are slow to refuse are free again before all are marked full, so it never waits.
            self._parts.opener.admission.starts(self._wanted.turn)
        else:
            self._wanted.turn = self._parts.opener.admission.turn(self._wanted.turn)
            self._wanted.tried.add(self._replica.url)
        line = log_line(
            "session_leaves",
            request_id=self._wanted.request_id,
            away_from=self._replica.name,
            cause=move.cause,
        )
        logger.info(line)

    async def _find(self) -> Opened | None:
        """The next replica, or None once the session has ended; the client may leave at any moment."""
        found: list[Opened] = []
        kept = False
        try:
            async with asyncio.TaskGroup() as tasks:
                seeking = tasks.create_task(self._seek(found))
                await asyncio.wait((seeking, self._bridge.ended), return_when=asyncio.FIRST_COMPLETED)
                seeking.cancel()
            kept = not self._bridge.ended.done()
        finally:
            if not kept:
                # The session may end, or be cancelled, in the very step in which one was found.
                for opened in found:
                    give_back(opened)
        return found[0] if found and kept else None

    async def _seek(self, found: list[Opened]) -> None:
        """Put the next replica into `found`, or end the session for want of one."""
        if self._wanted.key is None and self._parts.key_of_init is not None:
            self._wanted.key = await self._key_of_init(self._parts.key_of_init)
        outcome = await self._try_all()
        if isinstance(outcome, Opened):
            found.append(outcome)
        else:
            self._bridge.unavailable(self._ending(outcome))

    async def _try_all(self) -> Opened | NotOpened:
        turn = self._wanted.turn
        if self._replica is not None and turn is not None and self._parts.opener.admission.is_over(turn):
            # Replicas that take the connection and refuse the session could pass it around for ever.
            return NotOpened(QueueTimeout())
        if self._wanted.tried:
            outcome = await self._parts.opener.open(self._wanted, wake=False)
            if isinstance(outcome, Opened) or _is_final(outcome):
                return outcome
            # What failed this session may be well by now, and is better than waiting or nothing.
            self._wanted.tried.clear()
        on_position = self._bridge.queued if self._parts.can_queue else None
        return await self._parts.opener.open(self._wanted, on_position=on_position)

    async def _key_of_init(self, key_of_init: Callable[[str | bytes], str | None]) -> str | None:
        try:
            async with asyncio.timeout(self._parts.init_timeout_seconds):
                return key_of_init((await self._bridge.first_message()).data)
        except TimeoutError:
            return None

    def _ending(self, outcome: NotOpened) -> SessionEnded:
        """What a client is told that was answered early and could not be placed."""
        match outcome.cause:
            case QueueFull() | AllFull():
                return ReplicasFull()
            case QueueTimeout():
                return QueueTimedOut()
            case Refused(status=status) if status in FINAL_STATUSES:
                return UpgradeRefused(status)
            case Refused() | NoneHealthy() | Asleep():
                return NoHealthyReplica()

    def _log_attached(self, opened: Opened) -> None:
        request = self._wanted.request
        logger.info(
            log_line(
                "session_opened" if self._replica is None else "session_moved",
                replica=opened.lease.replica.name,
                request_id=self._wanted.request_id,
                client=self._wanted.client,
                path=request.raw_path,
                subprotocol=opened.upstream.subprotocol,
            )
        )

    def _log_end(self, end: End) -> None:
        bridge = self._bridge
        logger.info(
            log_line(
                "session_ended",
                replica=self._replica.name if self._replica is not None else None,
                request_id=self._wanted.request_id,
                duration_seconds=asyncio.get_running_loop().time() - self._began,
                bytes_from_client=bridge.from_client.size_bytes,
                bytes_from_replica=bridge.from_replica.size_bytes,
                messages_from_client=bridge.from_client.messages,
                messages_from_replica=bridge.from_replica.messages,
                resumes=self._core.resumes,
                not_resumable=self._core.why_not_resumable,
                closed_by=end.by.value,
                code=end.code,
                reason=end.reason,
            )
        )


def _is_good(end: End) -> bool:
    """Whether the replica that served to this end did what it should."""
    return end.by is Side.CLIENT or (end.by is Side.REPLICA and not is_loss(Closed(end.code)))


def _is_final(outcome: NotOpened) -> bool:
    """Whether the client would be told the same by every replica."""
    return isinstance(outcome.cause, Refused) and outcome.cause.status in FINAL_STATUSES


def give_back(opened: Opened) -> None:
    """The replica is free of this session. Safe to call again."""
    opened.upstream.abort()
    opened.lease.release()
