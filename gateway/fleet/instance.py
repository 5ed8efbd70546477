"""Who this process is among the members of a fleet."""

from __future__ import annotations

import os
import secrets
import socket

from gateway.fleet.member import unfit

_nonces: dict[int, str] = {}
"""By process: one that was forked is another member than its parent."""


def instance_id() -> str:
    """`host:pid:nonce`, the same at every call in one process, and of no other process ever.

    The nonce is random: a restarted process is a new member even with an old pid. The cost is that each
    restart takes one id away and adds another, and so moves what `rank` gave to either.
    """
    host = "".join(char if unfit(char) is None else "-" for char in socket.gethostname()) or "localhost"
    return f"{host}:{os.getpid()}:{process_nonce()}"


def process_nonce() -> str:
    """16 hex digits, the same at every call in one process."""
    pid = os.getpid()
    if pid not in _nonces:
        _nonces[pid] = secrets.token_hex(8)
    return _nonces[pid]
