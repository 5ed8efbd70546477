"""Real commands under test: each in a process group of its own, its output in a file, stopped by pid."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
"""Where the virtual environment's commands are."""
TIED = Path(__file__).with_name("tied.py")

_OURS = ("GATEWAY_", "GRANIAN_", "EMULATOR_", "STREAMHOLD_")
_HOSTS = (
    "AWS_",
    "K_SERVICE",
    "FUNCTION",
    "CLOUD_RUN",
    "GAE_",
    "VERCEL",
    "CONTAINER_APP",
    "KUBERNETES_",
    "FLY_",
    "MODAL_",
)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without anything that configures the programs or looks like a cloud host."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS + _HOSTS)}
    return kept | {"PYTHONUNBUFFERED": "1"} | dict(extra or {})


class RunningProcess:
    """One started command. As a context manager it leaves no process of its group behind."""

    shows_log_on_failure = True
    """Whether leaving the context by an exception prints what the process wrote."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        tied: bool = False,
    ) -> None:
        """Start `command` with `clean_environment(env)`; stdout and stderr go to `log`, in their order. One
        that is `tied` gets SIGTERM when this process is gone, even if that was killed.
        """
        self.command = [str(part) for part in command]
        tie = [sys.executable, "-I", "-S", str(TIED), str(os.getpid())] if tied else []
        self.log = log
        self.started_at = time.monotonic()
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                [*tie, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment(env),
                cwd=cwd or log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for death by a signal."""
        return self._popen.poll()

    def output(self) -> str:
        """All that it wrote so far."""
        return self.log.read_text(errors="replace")

    def failure(self, what: str) -> AssertionError:
        """`what`, with the exit status and the end of the output."""
        status = "still running" if self.returncode is None else f"exit status {self.returncode}"
        tail = self.output()[-6000:]
        return AssertionError(f"{what}\n$ {' '.join(self.command)}   ({status})\n{tail}")

    async def until(
        self, condition: Callable[[], object], what: str, *, timeout: float = PATIENCE_SECONDS
    ) -> None:
        """Return once `condition()` is true; fail with the output when the process ends or time is up."""
        deadline = time.monotonic() + timeout
        while not condition():
            if self.returncode is not None and not condition():
                raise self.failure(f"ended before: {what}")
            if time.monotonic() > deadline:
                raise self.failure(f"not within {timeout:g} s: {what}")
            await asyncio.sleep(0.02)

    async def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        """The exit status, once it ended by itself."""
        deadline = time.monotonic() + timeout
        while (status := self.returncode) is None:
            if time.monotonic() > deadline:
                raise self.failure(f"did not end within {timeout:g} s")
            await asyncio.sleep(0.02)
        return status

    def send_signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Signal the process alone, or its whole group as a terminal's Ctrl-C does."""
        if group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def tree(self) -> list[psutil.Process]:
        """The process and everything that it started, alive now."""
        try:
            top = psutil.Process(self.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def memory_bytes(self) -> int:
        """Memory that only this tree holds: pages shared with other processes are left out."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().uss
        return total

    def open_sockets(self) -> int:
        """TCP connections of the tree that are established, listeners left out."""
        count = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                count += sum(1 for c in process.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED)
        return count

    def open_files(self) -> int:
        """File descriptors that the tree holds, sockets included."""
        count = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                count += process.num_fds()
        return count

    async def stop(self, *, timeout: float = 10) -> int | None:
        """End it: SIGTERM, then SIGKILL for whatever of its group is left. Safe to call again."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.send_signal(signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                await self.wait(timeout)
        self.kill_group()
        return await self.wait(10)

    def kill_group(self) -> None:
        """SIGKILL whatever of the group is left; for a way out on which nothing can be awaited."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # A group outlives its leader when a worker hangs; its number stays taken while a member lives.
            os.killpg(self.pid, signal.SIGKILL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(timeout=10 if kind is None else 1)
        if kind is not None and self.shows_log_on_failure:
            sys.stdout.write(
                f"\n----- {' '.join(self.command)} ({self.returncode})\n{self.output()[-12000:]}\n"
            )
