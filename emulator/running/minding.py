"""The gateway during a play: what it says of its replicas, and whether its process still runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from emulator.running.gateways import ENDING, Gateway, StartedGateway
from emulator.running.seen import Played, StatusSeen
from emulator.running.statuses import statuses_in
from emulator.running.timeline import says
from emulator.scenario import Signal, StatusCheck, Step

STATUS_SECONDS = 0.1
"""Between two looks at the gateway's /status, while somebody waits for what it says."""
CUT_SECONDS = 0.5
"""How long the end of a process may be unknown after that of its connections."""


class Minder:
    """What is seen goes into `played.gateway` and into the checks' `StatusSeen`."""

    def __init__(self, played: Played, gateway: Gateway, clock: Callable[[], float]) -> None:
        """`clock` tells seconds since the play began."""
        self._played = played
        self._gateway = gateway
        self._clock = clock
        self._ended = asyncio.Event()

    @property
    def died(self) -> bool:
        """By itself: what its sessions see of that comes at once or never."""
        seen = self._played.gateway
        return seen.ended_at is not None and seen.signalled_at is None

    @property
    def may_still_end(self) -> bool:
        """It was told to, as the scenario expects, and its time is not up."""
        seen, expected = self._played.gateway, self._played.scenario.expect.gateway
        if seen.signalled_at is None or seen.ended_at is not None or expected.exit == "none":
            return False
        return self._clock() < seen.signalled_at + expected.within

    def note_signals(self, step: Step) -> None:
        """The step is about to be done; it may tell the gateway to end."""
        seen = self._played.gateway
        for action in step.actions:
            if isinstance(action, Signal) and seen.signalled_at is None:
                seen.signalled_at = self._clock() if signal.Signals[action.signal] in ENDING else None

    async def mind(self) -> None:
        """Its process has ended, and that is told; at once where there is none that we know of."""
        if not isinstance(self._gateway, StartedGateway):
            return
        await self._gateway.until_ended()
        seen = self._played.gateway
        seen.ended_at, seen.returncode = self._clock(), self._gateway.returncode
        self._played.tell(seen.ended_at, "gateway", f"ended with status {seen.returncode}")
        self._ended.set()

    async def settle(self) -> None:
        """A process that has ended is known to have."""
        if self._played.gateway.started:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CUT_SECONDS):
                    await self._ended.wait()

    async def ask(self, wanted: Callable[[], bool], hear: Callable[[dict[str, str]], None]) -> None:
        """What it says of its replicas is heard while it is wanted; until cancelled."""
        while True:
            if wanted() and (said := await self._status()) is not None:
                hear(said)
            await asyncio.sleep(STATUS_SECONDS)

    async def check(self, check: StatusCheck, seen: StatusSeen) -> None:
        """It has said what the check wants, or the check's time is up."""
        if check.at is not None:
            await asyncio.sleep(max(0.0, check.at - self._clock()))
        deadline = self._clock() + check.within
        while True:
            seen.last = await self._status() or seen.last
            seen.held = seen.last is not None and says(seen.last, check.replicas)
            if seen.held or self._clock() >= deadline or self.died:
                return
            await asyncio.sleep(STATUS_SECONDS)

    async def _status(self) -> dict[str, str] | None:
        answer = await self._gateway.get("/status")
        return None if answer is None else statuses_in(answer.content, self._played.urls)
