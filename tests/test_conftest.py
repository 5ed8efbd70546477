"""A test run that is told to end leaves no process behind."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.support.processes import BIN, ROOT, RunningProcess
from tests.support.waiting import eventually

TEST = """
import asyncio
from tests.support.processes import RunningProcess

async def test_that_takes_long(tmp_path):
    async with RunningProcess(["sleep", "600"], log=tmp_path / "sleep.log"):
        await asyncio.sleep(600)
"""

IGNORING_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("in_background", [False, True])
async def test_sigterm_stops_what_fixtures_have_started(tmp_path: Path, in_background: bool) -> None:
    (tmp_path / "test_long.py").write_text(TEST)
    command = [str(BIN / "python"), "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += [
        "--rootdir",
        str(tmp_path),
        "-c",
        str(ROOT / "pyproject.toml"),
        str(tmp_path / "test_long.py"),
    ]
    if in_background:  # as a shell starts it
        command = [str(BIN / "python"), "-c", IGNORING_CTRL_C, *command]
    async with RunningProcess(command, log=tmp_path / "run.log", env={"PYTHONPATH": str(ROOT)}) as run:
        started: list[psutil.Process] = []

        async def sleeps() -> bool:
            started[:] = [process for process in run.tree() if process.name() == "sleep"]
            return bool(started)

        await eventually(sleeps, "the test's process runs")
        run.send_signal(signal.SIGTERM)
        assert await run.wait() == pytest.ExitCode.INTERRUPTED, run.output()
        assert not psutil.pid_exists(started[0].pid)
