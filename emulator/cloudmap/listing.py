"""Lists the replicas of a farm in Cloud Map for as long as they are there, as AWS would.

What `entries` says they should look like there is compared with what was last written, and the difference is
written. A call that fails is told of once, and tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from emulator.cloudmap.api import CloudMapUnavailable, Service
from emulator.cloudmap.entries import Fate, Instance, Life, Notice, attributes_of, instance_of, next_notice
from emulator.events import Event
from emulator.farm import Farm
from emulator.replica.replica import Replica, State

logger = logging.getLogger("emulator")

RETRY_SECONDS = 1.0
EVERY = "*"
"""In `Listed.given`: of all replicas."""

FATES: Mapping[State, Fate] = {
    State.RUNNING: "running",
    State.PAUSED: "paused",
    State.KILLED: "killed",
    State.STOPPED: "gone",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """How replicas are listed."""

    notice: Notice = field(default_factory=Notice)
    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """More attributes, by the replica's name; those of `*` are all replicas'."""

    def attributes(self, replica: Replica) -> Mapping[str, str]:
        """Of the replica's instances."""
        spec = replica.spec
        return attributes_of(
            spec.name,
            urlsplit(replica.url).hostname or spec.host,
            spec.port,
            capacity=spec.capacity,
            cold_start=spec.scale_to_zero is not None,
            given={**self.given.get(EVERY, {}), **self.given.get(spec.name, {})},
        )


@asynccontextmanager
async def listed(farm: Farm, service: Service, how: Listed) -> AsyncIterator[None]:
    """Inside, every replica of `farm` is an instance of `service` while it is there; at the end none is.

    Raises CloudMapUnavailable when that fails at the start.
    """
    lister = _Lister(farm, service, how)
    unsubscribe = farm.log.subscribe(lister.hear)
    try:
        for replica in farm.replicas.values():
            lister.follow(replica)
        await lister.write()
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(lister.run())
            yield
            writing.cancel()
    finally:
        unsubscribe()
        with contextlib.suppress(CloudMapUnavailable):
            await lister.withdraw()


class _Lister:
    """Knows the lives of the replicas, and what was written of them."""

    def __init__(self, farm: Farm, service: Service, how: Listed) -> None:
        self._farm, self._service, self._how = farm, service, how
        self._lives: dict[str, Life] = {}
        self._attributes: dict[str, Mapping[str, str]] = {}
        self._written: dict[str, tuple[str, Instance]] = {}
        """By the instance's id: whose it is, and how it was written."""
        self._begun: set[str] = set()
        """Ids that may be there although nobody has heard so: the call was not waited for."""
        self._changed = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Follow what became of a replica."""
        if event.kind != "state_changed":
            return
        if (replica := self._farm.replicas.get(event.replica)) is not None:
            self.follow(replica)
        elif event.replica in self._lives:
            self._turn(event.replica, "gone")  # it was removed

    def follow(self, replica: Replica) -> None:
        """Its state counts from now on."""
        self._attributes[replica.name] = self._how.attributes(replica)
        self._turn(replica.name, FATES[replica.state])

    def _turn(self, name: str, fate: Fate) -> None:
        self._lives[name] = self._lives.get(name, Life(name)).turned(fate, _now())
        self._changed.set()

    async def run(self) -> None:
        """Keep Cloud Map as it should be until cancelled."""
        failed = False
        while True:
            self._changed.clear()
            try:
                await self.write()
                failed, wait = False, self._until_next_notice()
            except CloudMapUnavailable as error:
                if not failed:
                    logger.warning("Cloud Map cannot be told of the replicas: %s", error)
                failed, wait = True, RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _until_next_notice(self) -> float | None:
        now = _now()
        at = next_notice(self._lives.values(), self._how.notice, now)
        return None if at is None else at - now

    async def write(self) -> None:
        """Cloud Map has what it should. What comes is written before what goes: a replica that is back is
        never missing.
        """
        lives, now = list(self._lives.values()), _now()
        wanted = {
            instance.id: (life.name, instance)
            for life in lives
            if (instance := instance_of(life, self._attributes[life.name], self._how.notice, now)) is not None
        }
        for id, (name, instance) in wanted.items():
            before = self._written.get(id)
            if before is None:
                self._begun.add(id)
                await self._service.register(instance)
            elif before[1].healthy is not instance.healthy:
                await self._service.set_health(id, healthy=instance.healthy)
            else:
                continue
            self._written[id] = name, instance
            self._tell(name, "listed", {"id": id, "health": "healthy" if instance.healthy else "unhealthy"})
        for id in [id for id in self._written if id not in wanted]:
            await self._take_out(id)

    async def withdraw(self) -> None:
        """Cloud Map has none of them any more."""
        for id in sorted(self._begun):
            await self._take_out(id)

    async def _take_out(self, id: str) -> None:
        await self._service.deregister(id)
        self._begun.discard(id)
        if (written := self._written.pop(id, None)) is not None:
            self._tell(written[0], "unlisted", {"id": id})

    def _tell(self, name: str, kind: str, detail: Mapping[str, str]) -> None:
        self._farm.log.record(name, kind, at=time.time(), detail=detail)


def _now() -> float:
    return asyncio.get_running_loop().time()
