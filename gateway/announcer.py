"""`python -m gateway announce`: a process beside a streamer, which announces it until a signal comes.

SIGTERM and SIGINT end it, and the announcement with it. SIGUSR1 says that the streamer drains: it gets no new
session from then on. It does not look at the streamer: whether that is well is what the gateways' probes ask.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Mapping
from datetime import timedelta

from gateway import logs
from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.announcement import FLEET, NAMESPACE, TTL, Announcement
from gateway.fleet.member import MemberState
from gateway.settings import complain

URL_VARIABLE = "GATEWAY_FLEET__URL"
"""Where the address of the store is looked for when the command line has none: it may hold a password."""

LONGEST_SECONDS = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line of `announce` may say."""
    add = parser.add_argument
    add("--url", required=True, metavar="URL", help="where gateways reach it, as in http://10.0.0.7:8000")
    add(
        "--redis",
        metavar="URL",
        help=f"the server of the fleet, as in redis://HOST:6379/0 (default: {URL_VARIABLE})",
    )
    add("--name", help="what people call it (default: its host:port)")
    add("--capacity", type=int, metavar="N", help="sessions that it takes at once (default: no limit)")
    add("--weight", type=float, default=1.0, metavar="W", help="its share under a weighted policy (1)")
    add("--primary", action="store_true", help="it gets sessions before the others")
    add(
        "--cold-start",
        action="store_true",
        help="it sleeps while nobody needs it: gateways do not probe it then, and wake it for a session",
    )
    add("--fleet", default=FLEET, metavar="NAME", help=f"as in discovery.name ({FLEET})")
    add("--namespace", default=NAMESPACE, metavar="NAME", help=f"as in fleet.namespace ({NAMESPACE})")
    add(
        "--ttl",
        type=_seconds,
        default=TTL.total_seconds(),
        metavar="S",
        help=f"it is gone when nothing was heard of it for so long; as in fleet.ttl_seconds ({TTL.seconds})",
    )
    add("--cluster", action="store_true", help="the server is a Redis or Valkey cluster")
    add("--member-id", metavar="ID", help="a name in the fleet that stays over restarts")
    add(
        "--on-stop",
        choices=["leave", "linger"],
        default="leave",
        help="at the end: gone at once, or draining for one ttl more (leave)",
    )


def announce(options: argparse.Namespace, environ: Mapping[str, str] | None = None) -> int:
    """Announce until a signal comes; the exit status: 1 where that never began."""
    logs.configure()
    variables = os.environ if environ is None else environ
    redis = options.redis or variables.get(URL_VARIABLE)
    if not redis:
        complain([f"announce: name the server of the fleet with --redis, or in {URL_VARIABLE}"])
        return 1
    try:
        announcement = Announcement(
            options.url,
            options.name,
            options.capacity,
            options.weight,
            options.primary,
            options.cold_start,
        )
        asyncio.run(_announce(announcement, redis, options))
    except (FleetRefused, FleetUnavailable) as error:
        complain([f"announce: {error}"])
        return 1
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"should be a number of seconds above 0, not {text!r}")
    return seconds


async def _announce(announcement: Announcement, redis: str, options: argparse.Namespace) -> None:
    # What talks to the store is imported once it is needed: this module is a part of every command line.
    from gateway.fleet.announce import announced, streamers_fleet

    state = MemberState.SERVING
    ended = asyncio.Event()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    opened = streamers_fleet(
        redis,
        name=options.fleet,
        namespace=options.namespace,
        ttl=timedelta(seconds=options.ttl),
        cluster=options.cluster,
    )
    async with opened as fleet:
        entered = announced(
            announcement,
            fleet,
            state=lambda: state,
            member_id=options.member_id,
            on_stop=options.on_stop,
        )
        async with entered as membership:

            def drain() -> None:
                nonlocal state
                state = MemberState.DRAINING
                membership.beat_soon()

            loop.add_signal_handler(signal.SIGUSR1, drain)
            await ended.wait()
