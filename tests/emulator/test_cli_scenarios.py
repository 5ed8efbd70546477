"""`validate` and `list`, as people call them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.scenario.reading import SHIPPED, files_in
from tests.support.processes import ROOT


def test_what_is_right_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("timeline: [{at: 1s, kill: a}]\nexpect: {replicas: {a: {saw: {port_closed: 1}}}}\n")
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: mine: right\n"


@pytest.mark.parametrize("expect", ["", "expect: {sessions: {s: {}}, replicas: {a: {together: true}}}\n"])
def test_one_that_expects_nothing_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expect: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"sessions: [{{}}]\n{expect}")
    assert main(["validate", str(file)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{file}: mine: right"
    assert second.startswith(
        f"{file}: note: it expects nothing: whatever its sessions and replicas see, it passes"
    )


def test_what_a_terminal_would_obey_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a\x1b[2J.yaml").write_text(
        'description: "\\e[31mred"\nexpect: {status: {replicas: {a: healthy}}}\n'
    )
    (tmp_path / "b.yaml").write_text('"\\e[2J": 1\nsessions: [{"x\\r": !<tag:%1b> 1}]\n')
    assert main(["validate", str(tmp_path)]) == 2
    assert main(["list", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert all(character.isprintable() for character in (told.out + told.err).replace("\n", ""))
    assert "\\x1b[31mred" in told.out
    assert "\\x1b[2J" in told.out
    assert "b.yaml:1:1: \\x1b[2J: is not a key here" in told.err


def test_one_that_comes_along_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "kill", "abort.yaml"]) == 0
    assert (
        capsys.readouterr().out
        == f"{SHIPPED / 'kill.yaml'}: kill: right\n{SHIPPED / 'abort.yaml'}: abort: right\n"
    )
    # One that is there comes first, and one that is nowhere is guessed.
    (tmp_path / "kill.yaml").write_text("sessions: [{}]\nexpect: {sessions: {s: {segments: all}}}\n")
    assert main(["validate", "kill", "kill.yaml"]) == 0
    assert capsys.readouterr().out == "kill.yaml: kill: right\n" * 2
    assert main(["validate", "kil", "./kil", "abrt.yaml", "nothing-like-it"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "kil: there is no such file; did you mean kill?",
        "kil: there is no such file; did you mean kill?",
        "abrt.yaml: there is no such file; did you mean abort?",
        "nothing-like-it: there is no such file",
    ]


def test_every_problem_of_every_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("seed: x\nlasts: y\n")
    (tmp_path / "b.yaml").write_text("timeline: [{at: 1s, kill: d}]\n")
    (tmp_path / "c.yaml").write_text("expect: {status: {replicas: {a: healthy}}}\n")
    assert main(["validate", str(tmp_path), str(tmp_path / "d.yaml")]) == 2
    told = capsys.readouterr()
    assert told.out == f"{tmp_path}/c.yaml: c: right\n"
    assert [line.removeprefix(f"{tmp_path}/") for line in told.err.splitlines()] == [
        "a.yaml:1:7: seed: should be a whole number, not 'x'",
        "a.yaml:2:8: lasts: should be a duration such as 2s, 300ms or 1m, or a number of seconds, not 'y'",
        "b.yaml:1:27: timeline[0].kill: there is no replica d; there are: a, b, c",
        "d.yaml: there is no such file",
    ]


def test_a_directory_without_scenarios_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(tmp_path)]) == 2
    assert main(["list", str(tmp_path)]) == 2
    assert "no scenario file there" in capsys.readouterr().err


def test_without_a_file_it_tells_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validate"])
    assert ended.value.code == 2
    assert "name a scenario file" in capsys.readouterr().err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--schema"]) == 0
    assert "timeline" in json.loads(capsys.readouterr().out)["properties"]


def test_the_scenarios_that_come_along_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [file.stem for file in files_in([SHIPPED])]
    assert all(len(line.split()) > 4 for line in lines), "name, needs and a description"


def test_a_broken_scenario_is_told_of_beside_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("description: One.\ngateway: {needs: [queue]}\n")
    (tmp_path / "b.yaml").write_text("seed: x\n")
    assert main(["list", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == "a  queue  One.\n"
    assert "b.yaml:1:7: seed" in told.err


def test_what_is_no_command_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rn", "kill\x1b"]) == 2
    assert main(["kill\x1b"]) == 2
    assert capsys.readouterr().err == (
        "emulator: there is no command rn; did you mean run?; there are: serve, run, validate, list\n"
        "emulator: there is no command kill\\x1b; there are: serve, run, validate, list\n"
    )


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m emulator validate --schema | head -n 1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert (ended.stdout, ended.stderr) == ("{\n", "")
