"""Starting, or refusing to: what is printed, and how the process ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.logs import ROOT
from gateway.settings import load_or_exit, runtime_or_exit, start_or_exit

REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    logger = logging.getLogger(ROOT)
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_each_problem_is_a_line_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = REPLICAS | {"GATEWAY_ROUTER__PORT": "x", "GATEWAY_DRAIN__TIMEOUT_SECONDS": "-1"}
    with pytest.raises(SystemExit) as exited:
        load_or_exit(environ, tmp_path)
    assert exited.value.code == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("gateway: GATEWAY_") for line in lines)


def test_a_key_cannot_move_the_cursor_of_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway.yaml").write_text('"\\e[2Jrouter": 1\n')
    with pytest.raises(SystemExit):
        load_or_exit({}, tmp_path)
    assert "\x1b" not in capsys.readouterr().err


def test_a_serverless_host_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load_or_exit(REPLICAS, tmp_path)
    with pytest.raises(SystemExit) as exited:
        runtime_or_exit(settings, {"AWS_LAMBDA_FUNCTION_NAME": "x"})
    assert exited.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("gateway: runtime mode serverless (AWS_LAMBDA_FUNCTION_NAME is set: AWS Lambda)")
    assert "health loop, WebSocket bridge" in line
    assert "fleet membership" not in line


def test_a_start_logs_each_doubt_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = start_or_exit(REPLICAS | {"FLY_MACHINE_ID": "m"}, tmp_path)
    assert settings.router.replicas[0].url == "http://a:1"
    [line] = capsys.readouterr().err.splitlines()
    assert " warning runtime_doubtful " in line
    assert "FLY_MACHINE_ID" in line


def test_a_start_without_doubt_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_or_exit(REPLICAS, tmp_path)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
