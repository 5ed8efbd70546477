"""Starting, or refusing to: what is printed, and how the process ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import bindable_or_exit, load_or_exit, runtime_or_exit
from tests.support.ports import free_port

REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


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


def test_of_many_problems_the_first_are_told_and_the_rest_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway.yaml").write_text("".join(f"x{number}: 1\n" for number in range(60)))
    with pytest.raises(SystemExit):
        load_or_exit(REPLICAS, tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "gateway: ... and 10 more"


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


def test_a_doubtful_host_starts_and_its_warning_is_for_the_caller_to_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved = runtime_or_exit(load_or_exit(REPLICAS, tmp_path), {"FLY_MACHINE_ID": "m"})
    [warning] = resolved.warnings
    assert "FLY_MACHINE_ID" in warning
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "Cannot assign requested address"),
        ("a..b", "is not a host name"),
        ("a\0b", ""),
        ("x" * 64, "is not a host name"),
    ],
)
def test_a_host_that_cannot_be_bound_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, why: str
) -> None:
    settings = load_or_exit(REPLICAS | {"GATEWAY_ROUTER__HOST": host}, tmp_path)
    with pytest.raises(SystemExit) as exited:
        bindable_or_exit(settings)
    assert exited.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("gateway: router.host ")
    assert line.endswith(why)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_host_that_can_be_bound_is_given_as_an_address(tmp_path: Path, host: str) -> None:
    environ = REPLICAS | {"GATEWAY_ROUTER__HOST": host, "GATEWAY_ROUTER__PORT": str(free_port())}
    assert bindable_or_exit(load_or_exit(environ, tmp_path)) == "127.0.0.1"
