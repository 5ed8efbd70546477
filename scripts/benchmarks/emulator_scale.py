"""python -m scripts.benchmarks.emulator_scale: what many replicas with resting sessions cost an emulator."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from emulator.limits import SPARE_FILES, TooFewFiles, make_room
from scripts.benchmarks.idle_sessions import Broken, IdleSessions

START_SECONDS = 60.0
STOP_SECONDS = 30.0
KIB = 1024.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    replicas: int
    sessions: int
    start_seconds: float
    """From the command to the file that says that all replicas run, the interpreter's own start included."""
    one_replica_mib: float
    """Memory of an emulator of one replica."""
    kib_per_replica: float
    """What each further one adds."""
    open_seconds: float
    """Until every session had its stream, the client's own work on the same machine included."""
    kib_per_session: float
    total_mib: float
    """With all replicas and sessions."""
    idle_percent: float
    """Of a core, over `idle_seconds` of rest, pings and pongs included."""
    idle_seconds: float
    pings_answered: int
    stop_seconds: float
    """From SIGTERM to the end of the process, with all sessions open."""


class Started:
    """An emulator that runs."""

    def __init__(self, running: asyncio.subprocess.Process, ports: Sequence[int], seconds: float) -> None:
        self._running = running
        self.ports = ports
        self.start_seconds = seconds
        self._process = psutil.Process(running.pid)

    def memory_bytes(self) -> int:
        """Pages of its own, those shared with other processes left out."""
        return int(self._process.memory_full_info().uss)

    def cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    async def stop(self) -> float:
        """The seconds that an orderly end took."""
        before = time.monotonic()
        self._running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            code = await self._running.wait()
        if code != 0:
            raise Broken(f"the emulator ended with {code}")
        return time.monotonic() - before


@contextlib.asynccontextmanager
async def emulator(replicas: int) -> AsyncIterator[Started]:
    """One on free ports; killed at the end if it still runs."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        options = ["--port", "0", "--control-port", "0", "--json", "--ready-file", str(ready)]
        began = time.monotonic()
        command = [sys.executable, "-m", "emulator", "--replicas", str(replicas), *options]
        running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        try:
            while not ready.exists():
                if running.returncode is not None:
                    raise Broken(f"the emulator ended with {running.returncode}")
                if time.monotonic() - began > START_SECONDS:
                    raise Broken(f"the emulator was not ready within {START_SECONDS:g} s")
                await asyncio.sleep(0.01)
            ports = [entry["port"] for entry in json.loads(ready.read_text())["replicas"]]
            yield Started(running, ports, time.monotonic() - began)
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()


async def measure(replicas: int, each: int, idle_seconds: float) -> Figures:
    """The figures of that many replicas with `each` sessions. Raises Broken."""
    async with emulator(1) as small:
        one = small.memory_bytes()
        await small.stop()
    async with emulator(replicas) as large:
        empty = large.memory_bytes()
        began = time.monotonic()
        async with IdleSessions(large.ports, each) as sessions:
            opened, full = time.monotonic() - began, large.memory_bytes()
            before = large.cpu_seconds()
            await asyncio.sleep(idle_seconds)
            idle = large.cpu_seconds() - before
            if sessions.problems:
                raise Broken(f"{len(sessions.problems)} sessions did not rest: {sessions.problems[0]}")
            count, pongs = len(sessions), sessions.pongs
            stopped = await large.stop()
    return Figures(
        replicas=replicas,
        sessions=count,
        start_seconds=large.start_seconds,
        one_replica_mib=one / KIB**2,
        kib_per_replica=(empty - one) / KIB / max(1, replicas - 1),
        open_seconds=opened,
        kib_per_session=(full - empty) / KIB / max(1, count),
        total_mib=full / KIB**2,
        idle_percent=100 * idle / idle_seconds if idle_seconds else 0.0,
        idle_seconds=idle_seconds,
        pings_answered=pongs,
        stop_seconds=stopped,
    )


def table(figures: Figures) -> str:
    """The figures for people."""
    rows = (
        ("start, until all replicas run (s)", f"{figures.start_seconds:.2f}"),
        ("memory with one replica (MiB)", f"{figures.one_replica_mib:.1f}"),
        ("memory a further replica (KiB)", f"{figures.kib_per_replica:.1f}"),
        ("memory a resting session (KiB)", f"{figures.kib_per_session:.1f}"),
        ("memory with all of it (MiB)", f"{figures.total_mib:.1f}"),
        ("opening all sessions (s)", f"{figures.open_seconds:.2f}"),
        (f"CPU at rest, over {figures.idle_seconds:g} s (% of a core)", f"{figures.idle_percent:.2f}"),
        ("pings answered meanwhile", str(figures.pings_answered)),
        ("stop, all sessions told (s)", f"{figures.stop_seconds:.2f}"),
    )
    title = f"{figures.replicas} replicas, {figures.sessions} sessions"
    width = max(len(title), *(len(name) for name, _ in rows))
    lines = [f"| {title:<{width}} | {'':>8} |", f"|{'-' * (width + 2)}|{'-' * 9}:|"]
    return "\n".join([*lines, *(f"| {name:<{width}} | {value:>8} |" for name, value in rows)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 when something broke."""
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmarks.emulator_scale", description=__doc__)
    parser.add_argument("--replicas", type=int, default=500, metavar="N")
    parser.add_argument("--each", type=int, default=4, metavar="N", help="sessions a replica (4)")
    parser.add_argument("--idle-seconds", type=float, default=45.0, metavar="S", help="of rest (45)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    options = parser.parse_args(arguments)
    try:
        make_room(options.replicas * options.each + SPARE_FILES)
        figures = asyncio.run(measure(options.replicas, options.each, options.idle_seconds))
    except (Broken, TooFewFiles) as problem:
        print(f"emulator_scale: {problem}", file=sys.stderr)
        return 1
    print(table(figures))
    print(f"CPython {sys.version.split()[0]}, {os.cpu_count()} cores")
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(figures), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
