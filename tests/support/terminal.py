"""A command in a pseudo terminal: what a person sees, as characters on a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import ROOT, clean_environment
from tests.support.waiting import PATIENCE_SECONDS

ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
"""The alternate screen, on which a full-screen program draws."""
HIDES, SHOWS = b"\x1b[?25l", b"\x1b[?25h"
"""The cursor."""
_CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A started command whose terminal this is; leaving the context ends it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 100,
        lines: int = 30,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        self._popen = subprocess.Popen(
            [str(part) for part in command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env=clean_environment({"TERM": "xterm-256color", **(env or {})}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                got = os.read(self._master, 65536)
            except OSError:
                # EIO: the last process of the terminal has gone.
                return
            if not got:
                return
            self._written += got

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def written(self) -> bytes:
        """All that came out of it."""
        return bytes(self._written)

    @property
    def picture(self) -> str:
        """The last picture on the alternate screen, as far as it has come, without colours."""
        _, entered, drawn = self.written.rpartition(ENTERS)
        frames = drawn.partition(LEAVES)[0].split(b"\x1b[H") if entered else [b""]
        return _CONTROLS.sub(b"", frames[-1]).decode(errors="replace").replace("\r", "")

    @property
    def text(self) -> str:
        """All of it without control sequences."""
        return _CONTROLS.sub(b"", self.written).decode(errors="replace").replace("\r", "")

    def resize(self, columns: int, lines: int) -> None:
        """The window has another size; the command is told by SIGWINCH."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """Somebody types this."""
        os.write(self._master, keys)

    def until(self, condition: Callable[[], object], what: str, *, timeout: float = PATIENCE_SECONDS) -> None:
        """Return once `condition()` holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what}\n{self.text[-4000:]}")
            time.sleep(0.02)

    def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        """The exit status, with everything read that was written."""
        status = self._popen.wait(timeout)
        self._reader.join(timeout)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._popen.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._popen.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        os.close(self._master)
