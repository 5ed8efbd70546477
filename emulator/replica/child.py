"""The child's side of `--isolate process`: one replica, told by JSON lines on stdin, telling by lines on
stdout.

It lives no longer than its parent: Linux kills it with the parent, even while it is stopped; elsewhere the
end of stdin ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from emulator.faults import Flaky, Kill, Poison, ProcessFault, fault_from, fields_of
from emulator.replica.board import Armed, Board
from emulator.replica.premises import Counters, Premises
from emulator.replica.server import ReplicaServer
from emulator.replica.spec import ReplicaSpec
from emulator.replica.watches import Watch, Watches

PR_SET_PDEATHSIG = 1
LINE_LIMIT_BYTES = 1024 * 1024

logger = logging.getLogger("emulator")


def main() -> int:
    """Exit status 0 once told to stop or left alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(_run())
    return 0


def _die_with_parent() -> None:
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the wish was registered.
        os._exit(1)


async def _run() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LINE_LIMIT_BYTES)
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer)
    try:
        first = await _next(commands)
        if first is not None:
            await _live(first, commands)
    finally:
        pipe.close()


async def _live(first: dict[str, Any], commands: asyncio.StreamReader) -> None:
    board = Board()
    _copy(first["faults"], board)
    counters = msgspec.convert(first["counters"], Counters)
    counters.sessions = 0
    spec = msgspec.convert(first["spec"], ReplicaSpec)
    watches = Watches()
    _watch(first["watches"], watches)
    teller = _Teller(board, counters, watches)
    premises = Premises(spec, board, counters, teller, watches=watches)
    async with asyncio.TaskGroup() as tasks:
        server = ReplicaServer(premises, tasks)
        premises.order = partial(_order, server)
        await server.start()
        _say({"ready": True})
        while (command := await _next(commands)) is not None and command["do"] != "stop":
            match command["do"]:
                case "faults":
                    _copy(command["faults"], board)
                    if Flaky.name not in board.armed:
                        premises.refuse_until = 0.0
                    server.faults_changed()
                case "watches":
                    _watch(command["watches"], watches)
                case "release":
                    premises.release(command["key"])
                case "settle":
                    await server.settle()
                    _say({"settled": command["number"]})
                case unknown:
                    logger.error("unknown command %r", unknown)
        await server.stop()


def _order(server: ReplicaServer, fault: ProcessFault, key: int) -> None:
    """The parent, which has the signals, is asked to do what the fault wants."""
    if isinstance(fault, Kill | Poison):
        server.expect_death()
    _say({"order": {"fault": fault.name, "fields": fields_of(fault), "key": key}})


class _Teller:
    """Records by telling the parent, with the counters as they are."""

    def __init__(self, board: Board, counters: Counters, watches: Watches) -> None:
        self._board = board
        self._counters = counters
        self._watches = watches

    def __call__(
        self,
        kind: str,
        *,
        connection: int | None = None,
        session: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        event = {"kind": kind, "connection": connection, "session": session, "detail": detail or {}}
        struck = {name: entry.struck for name, entry in self._board.armed.items()}
        seen = {key: watch.seen for key, watch in self._watches.waiting.items()}
        _say({"event": event, "counters": asdict(self._counters), "struck": struck, "watches": seen})


def _copy(faults: list[dict[str, Any]], board: Board) -> None:
    """The board is as the parent's; an entry that has not changed stays the same object, so that sessions
    that have met it remember."""
    wanted = {}
    for entry in faults:
        fault = fault_from(entry["name"], entry["fields"])
        old = board.armed.get(entry["name"])
        if old is not None and old.armed_at == entry["armed_at"] and old.fault == fault:
            wanted[entry["name"]] = old
        else:
            wanted[entry["name"]] = Armed(fault, entry["armed_at"], entry["struck"])
    board.armed.clear()
    board.armed.update(wanted)


def _watch(waiting: list[dict[str, Any]], watches: Watches) -> None:
    """The same watches wait as in the parent; those that waited before have counted what they saw."""
    known = dict(watches.waiting)
    watches.waiting.clear()
    for entry in waiting:
        watch = msgspec.convert(entry, Watch)
        watches.set(known.get(watch.key, watch))


async def _next(commands: asyncio.StreamReader) -> dict[str, Any] | None:
    line = await commands.readline()
    if not line.endswith(b"\n"):
        return None
    command: dict[str, Any] = msgspec.json.decode(line)
    return command


def _say(what: dict[str, Any]) -> None:
    """The line is with the kernel. Blocks while the parent does not read, which it always does while it
    lives."""
    line = msgspec.json.encode(what) + b"\n"
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(1, line) :]


if __name__ == "__main__":
    sys.exit(main())
