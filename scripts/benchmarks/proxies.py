"""How each proxy of the comparison is started on a free port in front of the backend, and stopped again."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scripts.benchmarks.accounting import ProcessTree, pinned
from scripts.benchmarks.load import ReplyMissing, echo_once, until

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class ProxyFailed(Exception):
    """A proxy did not start, or ended while it was measured; the text ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run for one proxy."""

    arguments: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that has carried a first message."""

    url: str
    """Where its sessions open."""
    port: int
    tree: ProcessTree


NAMES = ("gateway", "gateway-streaming", "baseline", "haproxy", "nginx", "direct", "baseline-legacy")
"""In the order of a round. `gateway` carries sessions without looking into them, `gateway-streaming` is ready
to resume them. `direct` is no proxy: what load and backend cost by themselves.
"""

ON_REQUEST = frozenset(("baseline-legacy",))
"""Measured only where `--only` names them."""


def installed(name: str) -> bool:
    """HAProxy and nginx take part only where they are found on PATH."""
    return name not in ("haproxy", "nginx") or shutil.which(name) is not None


def _command(name: str, port: int, backends: Sequence[int], directory: Path) -> Command:
    match name:
        case "gateway" | "gateway-streaming":
            protocol = "streaming" if name == "gateway-streaming" else "passthrough"
            replicas = [{"url": f"http://127.0.0.1:{backend}"} for backend in backends]
            return Command(
                [str(BIN / "granian"), "gateway.app:app"],
                {
                    "GRANIAN_HOST": "127.0.0.1",
                    "GRANIAN_PORT": str(port),
                    "GATEWAY_ROUTER__REPLICAS": json.dumps(replicas),
                    "GATEWAY_SESSION__PROTOCOL": protocol,
                    "GATEWAY_ADMISSION__MAX_SESSIONS": "100000",
                },
            )
        case "baseline" | "baseline-legacy":
            protocol = "websockets" if name == "baseline-legacy" else "auto"
            root = str(HERE.parent.parent)
            uvicorn = [str(BIN / "uvicorn"), "scripts.benchmarks.baseline:app", "--app-dir", root]
            listen = ["--host", "127.0.0.1", "--port", str(port), "--loop", "uvloop", "--ws", protocol]
            return Command(
                [*uvicorn, *listen, "--log-level", "warning"],
                {"BASELINE_BACKEND": f"ws://127.0.0.1:{backends[0]}"},
            )
        case "haproxy":
            return Command(
                ["haproxy", "-db", "-f", str(_filled("haproxy.cfg", port, backends[0], directory))]
            )
        case "nginx":
            config = _filled("nginx.conf", port, backends[0], directory)
            return Command(["nginx", "-p", str(directory), "-e", "stderr", "-c", str(config)])
        case _:
            raise ValueError(f"no proxy is called {name}")


def _filled(template: str, port: int, backend: int, directory: Path) -> Path:
    text = (HERE / template).read_text()
    target = directory / template
    target.write_text(text.replace("@PORT@", str(port)).replace("@BACKEND_PORT@", str(backend)))
    return target


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _start(command: Command, cores: frozenset[int], directory: Path, log: Path) -> subprocess.Popen[bytes]:
    ours = ("GATEWAY_", "GRANIAN_", "BASELINE_")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    with pinned(cores), log.open("wb") as output:
        return subprocess.Popen(
            command.arguments,
            cwd=directory,
            env=inherited | command.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


async def _stop(process: subprocess.Popen[bytes], tree: ProcessTree) -> None:
    """SIGTERM to the process that was started; what is left of its tree at the deadline is killed by pid."""
    try:
        everyone = tree.processes()
    except psutil.NoSuchProcess:
        everyone = []
    if process.poll() is None:
        process.terminate()
    with suppress(ReplyMissing):
        await until(lambda: process.poll() is not None, STOP_SECONDS)
    for member in everyone:
        if member.is_running():
            with suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait(timeout=5)


async def _ready(process: subprocess.Popen[bytes], name: str, url: str, log: Path) -> None:
    """Returns when a message has come back through the proxy."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise ProxyFailed(f"{name} ended with status {process.returncode} at start\n{_tail(log)}")
        try:
            await echo_once(url)
        except (OSError, ReplyMissing) as error:
            if time.monotonic() > deadline:
                raise ProxyFailed(
                    f"{name} carries no message {START_SECONDS:.0f} s after its start ({error})\n{_tail(log)}"
                ) from error
            await asyncio.sleep(0.1)
        else:
            return


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


@asynccontextmanager
async def running(
    name: str, backends: Sequence[int], cores: frozenset[int], *, path: str, logs: Path
) -> AsyncIterator[Running]:
    """A fresh process of the named proxy in front of the backends, on these cores, while the block runs."""
    if name == "direct":
        yield Running(f"ws://127.0.0.1:{backends[0]}{path}", backends[0], ProcessTree(os.getpid()))
        return
    port = free_port()
    url = f"ws://127.0.0.1:{port}{path}"
    log = logs / f"{name}.log"
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        command = _command(name, port, backends, Path(directory))
        process = _start(command, cores, Path(directory), log)
        tree = ProcessTree(process.pid)
        try:
            await _ready(process, name, url, log)
            yield Running(url, port, tree)
            if process.poll() is not None:
                raise ProxyFailed(
                    f"{name} ended with status {process.returncode} while it was measured\n{_tail(log)}"
                )
        finally:
            await _stop(process, tree)
