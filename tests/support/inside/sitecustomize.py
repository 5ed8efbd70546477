"""Lets a test look inside a Python process: read when one starts with this folder on its PYTHONPATH.

Every process of the tree then answers on a Unix socket named by its pid with what is alive in it, as JSON. A
thread answers, so that an event loop that hangs is told as well.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import os
import socket
import threading

FOLDER = os.environ.get("TESTS_LOOK_INSIDE")
COUNTED = ("AsgiDoor", "Bridge", "Entry", "Lease", "Upstream")
"""Classes of the gateway of which one lives as long as a session does."""


def _alive() -> dict[str, dict[str, int]]:
    gc.collect()
    tasks: collections.Counter[str] = collections.Counter()
    objects: collections.Counter[str] = collections.Counter()
    for thing in gc.get_objects():
        if isinstance(thing, asyncio.Task) and not thing.done():
            tasks[getattr(thing.get_coro(), "__qualname__", "?")] += 1
        elif type(thing).__name__ in COUNTED and type(thing).__module__.startswith("gateway."):
            objects[type(thing).__name__] += 1
    return {"tasks": dict(tasks), "objects": dict(objects)}


def _answer(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps(_alive()).encode())


def _start() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{FOLDER}/{os.getpid()}")
    listener.listen()
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()


if FOLDER:
    _start()
    os.register_at_fork(after_in_child=_start)
