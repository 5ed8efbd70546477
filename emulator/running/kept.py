"""A command that runs, and ends with all that it started: by a keeper, a process that does nothing else.

Its end is that of its own process, whoever of its children still has its output open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
KILL_SECONDS = 5.0
"""How long what is killed may take to be gone."""
LAST_WORDS_SECONDS = 0.5
"""How long the output may stay open after everybody who could write to it is gone."""
OUTPUT_BYTES = 64 * 1024
"""What is kept of its output: the end."""
READ_BYTES = 65536


class Kept:
    """A command under its keeper."""

    def __init__(
        self,
        keeper: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        grace_seconds: float,
    ) -> None:
        self.pid: int | None = None
        """Of the command, once it has one."""
        self.returncode: int | None = None
        """Of the command; None while it runs; negative for death by a signal."""
        self.output = bytearray()
        """The end of what it and its children wrote."""
        self._keeper = keeper
        self._reader = output
        self._grace = grace_seconds
        self._ended = asyncio.Event()

    async def until_ended(self) -> None:
        """The command's own process is gone, whatever it has left behind."""
        await self._ended.wait()

    def signal(self, number: signal.Signals) -> None:
        """The command's own process has it, if there is one."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{number.value}\n".encode())

    async def hear(self) -> None:
        """What the keeper says is known, until it ends."""
        assert self._keeper.stdout is not None
        async for line in self._keeper.stdout:
            what, number = line.split()
            if what == b"started":
                self.pid = int(number)
            else:
                # What it wrote before is in the pipe, and is taken by turns of the loop: the pipe is seen, it
                # is read, and whoever listens wakes up.
                for _ in range(3):
                    await asyncio.sleep(0)
                self._note_end(int(number))
        # One that was killed says nothing any more, and has taken the command with it.
        self._note_end(-signal.SIGKILL)

    async def listen(self) -> None:
        """The end of the output is kept, until there is no more."""
        while read := await self._reader.read(READ_BYTES):
            self.output += read
            del self.output[:-OUTPUT_BYTES]

    async def end(self) -> None:
        """Nothing is left of it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        try:
            async with asyncio.timeout(self._grace + KILL_SECONDS):
                await self._keeper.wait()
        except TimeoutError:
            # Not the process's own `kill`: that polls, and may take the exit status away from asyncio.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keeper.pid, signal.SIGKILL)
            await self._keeper.wait()
        await self._ended.wait()

    def _note_end(self, status: int) -> None:
        if self.returncode is None:
            self.returncode = status
            self._ended.set()


@asynccontextmanager
async def kept(
    command: Sequence[str], variables: Mapping[str, str], tasks: asyncio.TaskGroup, *, grace_seconds: float
) -> AsyncIterator[Kept]:
    """The command runs inside, with `variables` as its environment; nothing of it is left after.

    At the end it has SIGTERM and so much grace. `tasks` has those that listen to it.
    """
    reading, writing = os.pipe()
    output = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb", buffering=0)
    )
    try:
        try:
            keeper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(KEEPER), str(grace_seconds), *command),
                env=dict(variables),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=writing,
                # A terminal's Ctrl-C is for the runner, which ends what it started.
                start_new_session=True,
            )
        finally:
            os.close(writing)
        it = Kept(keeper, output, grace_seconds)
        listening = tasks.create_task(it.listen())
        hearing = tasks.create_task(it.hear())
        try:
            yield it
        finally:
            try:
                await it.end()
                await asyncio.wait({listening}, timeout=LAST_WORDS_SECONDS)
            finally:
                listening.cancel()
                hearing.cancel()
    finally:
        transport.close()
