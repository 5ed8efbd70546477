"""Ports for processes that must be told theirs on the command line."""

from __future__ import annotations

import random
import socket

_given: set[int] = set()


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on and that this process has not given out before.

    Taken from below the kernel's ephemeral range: between the choice and the server's bind, one that
    the kernel chose for a bind to 0 could go to somebody's outgoing connection.
    """
    for _ in range(1000):
        port = random.randrange(20_000, 32_000)
        if port not in _given and port_is_free(port):
            _given.add(port)
            return port
    raise RuntimeError("no free port between 20000 and 32000 on 127.0.0.1")
