"""A farm that runs beside the tests, and how they get at it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from emulator.client import AsyncEmulator, Emulator
from emulator.control.answers import EventPage, OpenSession, ReplicaStatus
from emulator.events import DEFAULT_LIMIT, Event
from emulator.farm import Farm
from emulator.faults import Fault
from emulator.testing.thread import FarmThread
from emulator.testing.timeline import timeline
from emulator.testing.wanted import Wanted

READ_TRIES = 100
"""Of a log that another thread writes."""


class RunningFarm(Emulator):
    """All methods of the client; they block, shortly, in async tests as well. What waits for an event has to
    be awaited there: `await farm.aio.wait_for(...)`."""

    def __init__(self, farm: Farm, url: str, wanted: Wanted, began_at: float) -> None:
        """`began_at`, in seconds since the epoch, is when its timeline begins."""
        super().__init__(url, since=0)
        self.wanted = wanted
        self.aio = AsyncEmulator(url, since=0, keep_alive=False)
        """The same methods, to be awaited; of use in any loop, and needs no closing."""
        self._farm = farm
        self._began_at = began_at

    @property
    def seed(self) -> int:
        """Of everything random on its replicas."""
        return self.wanted.seed

    def events(
        self,
        after: int = 0,
        *,
        replica: str | None = None,
        kinds: Sequence[str] = (),
        session: int | None = None,
        limit: int = DEFAULT_LIMIT,
        wait_seconds: float = 0.0,
    ) -> EventPage:
        """As the client's. Raises RuntimeError where waiting would stop a running event loop."""
        if wait_seconds:
            _check_no_loop("events")
        return super().events(
            after, replica=replica, kinds=kinds, session=session, limit=limit, wait_seconds=wait_seconds
        )

    def wait_for(
        self,
        kind: str,
        *,
        replica: str | None = None,
        session: int | None = None,
        n: int = 1,
        after_seq: int | None = None,
        deadline_seconds: float = 20.0,
        **detail: Any,
    ) -> Event:
        """As the client's. Raises RuntimeError where waiting would stop a running event loop."""
        _check_no_loop("wait_for")
        return super().wait_for(
            kind,
            replica=replica,
            session=session,
            n=n,
            after_seq=after_seq,
            deadline_seconds=deadline_seconds,
            **detail,
        )

    def timeline(self) -> list[str]:
        """What happened when on each replica, in lines; after its end too."""
        return timeline(self._events_so_far(), since=self._began_at)

    def _events_so_far(self) -> Sequence[Event]:
        # Read where it is, not asked for: it must be told of a farm that hangs as well.
        for _ in range(READ_TRIES):
            try:
                return self._farm.log.page(limit=10_000_000).events
            except RuntimeError:
                # The farm's own thread wrote meanwhile.
                continue
        return ()


class OneReplica:
    """The only replica of a farm."""

    def __init__(self, farm: RunningFarm, name: str) -> None:
        self.farm = farm
        self.name = name

    @property
    def url(self) -> str:
        """What goes into a gateway's settings."""
        return self.status().url

    @property
    def ws_url(self) -> str:
        """Where a session is opened."""
        return self.status().ws_url

    def status(self) -> ReplicaStatus:
        """As it is now."""
        return self.farm.replica(self.name)

    def sessions(self) -> list[OpenSession]:
        """Open now, the oldest first."""
        return self.farm.sessions(self.name)

    def arm(self, fault: Fault | str, **fields: Any) -> ReplicaStatus:
        """The fault stands."""
        return self.farm.arm(self.name, fault, **fields)

    def lift(self, fault: Fault | type[Fault] | str | None = None) -> ReplicaStatus:
        """The fault stands no longer; without one, none does."""
        return self.farm.lift(self.name, fault)

    def kill(
        self, *, restart_after_seconds: float | None = None, warming_seconds: float = 0.0
    ) -> ReplicaStatus:
        """Every connection is reset and the port closed."""
        return self.farm.kill(
            self.name, restart_after_seconds=restart_after_seconds, warming_seconds=warming_seconds
        )

    def restart(self, *, after_seconds: float = 0.0, warming_seconds: float = 0.0) -> ReplicaStatus:
        """Killed if it runs, then back."""
        return self.farm.restart(self.name, after_seconds=after_seconds, warming_seconds=warming_seconds)

    def pause(self, *, for_seconds: float | None = None) -> ReplicaStatus:
        """It stands still."""
        return self.farm.pause(self.name, for_seconds=for_seconds)

    def resume(self) -> ReplicaStatus:
        """It goes on."""
        return self.farm.resume(self.name)

    def events(self, after: int = 0, **wanted: Any) -> EventPage:
        """What it saw since event number `after`."""
        return self.farm.events(after, replica=self.name, **wanted)

    def wait_for(self, kind: str, **wanted: Any) -> Event:
        """The event of this kind, once it was seen."""
        return self.farm.wait_for(kind, replica=self.name, **wanted)


@contextmanager
def running_farm(wanted: Wanted) -> Iterator[RunningFarm]:
    """The farm runs inside, on free ports of this machine."""
    thread = FarmThread(lambda: _made(wanted))
    began_at = time.time()
    try:
        farm, url = thread.start()
        with RunningFarm(farm, url, wanted, began_at) as running:
            yield running
    finally:
        thread.stop()


def _made(wanted: Wanted) -> Farm:
    return Farm(
        wanted.names,
        capacity=wanted.capacity,
        seed=wanted.seed,
        segment_seconds=wanted.segment_seconds,
        faults=wanted.standing(),
        isolate=wanted.isolate,
        scale_to_zero=wanted.scale_to_zero,
        media=wanted.media,
        subprotocols=wanted.subprotocols,
        ping_interval_seconds=wanted.ping_interval_seconds,
        ping_timeout_seconds=wanted.ping_timeout_seconds,
    )


def _check_no_loop(method: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"farm.{method} would stop this event loop until something happens: await farm.aio.{method}(...)"
    )
