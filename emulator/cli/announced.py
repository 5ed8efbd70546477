"""`--announce`: the replicas announce themselves, for gateways that find them so."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from emulator.cli import values
from emulator.farm import Farm


class NotAnnounced(Exception):
    """The replicas cannot be announced as the command line says; the text says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say of it."""
    add = parser.add_argument_group("announcing", "for gateways with discovery.kind fleet").add_argument
    add(
        "--announce",
        metavar="URL",
        help="announce the replicas there, as in redis://127.0.0.1:6379/0 (needs the extra `fleet`)",
    )
    add(
        "--announce-host",
        type=values.host,
        metavar="NAME",
        help="what gateways on other machines reach this one by (the address that replicas listen on)",
    )
    add("--announce-fleet", metavar="NAME", help="as in discovery.name (replicas)")
    add("--announce-namespace", metavar="NAME", help="as in fleet.namespace (streamhold)")
    add(
        "--announce-ttl",
        type=values.seconds,
        metavar="S",
        help="a killed replica is gone after so long, as in fleet.ttl_seconds (10)",
    )


@asynccontextmanager
async def announced(farm: Farm, options: argparse.Namespace) -> AsyncIterator[None]:
    """Inside, the replicas of `farm` are announced where that is wanted. Raises NotAnnounced."""
    given = {
        "host": options.announce_host,
        "name": options.announce_fleet,
        "namespace": options.announce_namespace,
        "ttl_seconds": options.announce_ttl,
    }
    wanted = {key: value for key, value in given.items() if value is not None}
    if options.announce is None:
        if wanted:
            raise NotAnnounced("--announce is missing: name the fleet's server with it")
        yield
        return
    # Imported only where it is wanted: it brings a part of the gateway.
    from emulator.announcing import CannotAnnounce, Place, announcing

    try:
        async with announcing(farm, Place(options.announce, **wanted)):
            yield
    except CannotAnnounce as problem:
        raise NotAnnounced(f"--announce: {problem}") from problem
