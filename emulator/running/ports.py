"""Ports for gateways, which must be told theirs before they start."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOWEST, HIGHEST = 20_000, 32_000
TRIES = 1000


class NoFreePort(OSError):
    """Every port that was tried is taken."""


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


@contextmanager
def reserved_ports(count: int = 1, host: str = "127.0.0.1") -> Iterator[int]:
    """The first of `count` ports in a row on which servers could listen now. Until the end of the block no
    other block gets one of them, in this process or, on Linux, in any other one.

    From below the range from which the kernel serves outgoing connections: one of those would otherwise get
    a port now and then, between the choice and the server's bind. Raises NoFreePort.
    """
    for _ in range(TRIES):
        first = random.randrange(LOWEST, HIGHEST - count)
        ports = range(first, first + count)
        with ExitStack() as held:
            if all(_claim(port, held) and is_free(port, host) for port in ports):
                yield first
                return
    row = "no port" if count == 1 else f"no {count} ports in a row"
    raise NoFreePort(f"{row} from {LOWEST} to {HIGHEST} free on {host}")


_here: set[int] = set()


def _claim(port: int, held: ExitStack) -> bool:
    """Whether nobody had claimed `port`; it is ours then until `held` ends.

    The port itself stays untouched, so that any server can bind it, with whatever options. What is bound is a
    name that the kernel lets go of with its process, however that ends.
    """
    if port in _here:
        return False
    if sys.platform == "linux":
        claim = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            claim.bind(f"\0streamhold-port-{port}")
        except OSError:
            return False
    _here.add(port)
    held.callback(_here.discard, port)
    return True
