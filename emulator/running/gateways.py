"""The gateway under test: started for one scenario and stopped after it, or one that runs already.

A started one is a process group of its own, without a shell in between. Its output is kept to its last part,
and shown when it fails. However the scenario ends, it is stopped: SIGTERM to its process, and after that has
ended, or after a while, SIGKILL to whatever it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from emulator.running.kept import Kept, kept
from emulator.scenario import as_variable

HOST = "127.0.0.1"
READY_PATH = "/readyz"
START_SECONDS = 30.0
"""How long a gateway may take until it serves."""
UNREADY_SECONDS = 3.0
"""After this long of other answers than "ready", it serves as well as it can: all replicas may be down."""
ANSWER_SECONDS = 5.0
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
"""Signals that are meant to end a gateway."""
STOP_SECONDS = 15.0
"""From SIGTERM to SIGKILL."""
SHOWN_LINES = 25
OWN_VARIABLES = ("GATEWAY_", "GRANIAN_")
"""Of this process; a fresh gateway is told by the scenario alone."""


class BadCommand(Exception):
    """The command of `--start-gateway` cannot be run; the text says why."""


class GatewayFailed(Exception):
    """The gateway did not start, cannot be reached, or ended before its time; the text ends with its last
    output."""


def parsed(command: str) -> tuple[str, ...]:
    """The words of a command. Raises BadCommand when there are none, or nothing of that name can be run."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as problem:
        raise BadCommand(f"--start-gateway {command!r}: {problem}") from problem
    if not words:
        raise BadCommand("--start-gateway needs a command, as in 'granian gateway.app:app'")
    if shutil.which(words[0], path=_path()) is None:
        raise BadCommand(f"--start-gateway: there is no command {words[0]!r} on PATH")
    return words


def _path() -> str:
    """PATH, with the folder of this Python at its end: what is installed beside it is found."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def environment(
    port: int, replicas: Sequence[Mapping[str, object]], own: Mapping[str, object], *, capacity: int
) -> dict[str, str]:
    """What a started gateway is told. `replicas` are its settings for them (url, name, max_sessions); `own`
    is the scenario's, and wins; `capacity` is how many sessions a replica takes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    return {
        **inherited,
        "PATH": _path(),
        "PYTHONUNBUFFERED": "1",
        "GRANIAN_HOST": HOST,
        "GRANIAN_PORT": str(port),
        "GATEWAY_ROUTER__HOST": HOST,
        "GATEWAY_ROUTER__PORT": str(port),
        "GATEWAY_ROUTER__REPLICAS": json.dumps([dict(replica) for replica in replicas]),
        "GATEWAY_ROUTER__HEALTH_CHECK__INTERVAL_SECONDS": "0.5",
        "REPLICA_URLS": " ".join(str(replica["url"]) for replica in replicas),
        "REPLICA_CAPACITY": str(capacity),
        **{name: as_variable(value) for name, value in own.items()},
    }


class Gateway:
    """Where sessions are opened: a URL, and no process that is known."""

    def __init__(self, url: str) -> None:
        """`url`: http, https, ws or wss, without a path: sessions bring theirs."""
        parts = urlsplit(url)
        secure = parts.scheme in ("https", "wss")
        self.http = f"{'https' if secure else 'http'}://{parts.netloc}"
        self.ws = f"{'wss' if secure else 'ws'}://{parts.netloc}"

    async def until_serving(self, *, patient: bool = True) -> None:
        """It answers, and it says that it is ready if it does so in a while; nobody waits for that unless
        `patient`. Raises GatewayFailed."""
        began = time.monotonic()
        answered_at: float | None = None
        async with _client() as client:
            while True:
                self.check()
                status = await _status(client, self.http + READY_PATH)
                now = time.monotonic()
                if status is not None:
                    answered_at = answered_at or now
                    if not patient or status < 300 or now - answered_at > UNREADY_SECONDS:
                        return
                elif now - began > START_SECONDS:
                    raise self.failure(f"does not answer on {self.http} within {START_SECONDS:g} s")
                await asyncio.sleep(0.05)

    async def get(self, path: str) -> httpx.Response | None:
        """The answer of one route; None without one."""
        async with _client() as client:
            with contextlib.suppress(httpx.HTTPError):
                return await client.get(self.http + path)
        return None

    def check(self) -> None:
        """Raise GatewayFailed when it is known to have ended by itself."""

    def failure(self, what: str) -> GatewayFailed:
        """`what` happened to it, in words."""
        return GatewayFailed(f"the gateway {what}")


class StartedGateway(Gateway):
    """A process of ours."""

    def __init__(self, port: int, command: Sequence[str], process: Kept) -> None:
        super().__init__(f"http://{HOST}:{port}")
        self._command = command
        self._process = process
        self._signalled = False

    @property
    def pid(self) -> int | None:
        """Of its own process; None for a moment at the start."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for death by a signal."""
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        """The process has the signal; after one of ENDING it may end without that being a failure."""
        self._signalled = self._signalled or number in ENDING
        self._process.signal(number)

    @property
    def tail(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self._process.output.decode(errors="replace").splitlines()[-SHOWN_LINES:])

    def check(self) -> None:
        if self.returncode is not None and not self._signalled:
            raise self.failure("ended by itself")

    async def until_ended(self) -> None:
        """Return when its own process is gone."""
        await self._process.until_ended()

    def failure(self, what: str) -> GatewayFailed:
        status = "still running" if self.returncode is None else f"exit status {self.returncode}"
        head = f"the gateway {what} ({shlex.join(self._command)}: {status})"
        said = f"; its last lines:\n{self.tail}" if self.tail else ", without a word"
        return GatewayFailed(head + said)


@asynccontextmanager
async def started(
    command: Sequence[str],
    port: int,
    variables: Mapping[str, str],
    tasks: asyncio.TaskGroup,
    *,
    patient: bool = True,
) -> AsyncIterator[StartedGateway]:
    """A fresh gateway that serves, inside; nothing of it is left after. Raises GatewayFailed.

    `tasks` has those that listen to it.
    """
    async with AsyncExitStack() as stack:
        try:
            keeping = kept(command, variables, tasks, grace_seconds=STOP_SECONDS)
            process = await stack.enter_async_context(keeping)
        except OSError as problem:
            text = f"the gateway cannot be started ({shlex.join(command)}): {problem.strerror}"
            raise GatewayFailed(text) from problem
        gateway = StartedGateway(port, command, process)
        await gateway.until_serving(patient=patient)
        yield gateway


def _client() -> httpx.AsyncClient:
    # Without the certificates: loading them costs more than the request, and one under test has its own.
    return httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False, verify=False)


async def _status(client: httpx.AsyncClient, url: str) -> int | None:
    try:
        return (await client.get(url)).status_code
    except httpx.HTTPError:
        return None
