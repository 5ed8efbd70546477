"""500 replicas and 2,000 resting sessions in one emulator, as docs/benchmarks.md has it."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from emulator.limits import SPARE_FILES, make_room
from scripts.benchmarks.emulator_scale import measure, table
from tests.support.processes import BIN, RunningProcess

pytestmark = pytest.mark.e2e

REPLICAS, EACH = 500, 4


@pytest.mark.timeout(180)
async def test_many_replicas_with_resting_sessions_take_little_memory() -> None:
    make_room(REPLICAS * EACH + SPARE_FILES)
    figures = await measure(REPLICAS, EACH, idle_seconds=0.0)
    assert figures.sessions == REPLICAS * EACH
    # Three times what was measured: a bound on a leak, or on a buffer a session that nobody meant.
    assert figures.kib_per_session < 110, table(figures)
    assert figures.kib_per_replica < 50, table(figures)
    assert figures.total_mib < 400, table(figures)


class _Limited(RunningProcess):
    """`python -m emulator` under a limit of open files."""

    def __init__(self, folder: Path, hard: int, soft: int, *options: str) -> None:
        code = (
            f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); "
            "import sys; from emulator.cli import main; sys.exit(main(sys.argv[1:]))"
        )
        super().__init__([BIN / "python", "-c", code, *options], log=folder / "limited.log")


async def test_too_few_files_are_told_in_one_line(tmp_path: Path) -> None:
    options = ["--port", "0", "--control-port", "0", "--replicas", "300"]
    async with _Limited(tmp_path, 512, 256, *options) as command:
        assert await command.wait() == 1
        output = command.output()
    assert output.startswith("emulator: ")
    assert "open files are needed and this process may have 512: start fewer replicas" in output
    assert len(output.splitlines()) == 1


async def test_the_soft_limit_is_raised_for_as_many_sessions_as_there_are_places(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    options = ["--port", "0", "--control-port", "0", "--replicas", "100", "--capacity", "10"]
    async with _Limited(tmp_path, hard, 256, *options) as command:
        await command.until(lambda: "\nready\n" in command.output(), "it is ready")
        assert resource.prlimit(command.pid, resource.RLIMIT_NOFILE)[0] > 1000
        command.send_signal(signal.SIGINT)
        assert await command.wait() == 0
