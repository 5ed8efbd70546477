"""A command run as near to a container as any machine allows: with an image's environment and nothing of this
one's, in an empty folder, without a home, and without one byte to be written into a file.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_SECONDS, eventually

LARGEST_OUTPUT_BYTES = 16 * 1024 * 1024


SOFT_FILES = 1024
"""What newer container runtimes allow a process to have open, until it asks for more."""


def _limit() -> None:
    """Whatever is written to a regular file from now on, in any language, is an error. A pipe is none."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_FILES, hard))


class Contained:
    """`async with` runs it; at the end nothing of its process group is left."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        """`command` is looked up in the PATH of `environment`, all that it gets; it stands in `folder`."""
        self.command = list(command)
        self.environment = dict(environment)
        self._folder = folder
        self._output = bytearray()

    async def __aenter__(self) -> Self:
        self._process = await self._start(self.command)
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reader
        if kind is not None:
            print(f"----- {' '.join(self.command)}\n{self.output}")  # noqa: T201  # shown where the test fails

    @property
    def output(self) -> str:
        """All that it said so far."""
        return self._output.decode(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    async def says(self, text: str) -> str:
        """Its output, once `text` is in it."""
        await eventually(lambda: text in self.output, f"{self.command[0]} says {text!r}", timeout=60)
        return self.output

    async def check(self, command: Sequence[str]) -> int:
        """The exit status of another command beside it, as an image's HEALTHCHECK is run."""
        process = await self._start(command)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.communicate()
        return int(process.returncode or 0)

    async def stop(self) -> int:
        """The exit status after SIGTERM to the process alone, as a container's first one gets it."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            return await self._process.wait()

    async def _start(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        program, *arguments = command
        places = self.environment["PATH"].split(":")
        found = next(path for place in places if (path := Path(place, program)).exists())
        return await asyncio.create_subprocess_exec(
            found,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.environment,
            cwd=self._folder,
            start_new_session=True,
            preexec_fn=_limit,
        )

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while piece := await self._process.stdout.read(65536):
            self._output += piece
            assert len(self._output) < LARGEST_OUTPUT_BYTES
