"""Announces the replicas of a farm in a fleet, as streamers of their own would announce themselves.

1. A replica that runs is a member: `starting` while it warms up, `serving` after that.
2. One that is killed says nothing more, and its entry expires. When it is back, it is a new member.
3. One that stands still says nothing while it does; when it goes on, it is the member that it was, or joins
   anew where its entry had expired meanwhile.
4. One that ends in order takes its entry with it.

This is the one place of the emulator that uses a part of the gateway: its client for streamers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from emulator.events import Event
from emulator.farm import Farm
from emulator.replica.replica import Replica, State
from emulator.replica.spec import base_url
from gateway.fleet.announce import (
    FLEET,
    NAMESPACE,
    TTL,
    Announcement,
    FleetMembership,
    FleetRefused,
    FleetStore,
    FleetUnavailable,
    MemberState,
    announced,
    announcer_id,
    streamers_fleet,
)

logger = logging.getLogger("emulator")

RETRY_SECONDS = 1.0
"""From one try to join to the next, where the fleet's server does not answer."""
CHECK_SECONDS = 5.0


class CannotAnnounce(Exception):
    """Nothing can be announced there; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """The fleet in which replicas are announced."""

    url: str
    name: str = FLEET
    namespace: str = NAMESPACE
    ttl_seconds: float = TTL.total_seconds()
    host: str | None = None
    """What replicas are reached by there; None is what they are reached by here."""

    def url_of(self, replica: Replica) -> str:
        """What is announced of `replica`."""
        return replica.url if self.host is None else base_url(self.host, replica.port)


@dataclass(slots=True)
class _Life:
    """One life of a replica, from the moment that it runs until it does not."""

    member_id: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    silent: bool = False
    """Whether it ends without a word."""
    membership: FleetMembership | None = None

    def end(self, *, silent: bool) -> None:
        """It is over; nothing more is said of it from here on if it is to be `silent`."""
        self.silent = silent
        self.over.set()
        if silent and self.membership is not None:
            self.membership.abandon()


@asynccontextmanager
async def announcing(farm: Farm, place: Place) -> AsyncIterator[None]:
    """Inside, every replica of `farm` is announced for as long as it runs.

    Raises CannotAnnounce when the fleet's server does not answer at the start; later it is waited for.
    """
    async with AsyncExitStack() as opened:
        fleet = await _open(place, opened)
        tasks = await opened.enter_async_context(asyncio.TaskGroup())
        announcer = _Announcer(farm, fleet, place, tasks)
        opened.callback(announcer.end)
        opened.callback(farm.log.subscribe(announcer.hear))
        for replica in farm.replicas.values():
            announcer.follow(replica)
        yield


async def _open(place: Place, opened: AsyncExitStack) -> FleetStore:
    """The fleet, whose server has answered."""
    try:
        entered = streamers_fleet(
            place.url,
            name=place.name,
            namespace=place.namespace,
            ttl=timedelta(seconds=place.ttl_seconds),
        )
        fleet = await opened.enter_async_context(entered)
        async with asyncio.timeout(CHECK_SECONDS):
            await fleet.view()
    except (FleetRefused, FleetUnavailable) as error:
        raise CannotAnnounce(str(error)) from error
    except OverflowError as error:
        raise CannotAnnounce(f"{place.ttl_seconds:g} s are too long for an entry to live") from error
    except TimeoutError as error:
        raise CannotAnnounce(f"the fleet's server has not answered within {CHECK_SECONDS:g} s") from error
    return fleet


class _Announcer:
    """Begins and ends the lives of replicas, as their states change."""

    def __init__(self, farm: Farm, fleet: FleetStore, place: Place, tasks: asyncio.TaskGroup) -> None:
        self._farm, self._fleet, self._place, self._tasks = farm, fleet, place, tasks
        self._lives: dict[str, _Life] = {}
        self._ids: dict[str, str] = {}
        """Of those that stand still, and will be the same when they go on."""

    def hear(self, event: Event) -> None:
        """Follow what became of a replica."""
        if event.kind == "state_changed":
            replica = self._farm.replicas.get(event.replica)
            if replica is not None:
                self.follow(replica)
            else:
                self._end(event.replica, silent=False)  # it was removed

    def follow(self, replica: Replica) -> None:
        """Afterwards it is announced if it runs, and is not if it does not."""
        match replica.state:
            case State.RUNNING:
                if replica.name not in self._lives:
                    self._begin(replica)
            case State.PAUSED:
                if (paused := self._end(replica.name, silent=True)) is not None:
                    self._ids[replica.name] = paused.member_id
            case State.KILLED:
                self._ids.pop(replica.name, None)
                self._end(replica.name, silent=True)
            case State.STOPPED:
                self._ids.pop(replica.name, None)
                self._end(replica.name, silent=False)

    def end(self) -> None:
        """Every replica takes its entry with it."""
        for name in list(self._lives):
            self._end(name, silent=False)

    def _begin(self, replica: Replica) -> None:
        known = self._ids.pop(replica.name, "")
        life = self._lives[replica.name] = _Life(known or f"{replica.name}:{announcer_id()}")
        self._tasks.create_task(self._announce(replica, life))

    def _end(self, name: str, *, silent: bool) -> _Life | None:
        life = self._lives.pop(name, None)
        if life is not None:
            life.end(silent=silent)
        return life

    async def _announce(self, replica: Replica, life: _Life) -> None:
        """Be a member until the life is over; a server that does not answer is asked again."""
        failed = False
        while not life.over.is_set():
            try:
                await self._be_member(replica, life)
            except FleetRefused as refused:
                logger.warning("replica %s cannot be announced: %s", replica.name, refused)
                return
            except FleetUnavailable as error:
                if not failed:
                    logger.warning("replica %s cannot be announced yet: %s", replica.name, error)
                failed = True
                await _within(RETRY_SECONDS, life.over)

    async def _be_member(self, replica: Replica, life: _Life) -> None:
        spec = replica.spec
        entered = announced(
            Announcement(
                self._place.url_of(replica),
                spec.name,
                spec.capacity,
                cold_start=spec.scale_to_zero is not None,
            ),
            self._fleet,
            load=lambda: replica.sessions,
            state=lambda: MemberState.STARTING if replica.status()["warming"] else MemberState.SERVING,
            member_id=life.member_id,
        )
        async with entered as membership:
            life.membership = membership
            if life.over.is_set() and life.silent:
                membership.abandon()  # it ended during the first beat
            await life.over.wait()


async def _within(timeout_seconds: float, event: asyncio.Event) -> None:
    """Return when `event` is set, or the time is over."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await event.wait()
    except TimeoutError:
        return
