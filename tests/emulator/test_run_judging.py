"""A gateway that spoils what passes is told so by `python -m emulator run`, each in words of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.processes import BIN, ROOT, clean_environment

BRIDGE = f"{sys.executable} -m tests.support.bridge_gateway"
DRIVEN = """\
replicas: {count: 1}
deadline: 10s
sessions: [{name: s, prompts: 2}]
expect: {sessions: {s: {segments: all, media: undisturbed, close: 1000, errors: none, gaps: none}}}
"""
CLOSED = """\
replicas: {count: 1, faults: {close: {point: segment_end, code: 4001, reason: out of credit}}}
deadline: 10s
sessions: [{name: s, prompts: 2}]
expect: {sessions: {s: {close: {code: 4001, reason: out of credit, by: gateway}}}}
"""


async def verdict(folder: Path, scenario: str, how: str) -> tuple[int | None, str]:
    """The exit status, and what was said."""
    path = folder / "judged.yaml"
    path.write_text(scenario)
    process = await asyncio.create_subprocess_exec(
        *(str(BIN / "python"), "-m", "emulator", "run", str(path), "--start-gateway", f"{BRIDGE} {how}"),
        cwd=folder,
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(50):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, said.decode()


@pytest.mark.parametrize("scenario", [DRIVEN, CLOSED], ids=["driven", "closed"])
async def test_a_bridge_that_passes_all_as_it_is_passes(tmp_path: Path, scenario: str) -> None:
    status, said = await verdict(tmp_path, scenario, "honest")
    assert (status, said.partition(" ")[0]) == (0, "PASS"), said


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("flip", "the media of segment 0, 1 differs from that of an undisturbed session"),
        ("drop", "not as the protocol has it: 2 chunks of 3"),
        ("twice", "not as the protocol has it: 4 chunks of 3"),
        ("swap", "the media of segment 0 differs from that of an undisturbed session"),
        ("mute", "0 segments of 2 complete"),
        ("renumber", "not as the protocol has it: segment 1 starts, 0 are complete"),
        ("extra", "errors: internal_error (1), expected none"),
    ],
)
async def test_what_is_spoilt_is_named(tmp_path: Path, how: str, words: str) -> None:
    status, said = await verdict(tmp_path, DRIVEN, how)
    assert status == 1, said
    assert f"session s: {words}" in said


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("abrupt", "no close frame (1006) by the gateway, expected close 4001 'out of credit'"),
        ("recode", "close 1001 'out of credit' by the gateway, expected close 4001 'out of credit'"),
    ],
)
async def test_a_close_that_is_another_one_is_named(tmp_path: Path, how: str, words: str) -> None:
    status, said = await verdict(tmp_path, CLOSED, how)
    assert status == 1, said
    assert f"session s: {words}" in said
