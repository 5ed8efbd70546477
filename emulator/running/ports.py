"""Ports for gateways, which must be told theirs before they start."""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 20_000, 32_000
TRIES = 1000


class NoFreePort(OSError):
    """Every port that was tried is taken."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which a server could listen now.

    From below the range from which the kernel serves outgoing connections: one of those would otherwise get
    the port now and then, between the choice and the gateway's bind.
    """
    for _ in range(TRIES):
        port = random.randrange(LOWEST, HIGHEST)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise NoFreePort(f"no port from {LOWEST} to {HIGHEST} is free on {host}")
