"""The README's first command."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.processes import ROOT, RunningProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(150)
async def test_the_demonstration_holds_and_says_so(tmp_path: Path) -> None:
    async with RunningProcess(["scripts/run"], log=tmp_path / "run.log", cwd=ROOT) as demo:
        assert await demo.wait(120) == 0, demo.output()
        output = demo.output()
        words = " ".join(output.split())  # its lines are wrapped
        for told in (
            "Replica b broke",
            r"(\d) of \1 sessions that were on `a` went on at",
            "their media is identical to an undisturbed run",
            "says that a is unhealthy",
            "healthy again, and serves",
            "All held",
        ):
            assert re.search(told, words), output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demonstration_that_is_stopped_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    here = {"TMPDIR": str(tmp_path)}
    async with RunningProcess(["scripts/run"], log=tmp_path / "run.log", cwd=ROOT, env=here) as demo:
        await demo.until(lambda: "\n1. " in demo.output(), "it has begun", timeout=40)
        started: list[psutil.Process] = demo.tree()
        assert len(started) >= 3, started
        demo.send_signal(number, group=True)
        assert await demo.wait(30) == 130, demo.output()
        await eventually(lambda: not any(_alive(process) for process in started), "all of it is gone")
        assert "Traceback" not in demo.output(), demo.output()
    assert os.listdir(tmp_path) == ["run.log"]


def _alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
