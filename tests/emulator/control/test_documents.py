"""docs/control.md by example: every command and every line of Python runs, against an emulator of its own."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from emulator.control.problems import PROBLEM_CODES
from tests.support.curl import HERE, curl
from tests.support.emulator_process import EmulatorProcess
from tests.support.processes import BIN, ROOT, RunningProcess

PAGE = (ROOT / "docs" / "control.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.e2e
async def test_every_command_works_in_its_order(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path) as emulator:
        async with httpx.AsyncClient(trust_env=False) as plain:
            # Somebody has had a session, and is gone: there is something to wait for.
            await plain.get(
                emulator.urls["a"] + "/v1/stream",
                headers={
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                },
            )
        commands = [line for block in blocks("bash") for line in block.splitlines()]
        assert len(commands) > 10
        for command in commands:
            await curl(command, emulator.control)


@pytest.mark.e2e
async def test_the_lines_of_python_run(tmp_path: Path) -> None:
    (example,) = blocks("python")
    assert example.count(f"http://{HERE}") == 1
    async with EmulatorProcess(tmp_path) as emulator:
        (tmp_path / "example.py").write_text(example.replace(f"http://{HERE}", emulator.control))
        command = [str(BIN / "python"), "example.py"]
        for _ in range(2):  # what the first run saw does not count for the second one
            async with RunningProcess(command, log=tmp_path / "example.log", cwd=tmp_path) as script:
                assert await script.wait() == 0, script.output()
                said = script.output()
        async with emulator.api() as api:
            kills = (await api.events(replica="a", kinds=["state_changed"])).events
        states = [event.detail["after"] for event in kills]
        assert states == ["running", *["killed", "running"] * 4], "each wait saw its own restart"
    assert "not within 1 s: message_sent type='ltx2_segment_start' of session 1 on replica b" in said
    assert "there is no replica 'z'; there are: a, b, c" in said


def test_the_problem_that_is_shown_is_one() -> None:
    (example,) = blocks("json")
    assert re.search(r'"error": "(\w+)"', example)[1] in PROBLEM_CODES  # type: ignore[index]
