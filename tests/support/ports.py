"""Ports for processes that must be told theirs on the command line, and for those that must not."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from emulator.running.ports import is_free, reserved_ports
from tests.support.waiting import eventually

DEFAULT_PORTS = (8000, 9101, 9102, 9103, 9190)
"""Of Granian, three replicas, and the control API."""

_held = ExitStack()


def free_port() -> int:
    """A port that nobody listens on. No other test gets it, in whatever process."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many of them in a row."""
    return _held.enter_context(reserved_ports(count))


@asynccontextmanager
async def default_ports() -> AsyncIterator[None]:
    """The ports of the README's commands as they are written there, for one test at a time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as turn:

        def ours() -> bool:
            try:
                turn.bind("\0streamhold-default-ports")
            except OSError:
                return False
            return True

        def nobody_listens() -> bool:
            return all(is_free(port) for port in DEFAULT_PORTS)

        await eventually(ours, "no other test uses the default ports", timeout=120)
        await eventually(nobody_listens, f"nobody else listens on {DEFAULT_PORTS}", timeout=30)
        yield
