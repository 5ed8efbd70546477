"""Several replicas under one roof: what the command line, tests and demos start.

async with Farm(replicas=3) as farm:
    farm.set_fault("b", Stall(seconds=2))
    await farm.kill("a")
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import socket
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

from emulator.events import DEFAULT_CAPACITY, DEFAULT_LIMIT, EventLog, Page
from emulator.faults.fault import Fault
from emulator.limits import files_needed, make_room
from emulator.media.choice import MediaChoice, chosen
from emulator.protocol.script import Generation
from emulator.replica.body import Body, LocalBody
from emulator.replica.port import reserve
from emulator.replica.premises import Premises
from emulator.replica.process import ProcessBody
from emulator.replica.replica import Replica
from emulator.replica.scaling import ScaleToZero
from emulator.replica.spec import MAX_PORT, ReplicaSpec, name_of, names_of

Isolation = Literal["none", "process"]

WIDTH, HEIGHT = 640, 360
"""The shape of real video where no other was asked for."""


class PortBusy(OSError):
    """A replica's port cannot be had."""

    def __init__(self, name: str, host: str, port: int, reason: str) -> None:
        super().__init__(f"port {port} of replica {name} cannot be opened on {host}: {reason}")
        self.port = port


class NameTaken(ValueError):
    """No two replicas have one name."""


class Farm:
    """An async context manager: inside, the replicas run."""

    def __init__(
        self,
        replicas: int | Sequence[str] = 3,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        capacity: int = 4,
        seed: int = 0,
        segment_seconds: float = 0.0,
        generation: Generation | None = None,
        media: MediaChoice | None = None,
        watermark: bool = False,
        subprotocols: Sequence[str] = (),
        faults: Mapping[str, Sequence[Fault]] | None = None,
        ping_interval_seconds: float = 20.0,
        ping_timeout_seconds: float = 20.0,
        isolate: Isolation = "none",
        scale_to_zero: Mapping[str, ScaleToZero] | None = None,
        event_capacity: int = DEFAULT_CAPACITY,
        specs: Sequence[ReplicaSpec] | None = None,
    ) -> None:
        """`port` is the first replica's, the others follow; 0 takes free ones. `generation` wins over
        `segment_seconds`. `media` (filler unless `generation` says otherwise) and `watermark` are added to
        it; raises NoVideo for real video that cannot be made here. `faults` stand from the start. Those in
        `scale_to_zero` sleep while nobody uses them.
        `specs`, one a name, are for replicas that are not all alike, and win over all that is said of all."""
        names = names_of(replicas) if isinstance(replicas, int) else list(replicas)
        if not names or len(set(names)) != len(names):
            raise ValueError("a farm needs at least one replica, and no name twice")
        if port and port + len(names) - 1 > MAX_PORT:
            raise ValueError(f"{len(names)} replicas from port {port} on end above {MAX_PORT}")
        self.log = EventLog(event_capacity)
        self.replicas: dict[str, Replica] = {}
        """By name, in order; there from the entry on."""
        self.environment: Mapping[str, str] = {}
        """Variables with which a gateway finds them, where whoever started it has listed them somewhere."""
        self._isolate = isolate
        self._faults = faults or {}
        pace = _pace(generation, segment_seconds, media, watermark)
        self._specs = list(specs or ()) or [
            ReplicaSpec(
                name,
                host=host,
                port=port + index if port else 0,
                capacity=capacity,
                seed=seed,
                generation=pace,
                subprotocols=tuple(subprotocols),
                ping_interval_seconds=ping_interval_seconds,
                ping_timeout_seconds=ping_timeout_seconds,
                scale_to_zero=(scale_to_zero or {}).get(name),
            )
            for index, name in enumerate(names)
        ]
        self._tasks: asyncio.TaskGroup | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._runner: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Every port is open, and there may be as many open files as the replicas and their sessions need, as
        far as the system allows. Raises PortBusy or TooFewFiles."""
        replicas, isolated = len(self._specs), self._isolate == "process"
        make_room(
            files_needed(replicas, sessions=sum(spec.capacity for spec in self._specs), isolated=isolated),
            at_least=files_needed(replicas, isolated=isolated),
        )
        for spec in self._specs:
            try:
                self._add(spec)
            except PortBusy:
                for replica in self.replicas.values():
                    replica.release_port()
                raise
        # The one task outside a group: it owns the group of all others, and __aexit__ may run in another
        # task than this method does (a test's fixture), which a group does not survive.
        self._runner = asyncio.create_task(self._run(), name="emulator farm")
        started = asyncio.ensure_future(self._started.wait())
        await asyncio.wait({self._runner, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._runner.done():
            await self._runner
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        if self._runner is not None:
            await self._runner

    # By name

    def set_fault(self, name: str, fault: Fault) -> None:
        """`fault` stands on replica `name`."""
        self.replicas[name].set_fault(fault)

    def clear_fault(self, name: str, fault: str) -> bool:
        """The fault of that name stands no longer; tells whether it did."""
        return self.replicas[name].clear_fault(fault)

    async def kill(
        self, name: str, *, restart_after_seconds: float | None = None, warming_seconds: float = 0.0
    ) -> None:
        """Every connection of the replica is reset, its port closed."""
        await self.replicas[name].kill(
            restart_after_seconds=restart_after_seconds, warming_seconds=warming_seconds
        )

    async def restart(self, name: str, *, after_seconds: float = 0.0, warming_seconds: float = 0.0) -> None:
        """The replica is back after so long, and warm after so long again."""
        await self.replicas[name].restart(after_seconds=after_seconds, warming_seconds=warming_seconds)

    async def pause(self, name: str, *, for_seconds: float | None = None) -> None:
        """The replica stands still."""
        await self.replicas[name].pause(for_seconds=for_seconds)

    async def resume(self, name: str) -> None:
        """The replica goes on."""
        await self.replicas[name].resume()

    async def reset(self) -> None:
        """No faults, all running."""
        async with asyncio.TaskGroup() as group:
            for replica in self.replicas.values():
                group.create_task(replica.reset())

    def events(self, after: int = 0, *, replica: str | None = None, limit: int = DEFAULT_LIMIT) -> Page:
        """What the replicas saw since event number `after`."""
        return self.log.page(after, replica=replica, limit=limit)

    # Joining and leaving

    async def add(
        self,
        name: str | None = None,
        *,
        port: int = 0,
        capacity: int | None = None,
        warming_seconds: float = 0.0,
    ) -> Replica:
        """One replica more, and it runs: under the first free name and on a free port unless told otherwise,
        and in all else as the farm's first one began. Raises NameTaken and PortBusy."""
        if name is None:
            name = next(each for index in itertools.count() if (each := name_of(index)) not in self.replicas)
        if name in self.replicas:
            raise NameTaken(f"there is a replica {name!r} already")
        first = self._specs[0]
        wanted = capacity if capacity is not None else first.capacity
        self._add(dataclasses.replace(first, name=name, port=port, capacity=wanted))
        replica = self.replicas[name]
        try:
            await replica.start(warming_seconds=warming_seconds)
        except BaseException:
            del self.replicas[name]
            replica.release_port()
            raise
        if self._tasks is not None and not self._stopping.is_set():
            self._timers[name] = self._tasks.create_task(replica.run())
        return replica

    async def remove(self, name: str) -> None:
        """The replica is gone for good: its sessions were told 1001, and its port is anybody's."""
        replica = self.replicas.pop(name)
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
        await replica.stop()

    # Inside

    def _add(self, spec: ReplicaSpec) -> None:
        try:
            port, reservation = reserve(spec.host, spec.port)
        except OSError as error:
            raise PortBusy(spec.name, spec.host, spec.port, error.strerror or str(error)) from error
        self.replicas[spec.name] = self._make(dataclasses.replace(spec, port=port), reservation)

    def _make(self, spec: ReplicaSpec, reservation: socket.socket | None) -> Replica:
        replica = Replica(spec, self.log, self._body, reservation)
        for fault in self._faults.get(spec.name, ()):
            replica.set_fault(fault)
        return replica

    def _body(self, premises: Premises, on_death: Callable[[Body], None]) -> Body:
        assert self._tasks is not None, "replicas start inside the farm"
        if self._isolate == "process":
            return ProcessBody(premises, self._tasks, on_death)
        return LocalBody(premises, self._tasks, on_death)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                async with asyncio.TaskGroup() as starting:
                    for replica in self.replicas.values():
                        starting.create_task(replica.start())
                for replica in self.replicas.values():
                    self._timers[replica.name] = tasks.create_task(replica.run())
                self._started.set()
                await self._stopping.wait()
                for timer in self._timers.values():
                    timer.cancel()
            finally:
                async with asyncio.TaskGroup() as stopping:
                    for replica in self.replicas.values():
                        stopping.create_task(replica.stop())


def _pace(
    generation: Generation | None, segment_seconds: float, media: MediaChoice | None, watermark: bool
) -> Generation:
    pace = generation or Generation(segment_seconds=segment_seconds)
    kind = chosen(media or pace.media)
    if generation is None and kind == "mp4":
        pace = dataclasses.replace(pace, width=WIDTH, height=HEIGHT)
    return dataclasses.replace(pace, media=kind, watermark=watermark or pace.watermark)
