"""`--cloudmap`: the replicas are listed in a Cloud Map on this machine, for gateways that find them there."""

from __future__ import annotations

import argparse
import re
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager

from emulator.cli import values
from emulator.cli.ports import PortOfAReplica, aws_port
from emulator.cloudmap.entries import Notice
from emulator.farm import Farm
from emulator.replica.port import bind
from emulator.replica.spec import LOOPBACK, unknown_among

NAMESPACE, SERVICE = "streamhold", "replicas"
EVERY = "*"
MISSING = (
    "--cloudmap needs moto, which is not installed: in a clone of this repository "
    "pip install -e '.[emulator,cloudmap]' brings it"
)
FORM = (
    "--cloudmap-attribute is written as REPLICA:KEY=VALUE, as in a:primary=true, or with * for all replicas"
)

KEY, VALUE = re.compile("[!-~]{1,255}"), re.compile(r"(?:[!-~][ \t!-~]{0,1023})?")
CHARACTERS = (
    "Cloud Map takes keys of 1 to 255 and values of up to 1024 printable ASCII characters, values also with "
    "spaces after the first"
)


class NotListed(Exception):
    """The replicas cannot be listed as the command line says; the text says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say of it."""
    add = parser.add_argument_group("Cloud Map", "for gateways with discovery.kind cloudmap").add_argument
    add(
        "--cloudmap",
        action="store_true",
        help="list the replicas in a Cloud Map here (needs the extra `cloudmap`), and print how it is found",
    )
    add(
        "--cloudmap-port",
        type=values.port,
        metavar="PORT",
        help="of AWS's API; 0: a free one (9199, or the one after the replicas')",
    )
    add(
        "--cloudmap-notice",
        type=values.seconds,
        metavar="S",
        help="a killed or paused replica is listed as before for so long (5)",
    )
    add(
        "--cloudmap-then",
        choices=["deregister", "unhealthy"],
        help="what becomes of it after that (deregister)",
    )
    add(
        "--cloudmap-attribute",
        action="append",
        metavar="REPLICA:KEY=VALUE",
        help="one more attribute, as in a:primary=true or *:weight=2; repeatable",
    )


@asynccontextmanager
async def listed(farm: Farm, options: argparse.Namespace, control: int) -> AsyncIterator[None]:
    """Inside, the replicas of `farm` are listed where that is wanted, and its environment says how to find
    them. `control` is the port of the control API. Raises NotListed.
    """
    given = {
        "--cloudmap-port": options.cloudmap_port,
        "--cloudmap-notice": options.cloudmap_notice,
        "--cloudmap-then": options.cloudmap_then,
        "--cloudmap-attribute": options.cloudmap_attribute,
    }
    wanted = [flag for flag, value in given.items() if value is not None]
    if not options.cloudmap:
        if wanted:
            raise NotListed(f"{wanted[0]} is for --cloudmap, which is missing")
        yield
        return
    # Imported only where it is wanted: both take a second to load, and belong to an extra.
    try:
        from emulator.cloudmap.api import CloudMapUnavailable, Service
        from emulator.cloudmap.listing import Listed
        from emulator.cloudmap.listing import listed as listed_in
        from emulator.cloudmap.server import aws_on
    except ImportError as missing:
        raise NotListed(MISSING) from missing
    how = Listed(
        Notice(
            Notice().after_seconds if options.cloudmap_notice is None else options.cloudmap_notice,
            options.cloudmap_then or Notice().then,
        ),
        attributes_given(options.cloudmap_attribute or [], list(farm.replicas)),
    )
    with ExitStack() as opened:
        bound = opened.enter_context(_bound(farm, options, control))
        url = opened.enter_context(aws_on(bound))
        try:
            made = Service(url, namespace=NAMESPACE, service=SERVICE)
            async with made as service, listed_in(farm, service, how):
                farm.environment = environment(url)
                yield
        except CloudMapUnavailable as problem:
            raise NotListed(f"--cloudmap: {problem}") from problem


def environment(url: str) -> Mapping[str, str]:
    """With these variables a gateway finds the replicas in the Cloud Map at `url`, and no others."""
    from emulator.cloudmap.api import KEY_ID, REGION, SECRET

    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "GATEWAY_DISCOVERY__KIND": "cloudmap",
        "GATEWAY_DISCOVERY__NAMESPACE": NAMESPACE,
        "GATEWAY_DISCOVERY__SERVICE": SERVICE,
        "GATEWAY_DISCOVERY__ENDPOINT_URL": url,
        # It costs nothing to be asked here, and whoever plays with it does not want to wait.
        "GATEWAY_DISCOVERY__INTERVAL_SECONDS": "1",
        "GATEWAY_DISCOVERY__FULL_INTERVAL_SECONDS": "2",
        "GATEWAY_DISCOVERY__CONFIRM_SECONDS": "3",
        "GATEWAY_DISCOVERY__SETTLE_SECONDS": "10",
        # A gateway.yaml beside it may have replicas of its own, which would be there for good.
        "GATEWAY_ROUTER__REPLICAS": "[]",
    }


def attributes_given(written: list[str], names: list[str]) -> Mapping[str, Mapping[str, str]]:
    """By the replica's name. Raises NotListed."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for text in written:
        name, colon, rest = text.partition(":")
        key, equals, value = rest.partition("=")
        if not (colon and equals and name and key):
            raise NotListed(f"{FORM}; not {text!r}")
        if name != EVERY and unknown_among([name], names):
            known = ", ".join(names)
            raise NotListed(f"--cloudmap-attribute {text}: there is no such replica; there are: {known}")
        if not (KEY.fullmatch(key) and VALUE.fullmatch(value)):
            raise NotListed(f"{CHARACTERS}; not {text[:80]!r}")
        found[name][key] = value
    return found


@contextmanager
def _bound(farm: Farm, options: argparse.Namespace, control: int) -> Iterator[socket.socket]:
    try:
        port = aws_port(
            options.cloudmap_port, first=options.port, replicas=len(farm.replicas), control=control
        )
    except PortOfAReplica as problem:
        raise NotListed(str(problem)) from problem
    try:
        bound = bind(LOOPBACK, port)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        text = f"port {port} of AWS's API cannot be opened on {LOOPBACK}: {reason}"
        raise NotListed(f"{text}: choose another with --cloudmap-port") from problem
    with bound:
        yield bound
