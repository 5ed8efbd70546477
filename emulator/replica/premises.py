"""What the connections of one replica share: its spec, its faults, its counters, its pause.

The server changes it, the connections read it; they report back through `record`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from emulator.faults import Capacity, ProcessFault, Warming
from emulator.faults.fault import Draw, Point
from emulator.replica.board import Board
from emulator.replica.scaling import Power, Scaling
from emulator.replica.spec import ReplicaSpec
from emulator.replica.watches import Watches

SENT_SECONDS = 1.0
"""How long a replica that stands still at a point waits for the other side to take what was sent."""
HELD_SECONDS = 10.0
"""How long it stands still when nobody tells it to go on."""


class Record(Protocol):
    """Takes one event of a replica."""

    def __call__(
        self,
        kind: str,
        *,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None: ...


@dataclass(slots=True)
class Counters:
    """What a replica has counted; goes on over a kill and a restart."""

    sessions: int = 0
    """Open now."""
    sessions_total: int = 0
    """Upgrade requests ever."""
    connections_total: int = 0
    health_total: int = 0
    """Requests on health routes ever."""
    wakes: int = 0
    """Times that it was woken."""
    billed_seconds: float = 0.0
    """From being woken until asleep again, of the times that are over."""
    awake_since: float | None = None
    """Monotonic seconds at which the running one began; None while it sleeps, and for one that never does."""
    power: str = Power.AWAKE

    def fall_asleep(self, now: float) -> float:
        """The running time is over; how long it was."""
        seconds = now - self.awake_since if self.awake_since is not None else 0.0
        self.billed_seconds += seconds
        self.power, self.awake_since = Power.ASLEEP, None
        return seconds


def _nothing() -> int:
    return 0


def _unheard(_fault: ProcessFault, _key: int) -> None:
    """What has no life yet suffers nothing."""


async def _nobody(_fault: ProcessFault) -> None:
    """What has no owner is left as it is."""


@dataclass(slots=True)
class Premises:
    """One replica's common ground."""

    spec: ReplicaSpec
    board: Board
    counters: Counters
    record: Record
    owner: Callable[[ProcessFault], Awaitable[None]] = _nobody
    """Has done to the replica as a whole what the fault wants. Whoever owns the replica gives this."""
    order: Callable[[ProcessFault, int], None] = _unheard
    """Asks the owner for that, and for a release of the key after it. Whoever gives it a life sets this."""
    watches: Watches = field(default_factory=Watches)
    """Points at which it stands still; they outlive it."""
    unsent_bytes: Callable[[], int] = _nothing
    """Written to sessions, and not yet taken by the other side's kernel. Whoever has the connections sets
    this."""
    refuse_until: float = 0.0
    """Monotonic seconds until which a flaky session has closed the port."""
    running: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while the replica is paused or stands still at a point: nobody reads or writes then."""
    paused: bool = False
    held: set[int] = field(default_factory=set)
    """Keys of the watches (0 and more) and orders (below 0) for which it stands still."""
    closing: bool = False
    """The server is stopping: sessions say goodbye."""
    scaling: Scaling | None = None
    """Of one that scales to zero. Whoever gives it a life sets this."""
    ears: set[asyncio.Event] = field(default_factory=set)
    """Set at every change of faults, pause or life: who waits for one of them wakes up."""
    _order_keys: Iterator[int] = field(default_factory=lambda: itertools.count(-1, -1))

    def __post_init__(self) -> None:
        self.running.set()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def pause(self) -> None:
        """Nobody reads or writes."""
        self.paused = True
        self.running.clear()

    def resume(self) -> None:
        """A pause is over."""
        self.paused = False
        self._go_on()

    def release(self, key: int) -> None:
        """It stands still no longer for the watch `key`."""
        self.held.discard(key)
        self._go_on()

    def release_all(self) -> None:
        """It stands still for nobody any longer."""
        self.held.clear()
        self._go_on()

    def _go_on(self) -> None:
        if not self.paused and not self.held:
            self.running.set()

    async def pass_by(self, point: Point, connection: int, session: int) -> None:
        """Return once nobody wants the replica to stand still at this point.

        While it does, nothing is read or written. What was sent before is with the other side by the time
        that the event tells of it, as far as the other side takes anything.
        """
        if not self.watches.waiting or not (keys := self.watches.pass_by(point, session)):
            return
        await self._stand_still(keys, lambda: self._tell_of(keys, point, connection, session))

    async def carry_out(self, fault: ProcessFault) -> None:
        """Return once the owner has done what the fault wants, if there is anything left to return to.
        Nothing is read or written meanwhile, and what was sent before has left first, as with `pass_by`."""
        key = next(self._order_keys)
        await self._stand_still([key], lambda: self.order(fault, key))

    async def _stand_still(self, keys: Iterable[int], tell: Callable[[], None]) -> None:
        self.held.update(keys)
        self.running.clear()
        await self.until_sent(self.unsent_bytes)
        tell()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_SECONDS):
                await self.running.wait()
        self.held.difference_update(keys)
        self._go_on()
        await self.running.wait()

    def _tell_of(self, keys: Iterable[int], point: Point, connection: int, session: int) -> None:
        for key in keys:
            detail = {"point": str(point), "watch": key}
            self.record("point_reached", connection=connection, session=session, detail=detail)

    async def until_sent(self, unsent_bytes: Callable[[], int]) -> None:
        """The other side has what was sent, as far as it takes it in time. The kernel tells nobody when it is
        through with sending: it has to be asked."""
        deadline = self.now() + SENT_SECONDS
        wait = 0.0
        while unsent_bytes() and self.now() < deadline:
            await asyncio.sleep(wait)
            wait = 0.001

    # Scaling to zero

    @property
    def is_awake(self) -> bool:
        """There is a worker, warm or not by other rules."""
        return self.scaling is None or self.scaling.power is Power.AWAKE

    def touch(self, connection: int) -> None:
        """Something has come on that connection: a replica that sleeps begins to wake."""
        if self.scaling is not None and self.scaling.touch(now := self.now()):
            self.counters.wakes += 1
            self.counters.awake_since, self.counters.power = now, Power.WAKING
            self.record("woken", connection=connection)
            self.changed()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """It does not fall asleep inside."""
        if self.scaling is None:
            yield
            return
        self.scaling.begin()
        try:
            yield
        finally:
            self.scaling.end(self.now())
            if not self.scaling.busy:
                self.changed()

    def turn_by_time(self) -> None:
        """It is warm, or asleep, if that is due."""
        if self.scaling is None:
            return
        match self.scaling.turn(now := self.now()):
            case Power.AWAKE:
                self.counters.power = Power.AWAKE
                self.record("warmed")
            case Power.ASLEEP:
                seconds = self.counters.fall_asleep(now)
                self.record("fell_asleep", detail={"awake_seconds": round(seconds, 3)})
            case _:
                pass

    def changed(self) -> None:
        """Everyone who waits looks again."""
        for ear in self.ears:
            ear.set()

    @contextlib.contextmanager
    def ear(self) -> Iterator[asyncio.Event]:
        """Set at every change, for whoever waits inside."""
        ear = asyncio.Event()
        self.ears.add(ear)
        try:
            yield ear
        finally:
            self.ears.discard(ear)

    @property
    def capacity(self) -> int:
        """How many sessions it takes now, as far as that does not depend on the session."""
        faults = self.board.live_at(Point.ADMIT, self.now())
        changed = [fault.sessions for fault in faults if isinstance(fault, Capacity)]
        return changed[-1] if changed else self.spec.capacity

    @property
    def is_warming(self) -> bool:
        """No worker is ready."""
        return self.board.live(Warming, self.now())

    def draws_of(self, what: str) -> Draw:
        """The random draws of one session or request: the same seed, replica and `what` give the same
        ones."""
        return random.Random(f"{self.spec.seed}:{self.spec.name}:{what}").random

    def strike_counted(self, name: str, connection: int, session: int | None) -> None:
        """The log shows that the fault `name` took its turn."""
        self.record("fault_struck", connection=connection, session=session, detail={"fault": name})
