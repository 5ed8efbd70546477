"""A replica in a process of its own, seen from the parent: SIGKILL and SIGSTOP are real.

Parent and child talk in JSON lines over the child's stdin and stdout. The parent's board of faults is the
master; the child gets a copy and reports what struck. The child dies with the parent (see replica_process).
Only a child that was started here is ever signalled, through its own handle.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from emulator.faults import Kill, Pause, Poison, Restart, fault_from, fields_of
from emulator.replica.board import Board
from emulator.replica.body import Body, ChildFailed
from emulator.replica.premises import Premises

START_SECONDS = 30.0
SETTLE_SECONDS = 5.0
STOP_SECONDS = 5.0
LINE_LIMIT_BYTES = 1024 * 1024

logger = logging.getLogger("emulator")


def board_as_json(board: Board) -> list[dict[str, Any]]:
    """The faults that stand, with their ages: monotonic time is one for all processes of a machine."""
    return [
        {"name": name, "fields": fields_of(entry.fault), "armed_at": entry.armed_at, "struck": entry.struck}
        for name, entry in board.armed.items()
    ]


class ProcessBody:
    """One life of a replica as a child process."""

    def __init__(
        self, premises: Premises, tasks: asyncio.TaskGroup, on_death: Callable[[Body], None]
    ) -> None:
        """`on_death` is called when the process ends without having been told to."""
        self._on_death = on_death
        self._premises = premises
        self._tasks = tasks
        self._process: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Event] = {}
        self._numbers = itertools.count(1)
        self._ready = asyncio.Event()
        self._paused = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "emulator.replica.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT_BYTES,
            # A terminal's Ctrl-C is for the parent, which stops its children in order.
            start_new_session=True,
        )
        self._listener = self._tasks.create_task(self._listen(self._process))
        self._tell(
            {
                "do": "start",
                "spec": msgspec.to_builtins(self._premises.spec),
                "faults": board_as_json(self._premises.board),
                "counters": msgspec.to_builtins(self._premises.counters),
                "watches": msgspec.to_builtins(list(self._premises.watches.waiting.values())),
            }
        )
        try:
            await self._wait_until_ready()
        except BaseException:
            await self.kill()
            raise

    async def _wait_until_ready(self) -> None:
        assert self._listener is not None
        async with asyncio.timeout(START_SECONDS), asyncio.TaskGroup() as group:
            ready = group.create_task(self._ready.wait())
            await asyncio.wait({ready, self._listener}, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
        if not self._ready.is_set():
            raise ChildFailed(f"the process of replica {self._premises.spec.name} ended before it was ready")

    def faults_changed(self) -> None:
        self._tell({"do": "faults", "faults": board_as_json(self._premises.board)})

    async def settle(self) -> None:
        if self._paused:
            return
        number = next(self._numbers)
        answered = self._answers[number] = asyncio.Event()
        self._tell({"do": "settle", "number": number})
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                await answered.wait()
        except TimeoutError:
            logger.warning("replica %s: its process does not answer", self._premises.spec.name)
        finally:
            del self._answers[number]

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self._buried()

    async def stop(self) -> None:
        self.resume()
        self._tell({"do": "stop"})
        if self._process is not None:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                logger.warning("replica %s: its process did not stop, killed", self._premises.spec.name)
        await self.kill()

    def pause(self) -> None:
        self._paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._paused = False
        self._signal(signal.SIGCONT)

    def watches_changed(self) -> None:
        watches = msgspec.to_builtins(list(self._premises.watches.waiting.values()))
        self._tell({"do": "watches", "watches": watches})

    def release(self, key: int) -> None:
        self._tell({"do": "release", "key": key})

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            # Not the process's own `send_signal`: that polls, and may take the exit status away from asyncio.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _buried(self) -> None:
        """The process is gone and everything it said has been heard."""
        if self._process is not None:
            await self._process.wait()
        if self._listener is not None:
            await asyncio.wait({self._listener})
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _tell(self, command: dict[str, Any]) -> None:
        """Small lines to a child that reads them, or one that is paused for a while: no waiting."""
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            try:
                said: dict[str, Any] = msgspec.json.decode(line)
            except msgspec.DecodeError:
                # The last words of a killed process may be half a line.
                continue
            self._hear(said)
        self._premises.counters.sessions = 0
        if self._ready.is_set():
            self._on_death(self)

    def _hear(self, said: dict[str, Any]) -> None:
        self._count(said)
        if "event" in said:
            event = said["event"]
            if event["kind"] == "point_reached":
                self._premises.watches.drop(event["detail"]["watch"])
            self._premises.record(
                event["kind"],
                connection=event["connection"],
                session=event["session"],
                detail=event["detail"],
            )
        if "order" in said:
            self._tasks.create_task(self._obey(said["order"]))
        if "ready" in said:
            self._ready.set()
        if (answered := self._answers.get(said.get("settled", 0))) is not None:
            answered.set()

    def _count(self, said: dict[str, Any]) -> None:
        counters, board, watches = self._premises.counters, self._premises.board, self._premises.watches
        for name, value in said.get("counters", {}).items():
            setattr(counters, name, value)
        for name, struck in said.get("struck", {}).items():
            if name in board.armed:
                board.armed[name].struck = struck
        for key, seen in said.get("watches", {}).items():
            if (watch := watches.waiting.get(int(key))) is not None:
                watch.seen = seen

    async def _obey(self, order: dict[str, Any]) -> None:
        fault = fault_from(order["fault"], order["fields"])
        if isinstance(fault, Kill | Pause | Restart | Poison):
            await self._premises.owner(fault)
        self.release(order["key"])
