"""The try on moto that docs/infra.md shows, from its first command to its last."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from infra.cli import main
from tests.support.ports import free_port
from tests.support.processes import ROOT, RunningProcess
from tests.support.waiting import eventually

SECTION = (ROOT / "docs" / "infra.md").read_text().partition("## A try without AWS")[2].partition("\n## ")[0]


async def test_a_try_goes_from_its_plan_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serves, uses = re.findall(r"^```sh\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    exports, *commands = uses.splitlines()
    port, file = str(free_port()), tmp_path / "moto.yaml"
    for word in shlex.split(exports)[1:]:
        name, _, value = word.partition("=")
        monkeypatch.setenv(name, value.replace("5000", port))
    server = [sys.executable, *shlex.split(serves, comments=True)[1:3], str(file), "--port", port]
    async with RunningProcess(server, log=tmp_path / "moto.log", cwd=ROOT) as moto:
        await eventually(lambda: "Ctrl-C ends it" in moto.output(), "moto serves")
        told = {}
        for command in commands:
            words = shlex.split(command.replace("moto.yaml", str(file)), comments=True)
            assert words[:3] == ["python", "-m", "infra"]
            agrees = ["--yes"] if words[3] == "destroy" else []
            status = main([*words[3:], *agrees, "--every", "0.1"])
            out, err = capsys.readouterr()
            assert status == 0, f"{command}: {out}{err}"
            told[words[3]] = out
    assert "streamhold-service: would be created" in told["plan"]
    assert "all is well" in told["status"]
    assert "streamhold-service: updated" in told["deploy"]
    assert "streamhold-data: deleted" in told["destroy"]
