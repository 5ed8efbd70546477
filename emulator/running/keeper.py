"""Runs the command that it is given until it is told to end it, and then leaves nothing of what that started.

A script of its own and without imports from here, so that it starts in a moment: `python -I -S keeper.py
GRACE_SECONDS COMMAND...`. On standard input it is told what to do: a line with a number is a signal for the
command; the end, which comes too when whoever started it is gone, means that all has to end: SIGTERM for the
command, and once that has ended, or after the grace, SIGKILL for whatever is left. On standard output it
tells `started PID` and `ended STATUS`. All that the command writes goes to what is standard error here.

On Linux whoever loses its parent below this process becomes its child, whatever session or group it has made
for itself. Elsewhere what is in the command's process group is found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
"""The exit status of a shell for what cannot be run."""
READ_BYTES = 4096


def main(grace_seconds: float, command: list[str]) -> int:
    """All of the command is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    waking = _wakes_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    keeper = Keeper(_started(command), grace_seconds)
    keeper.tell(f"started {keeper.pid}")
    keeper.keep(waking)
    keeper.kill_all()
    return 0


class Keeper:
    """The command's process, and all that came of it."""

    def __init__(self, pid: int, grace_seconds: float) -> None:
        self.pid = pid
        self._grace = grace_seconds
        self._lives = True
        self._told = b""
        self._deadline: float | None = None

    def keep(self, waking: int) -> None:
        """Return when the rest may be killed. What can be read at `waking` are the signals that came."""
        while self._deadline is None or (self._lives and time.monotonic() < self._deadline):
            rest = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            sources = [waking, 0] if self._deadline is None else [waking]
            ready, _, _ = select.select(sources, [], [], rest)
            if waking in ready and {signal.SIGTERM, signal.SIGINT} & {*os.read(waking, READ_BYTES)}:
                self._end()
            self._reap(os.WNOHANG)
            if 0 in ready:
                self._hear(os.read(0, READ_BYTES))

    def kill_all(self) -> None:
        """No child is left, and so nothing below: the children of a dead one are children of this process."""
        while True:
            for child in self._children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            if not self._reap(0):
                return

    def tell(self, line: str) -> None:
        """Whoever started this process knows, if it is still there."""
        with contextlib.suppress(OSError):
            os.write(1, f"{line}\n".encode())

    def _hear(self, read: bytes) -> None:
        *lines, self._told = (self._told + read).split(b"\n")
        for line in lines:
            self._signal(int(line))
        if not read:
            self._end()

    def _end(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        # The number is the command's own until it has been reaped, which nobody but this process does.
        if self._lives:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def _reap(self, flags: int) -> bool:
        """Whether there is any child. Those that have ended are forgotten: one at least, without WNOHANG."""
        while True:
            try:
                pid, status = os.waitpid(-1, flags)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self._lives = False
                self.tell(f"ended {os.waitstatus_to_exitcode(status)}")
            flags = os.WNOHANG

    def _children(self) -> Iterator[int]:
        if sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            return
        own = str(os.getpid()).encode()
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    # pid (name, which may have any character in it) state parent ...
                    if file.read().rpartition(b")")[2].split()[1] == own:
                        yield int(name)


def _wakes_on(*numbers: signal.Signals) -> int:
    """Where these signals can be read, one byte each."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading


def _started(command: list[str]) -> int:
    """The pid of the command."""
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(command, keeper)
        finally:
            os._exit(NOT_FOUND)
    return pid


def _become(command: list[str], keeper: int) -> None:
    """Returns only when the command cannot be run."""
    signal.set_wakeup_fd(-1)
    # Whoever was started in the background of a shell ignores SIGINT; Python ignores the last two.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if sys.platform == "linux":
        # Should the keeper be killed, the command at least is told to end.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != keeper:
            return
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        os.write(2, f"{command[0]}: {problem.strerror}\n".encode())


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
