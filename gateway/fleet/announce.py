"""Announces a streamer to the gateways: what `discovery.kind: fleet` reads. For streamers in Python:

    from gateway.fleet.announce import Announcement, announced, streamers_fleet

    async with streamers_fleet("redis://127.0.0.1:6379/0") as fleet:
        async with announced(Announcement("http://10.0.0.7:8000", capacity=1), fleet, load=open_sessions):
            await serve()

`python -m gateway announce` does it for any other server. A streamer that is killed is gone when its entry
expires; one that ends takes its entry with it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.announcement import FLEET, NAMESPACE, TTL, Announcement
from gateway.fleet.backend import FleetBackend
from gateway.fleet.instance import instance_id
from gateway.fleet.member import MemberState
from gateway.fleet.membership import FleetMembership
from gateway.fleet.spec import FleetSpec, OnStop
from gateway.fleet.step import fleet_membership_lifecycle_step
from gateway.fleet.store import FleetStore

__all__ = [
    "FLEET",
    "NAMESPACE",
    "TTL",
    "Announcement",
    "FleetMembership",
    "FleetRefused",
    "FleetStore",
    "FleetUnavailable",
    "MemberState",
    "announced",
    "announcer_id",
    "streamers_fleet",
]

BEATS_IN_A_TTL = 0.3
"""The share of the ttl that lies between two beats where nothing else is said."""


@asynccontextmanager
async def streamers_fleet(
    url: str,
    *,
    name: str = FLEET,
    namespace: str = NAMESPACE,
    ttl: timedelta = TTL,
    cluster: bool = False,
) -> AsyncIterator[FleetStore]:
    """The streamers' fleet in the Redis, Valkey or relative at `url`, to announce in as often as wanted.

    It connects when it is first used. Raises FleetRefused for a URL, a name or a ttl that breaks a rule, and
    where the library is missing.
    """
    async with FleetBackend("redis", url, namespace=namespace, cluster=cluster) as backend:
        yield backend.store(FleetSpec(name, ttl))


@asynccontextmanager
async def announced(
    announcement: Announcement,
    fleet: FleetStore,
    *,
    load: Callable[[], int] | None = None,
    state: Callable[[], MemberState] = lambda: MemberState.SERVING,
    every: timedelta | None = None,
    member_id: str | None = None,
    on_stop: OnStop = "leave",
    linger_for: timedelta | None = None,
) -> AsyncIterator[FleetMembership]:
    """Inside, the streamer is a member of `fleet`, in its `state`, with the sessions that `load` counts.

    `every` is three tenths of the fleet's ttl where it is not given. Raises FleetUnavailable where the first
    beat is not answered, and FleetRefused for what breaks a rule; later beats that fail are told in the log.
    """
    membership = fleet_membership_lifecycle_step(
        fleet.spec,
        store=fleet,
        every=every if every is not None else fleet.spec.ttl * BEATS_IN_A_TTL,
        report=lambda: announcement.report(load() if load is not None else None),
        state=state,
        member_id=member_id if member_id is not None else announcer_id(),
        on_stop=on_stop,
        linger_for=linger_for,
    )
    async with membership:
        membership.beat_soon()  # the first one said `starting`
        yield membership


def announcer_id() -> str:
    """Another one at each call, of no other process: one that announces several streamers has one for
    each.
    """
    return f"{instance_id()}:{secrets.token_hex(4)}"
