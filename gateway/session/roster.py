"""The sessions of this gateway, and its drain: the only owner of whether the gateway takes new ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from gateway.errors import GatewayRestarting, SessionEnded
from gateway.logs import log_line
from gateway.session.core import Handover, UnhealthyPolicy

logger = logging.getLogger("streamhold.drain")

FAREWELL_SECONDS = 5.0
"""How long the closes of a drain's deadline may take to reach their clients."""


class OpenSession(Protocol):
    """A session that can be told to end."""

    @property
    def waiting(self) -> bool:
        """The client has been answered, and waits for a replica."""

    @property
    def resumes(self) -> int:
        """How often it has gone on at another replica."""

    @property
    def handover(self) -> Handover:
        """Whether its client would lose nothing by connecting again."""

    @property
    def since(self) -> float:
        """When it began, by the loop's clock."""

    def offer_handover(self, granted: Callable[[], bool]) -> None:
        """Ask `granted` now, and from now on whenever the client would lose nothing by connecting again; once
        it says yes, the session ends for that.
        """

    def fail(self, cause: SessionEnded) -> None:
        """End for `cause`; a no-op once it has ended."""

    def unhealthy(self, policy: UnhealthyPolicy) -> None:
        """Act by `policy` on the replica that serves the session having turned unhealthy."""


class Entry:
    """One session's line in the roster, from its admission to its end."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.session: OpenSession | None = None
        self.opening: asyncio.Timeout | None = None
        """What limits the search for the first replica, while the client has not been answered."""
        self.replica: str | None = None
        """URL of the replica that serves the session at the moment."""

    def opened(self, session: OpenSession, *, has_replica: bool) -> None:
        """The client has been answered. Its session is ended at once where the drain's deadline has passed
        meanwhile, or where a drain has begun and it still waits for a replica.
        """
        self.session = session
        if self._roster.deadline_passed or (self._roster.draining and not has_replica):
            session.fail(GatewayRestarting())


class Roster:
    """Which sessions there are, and whether new ones are admitted."""

    def __init__(self) -> None:
        self.draining = False
        """No new session is admitted; set once, never taken back."""
        self.deadline_passed = False
        """Sessions that are still there are being ended."""
        self._entries: dict[Entry, None] = {}
        """In the order in which they came."""
        self._empty = asyncio.Event()
        self._empty.set()
        self._hurried = asyncio.Event()
        self._resumes_before = 0
        """Of the sessions that have ended."""

    @property
    def resumes(self) -> int:
        """How often sessions have gone on at another replica, since this gateway began."""
        open_ones = (entry.session.resumes for entry in self._entries if entry.session is not None)
        return self._resumes_before + sum(open_ones)

    def sessions(self) -> Sequence[OpenSession]:
        """Those whose clients have been answered, the oldest first; a few of them may have ended."""
        return [entry.session for entry in self._entries if entry.session is not None]

    def __len__(self) -> int:
        """Sessions that are open, being opened, or on their way out."""
        return len(self._entries)

    @contextmanager
    def entry(self) -> Iterator[Entry]:
        """List a session, so that a drain waits for it whatever it is doing."""
        entry = Entry(self)
        self._entries[entry] = None
        self._empty.clear()
        try:
            yield entry
        finally:
            del self._entries[entry]
            if entry.session is not None:
                self._resumes_before += entry.session.resumes
            if not self._entries:
                self._empty.set()

    async def drain(self, *, timeout_seconds: float, spread_seconds: float) -> None:
        """Return once no session is left: they may go on for a time, then they are ended one by one.

        Those that still wait for a replica are ended at once: another gateway can serve them now.
        """
        self.draining = True
        logger.info(log_line("drain_started", sessions=len(self), timeout_seconds=timeout_seconds))
        for session in self.sessions():
            if session.waiting:
                session.fail(GatewayRestarting())
        if not await self._emptied(timeout_seconds):
            self.deadline_passed = True
            await self._end_all(spread_seconds)
            await _within(FAREWELL_SECONDS, self._empty)
        logger.info(log_line("drain_ended", sessions=len(self)))

    def unhealthy(self, url: str, policy: UnhealthyPolicy) -> None:
        """Tell the sessions on the replica at `url` that it turned unhealthy."""
        for entry in tuple(self._entries):
            if entry.replica == url and entry.session is not None:
                entry.session.unhealthy(policy)

    def hurry(self) -> None:
        """The drain's deadline is now, and its ends are not spread."""
        self._hurried.set()

    async def _end_all(self, spread_seconds: float) -> None:
        left = self.sessions()
        logger.warning(log_line("drain_deadline", sessions=len(self), spread_seconds=spread_seconds))
        for opening in [entry.opening for entry in self._entries if entry.opening is not None]:
            opening.reschedule(asyncio.get_running_loop().time())
        for session in left:
            session.fail(GatewayRestarting())
            await _within(spread_seconds / len(left), self._hurried)

    async def _emptied(self, timeout_seconds: float) -> bool:
        """Whether the last session ended before the deadline, which `hurry` brings forward."""
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(event.wait()) for event in (self._empty, self._hurried)]
            await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return self._empty.is_set()


async def _within(timeout_seconds: float, event: asyncio.Event) -> None:
    """Return when `event` is set, or the time is over."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await event.wait()
    except TimeoutError:
        return
