"""The sessions of this gateway, and its drain: the only owner of whether the gateway takes new ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gateway.errors import GatewayRestarting, SessionEnded
from gateway.logs import log_line

logger = logging.getLogger("streamhold.drain")

FAREWELL_SECONDS = 5.0
"""How long the closes of a drain's deadline may take to reach their clients."""


class OpenSession(Protocol):
    """A session that can be told to end."""

    def fail(self, cause: SessionEnded) -> None:
        """End for `cause`; a no-op once it has ended."""


class Entry:
    """One session's line in the roster, from its admission to its end."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.session: OpenSession | None = None

    def opened(self, session: OpenSession) -> None:
        """The session is open; it is ended at once where the drain's deadline has passed meanwhile."""
        self.session = session
        if self._roster.deadline_passed:
            session.fail(GatewayRestarting())


class Roster:
    """Which sessions there are, and whether new ones are admitted."""

    def __init__(self) -> None:
        self.draining = False
        """No new session is admitted; set once, never taken back."""
        self.deadline_passed = False
        """Sessions that are still there are being ended."""
        self._entries: set[Entry] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        """Sessions that are open, being opened, or on their way out."""
        return len(self._entries)

    @contextmanager
    def entry(self) -> Iterator[Entry]:
        """List a session, so that a drain waits for it whatever it is doing."""
        entry = Entry(self)
        self._entries.add(entry)
        self._empty.clear()
        try:
            yield entry
        finally:
            self._entries.discard(entry)
            if not self._entries:
                self._empty.set()

    async def drain(self, *, timeout_seconds: float, spread_seconds: float) -> None:
        """Return once no session is left: they may go on for a time, then they are ended one by one."""
        self.draining = True
        logger.info(log_line("drain_started", sessions=len(self), timeout_seconds=timeout_seconds))
        if not await self._emptied(timeout_seconds):
            self.deadline_passed = True
            await self._end_all(spread_seconds)
            await self._emptied(FAREWELL_SECONDS)
        logger.info(log_line("drain_ended", sessions=len(self)))

    async def _end_all(self, spread_seconds: float) -> None:
        left = [entry.session for entry in self._entries if entry.session is not None]
        logger.warning(log_line("drain_deadline", sessions=len(self), spread_seconds=spread_seconds))
        for session in left:
            session.fail(GatewayRestarting())
            await asyncio.sleep(spread_seconds / len(left))

    async def _emptied(self, timeout_seconds: float) -> bool:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True
