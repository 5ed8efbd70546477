"""Shedding: a gateway that has more sessions than the others of its fleet hands some back, a few at a time.

A session that is handed back is told so in band and closed; its client connects again, to whichever gateway,
and goes on from its last continuation state. So only those are handed back whose clients lose nothing by it
(`SessionCore.handover`), each between two segments, and none that began less than the settling time ago: no
client is disturbed more often than that.

1. Each answered beat gives a number (`fleet.surplus`), which replaces the one before.
2. They go one by one, at a pace; what is not done by the next answer is counted anew.
3. Nobody goes while the fleet is not settled, the view is old, beats fail, this gateway drains, or clients
   wait for a place at any gateway: those that are given up would be theirs.
4. Where those that went have come back here, the next ones go later and later (`BackOff`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from gateway.fleet.counts import waiting_in
from gateway.fleet.sighting import Sighting
from gateway.fleet.surplus import MOVABLE, BackOff, Moment, surplus
from gateway.logs import log_line
from gateway.session.roster import OpenSession

logger = logging.getLogger("streamhold.fleet")

RETURN_SECONDS = 2.0
"""Within this a client that was handed back has usually connected again."""


class Member(Protocol):
    """This gateway's membership, as far as shedding goes by it."""

    @property
    def id(self) -> str: ...

    @property
    def sighting(self) -> Sighting: ...

    @property
    def fresh(self) -> bool: ...

    def excess(
        self, tolerance: float, settle: timedelta, movable: str | None = None, smallest: int = 1
    ) -> int: ...

    def subscribe(self, listener: Callable[[Sighting], None]) -> Callable[[], None]: ...


class Sessions(Protocol):
    """The roster, as far as shedding goes by it."""

    @property
    def draining(self) -> bool: ...

    def sessions(self) -> Sequence[OpenSession]: ...


@dataclass(frozen=True, slots=True)
class SheddingPolicy:
    """When, and how fast."""

    tolerance: float
    """The share above the mean that is nobody's concern."""
    settle: timedelta
    """For so long the fleet must have been quiet, and a session must have been here."""
    per_second: float
    """Sessions that are handed back in a second."""
    beat: timedelta
    """From a beat to the next, at the longest: by then a report is replaced."""


class Shedder:
    """Hands sessions back while `run` runs."""

    def __init__(
        self, policy: SheddingPolicy, roster: Sessions, *, load: Callable[[], int], waiting: Callable[[], int]
    ) -> None:
        """`load` is what this gateway reports as its load; `waiting` counts its clients without a replica."""
        self._policy, self._roster = policy, roster
        self._load, self._waiting = load, waiting
        self._on_their_way_seconds = 2 * policy.beat.total_seconds() + RETURN_SECONDS
        self._to_show_seconds = max(policy.settle.total_seconds(), self._on_their_way_seconds)
        """So long after its begin a step is over, and what it has brought about can be seen."""
        self._back_off = BackOff()
        self._looked: Moment | None = None
        """What was known when `_left` was counted."""
        self._member: Member | None = None
        self._answered = asyncio.Event()
        self._left = 0
        """How many may still go by the newest view."""
        self._step = 0
        """How many have gone by it."""
        self._next_at = 0.0
        self._gone_at: deque[float] = deque()
        self.handed_back = 0
        """Sessions, since this gateway began."""

    def report(self) -> dict[str, int]:
        """What a gateway that hands over says beside its load."""
        return {MOVABLE: len(self._movable())}

    async def run(self, member: Member) -> None:
        """Hand back what is too much, by the views of `member`, for ever. Cancel-safe."""
        self._member, self._back_off = member, BackOff()
        unsubscribe = member.subscribe(self._heard)
        try:
            while True:
                await self._news()
                try:
                    self._look(member)
                except Exception:  # a defect here must not end the gateway
                    self._left = 0
                    logger.exception(log_line("shedding_failed", member=member.id))
        finally:
            unsubscribe()
            self._left = 0
            self._end_step(member)
            self._member = None

    def _look(self, member: Member) -> None:
        """Count anew where a beat was answered, and ask whoever can go."""
        if self._answered.is_set():
            self._answered.clear()
            self._end_step(member)
            self._left = self._surplus(member)
        self._offer()

    def _heard(self, sighting: Sighting) -> None:
        # By the view before nobody goes any more, even if this one is looked at a moment later.
        self._left = 0
        self._answered.set()

    async def _news(self) -> None:
        """Return at the next answered beat; earlier where it is somebody's turn to go."""
        until = max(self._next_at, self._now() + self._pause_seconds) if self._left else None
        try:
            async with asyncio.timeout_at(until):
                await self._answered.wait()
        except TimeoutError:
            return

    def _surplus(self, member: Member) -> int:
        """How many should go by the newest view, before the next one."""
        policy, now = self._policy, self._now()
        while self._gone_at and now - self._gone_at[0] > self._on_their_way_seconds:
            self._gone_at.popleft()
        looked = Moment(now, member.sighting.view, self._load(), len(self._gone_at))
        self._learn(looked, member)
        if self._back_off.waits(now, self._to_show_seconds):
            return 0
        excess = member.excess(policy.tolerance, policy.settle, MOVABLE)
        view = looked.view
        if not excess or any(waiting_in(one.report) for one in view.members):
            return 0
        above = surplus(
            view,
            member.id,
            policy.tolerance,
            load=looked.load,
            on_their_way=looked.on_their_way,
        )
        return min(excess, above)

    def _learn(self, looked: Moment, member: Member) -> None:
        """What the last step has brought about counts from now on; told where it begins to be nothing."""
        before, self._looked = self._back_off, looked
        self._back_off = before.next(looked, self._to_show_seconds)
        if self._back_off.in_vain and not before.in_vain:
            wait = self._back_off.wait_seconds(self._to_show_seconds)
            line = log_line("shedding_backs_off", member=member.id, sessions=looked.load, wait_seconds=wait)
            logger.info(line)

    def _offer(self) -> None:
        """Whoever can go is asked, the oldest first, for as long as somebody may."""
        for session in self._movable() if self._left else ():
            session.offer_handover(self._granted)

    def _movable(self) -> list[OpenSession]:
        began_by = self._now() - self._policy.settle.total_seconds()
        return [one for one in self._roster.sessions() if one.since <= began_by and one.handover != "never"]

    def _granted(self) -> bool:
        """Whether a session that could go now is to go. Yes counts as gone."""
        now, member = self._now(), self._member
        if member is None or not self._left or now < self._next_at:
            return False
        if not member.fresh or self._roster.draining or self._waiting():
            return False
        if self._looked is not None:
            self._back_off = self._back_off.stepped(self._looked)
        self._left -= 1
        self._step += 1
        self.handed_back += 1
        self._gone_at.append(now)
        self._next_at = now + self._pause_seconds
        return True

    def _end_step(self, member: Member) -> None:
        """One line for what the last view has brought about, if it was anything."""
        if not self._step:
            return
        count, self._step = self._step, 0
        line = log_line("sessions_handed_back", member=member.id, sessions=count, left=self._load())
        logger.info(line)

    @property
    def _pause_seconds(self) -> float:
        return 1 / self._policy.per_second

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
