"""The command line itself: what it takes, what it refuses, and how a run of it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.cli import main
from tests.infra.conftest import GIVEN, REGION, Infra
from tests.support.fake_aws import FakeAws
from tests.support.fake_stacks import Act, FakeStacks, quickly
from tests.support.processes import ROOT, RunningProcess
from tests.support.terminal import Terminal

NOWHERE = "http://127.0.0.1:9"
"""Nobody is asked there: what is wrong is told before."""


def test_everything_wrong_with_the_parameters_is_told_at_once(infra: Infra, templates: Path) -> None:
    file = templates / "my.yaml"
    file.write_text("MinCount: 0\nImageUri: gateway:1\nNodeTypo: small\n")
    ended = infra(NOWHERE, "plan", "--parameters", str(file), "--parameter", "VpcId=x", "--parameter", "oops")
    assert ended.status == 2
    assert ended.err.splitlines() == [
        "infra: --parameter oops: should be KEY=VALUE",
        f"infra: {file}: MinCount should be at least 1, not '0'",
        f"infra: {file}: NodeTypo is no parameter of data.yaml and service.yaml; did you mean NodeType?",
        "infra: --parameter: VpcId should be an id that begins with vpc-, not 'x'",
        "infra: SubnetIds has to be given, too, unless the stack is there and has it",
    ]


def test_the_command_line_wins_over_the_file(aws: FakeAws, infra: Infra, templates: Path) -> None:
    stacks = FakeStacks(aws)
    stacks.outputs["streamhold-data"] = {"RedisUrlSecretArn": "arn"}
    (templates / "my.yaml").write_text(
        "VpcId: vpc-01234567\nSubnetIds: [subnet-01234567, subnet-12345678]\nImageUri: gateway:1\n"
    )
    file = ("--parameters", str(templates / "my.yaml"))
    ended = infra(aws.url, "deploy", *file, "--parameter", "ImageUri=gateway:2")
    assert ended.status == 0, ended.err
    service = stacks.found("streamhold-service")
    assert service is not None
    assert service.parameters["ImageUri"] == "gateway:2"
    assert service.parameters["SubnetIds"] == "subnet-01234567,subnet-12345678"


@pytest.mark.parametrize(
    ("where", "status", "told"),
    [
        (">/dev/full", 1, "infra: stdout cannot be written: No space left on device; nothing was changed"),
        (">&-", 2, "infra: there is no stdout to tell anything on"),
    ],
)
def test_an_output_that_takes_nothing_is_told(where: str, status: int, told: str) -> None:
    words = f'exec "{sys.executable}" -m infra status --region {REGION} --endpoint-url {NOWHERE} {where}'
    ended = subprocess.run(["/bin/sh", "-c", words], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr.splitlines()) == (status, [told])


def test_a_file_that_goes_on_and_on_is_not_read_to_its_end(infra: Infra) -> None:
    ended = infra(NOWHERE, "plan", "--parameters", "/dev/zero")
    assert ended.status == 2
    assert ended.err == "infra: /dev/zero cannot be read: it has more than 1048576 bytes\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "data.yaml cannot be read: No such file"),
        (b"nothing", "data.yaml is no template: it has no Resources"),
        (b"\xff\xfe", "data.yaml cannot be read: it is no UTF-8"),
    ],
)
def test_templates_that_are_none(infra: Infra, templates: Path, text: bytes | None, told: str) -> None:
    (templates / "data.yaml").unlink()
    if text is not None:
        (templates / "data.yaml").write_bytes(text)
    ended = infra(NOWHERE, "plan")
    assert ended.status == 2
    assert told in ended.err


def test_a_file_of_parameters_that_is_not_there(infra: Infra) -> None:
    ended = infra(NOWHERE, "plan", "--parameters", "/nonexistent.yaml")
    assert ended.status == 2
    assert "/nonexistent.yaml cannot be read" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["plan", "--name", "9lives"],
        ["plan", "--name", "a_b"],
        ["plan", "--every", "0"],
        ["plan", "--timeout", "soon"],
        ["plan", "--only", "everything"],
        ["replace"],
        ["status", "--parameter", "A=1"],
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


# -- as a process, interrupted

ENV = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "PYTHONPATH": str(ROOT),
}


def command(url: str, templates: Path, name: str, *arguments: str) -> list[str]:
    line = [sys.executable, "-m", "infra", name, "--region", REGION, "--endpoint-url", url, "--every", "0.05"]
    return [*line, *(["--templates", str(templates)] if name != "destroy" else []), *arguments]


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
async def test_a_deployment_that_is_interrupted_goes_on_with_the_next(
    aws: FakeAws, templates: Path, tmp_path: Path, number: signal.Signals
) -> None:
    stacks = FakeStacks(aws)
    stacks.outputs["streamhold-data"] = {"RedisUrlSecretArn": "arn"}
    free = threading.Event()
    held = Act("CREATE_IN_PROGRESS", ("UrlSecret CREATE_IN_PROGRESS",), until=free)
    stacks.creating["streamhold-data"] = [held, *quickly("CREATE", "UrlSecret CREATE_COMPLETE")]
    line = command(aws.url, templates, "deploy", *GIVEN)
    async with RunningProcess(line, log=tmp_path / "first.log", env=ENV) as first:
        await first.until(lambda: "UrlSecret" in first.output(), "the creation is told of")
        first.send_signal(number)
        status = await first.wait()
    if number != signal.SIGKILL:
        assert status == 130
        assert "no longer watching; AWS goes on with what has begun" in first.output()
        assert "Traceback" not in first.output()
    assert stacks.found("streamhold-service") is None
    free.set()
    async with RunningProcess(line, log=tmp_path / "second.log", env=ENV) as second:
        assert await second.wait() == 0, second.output()
    assert "streamhold-data: CREATE_IN_PROGRESS, begun before this command; waiting for it" in second.output()
    assert "streamhold-service: created" in second.output()
    assert aws.count("CreateStack") == 2


@pytest.mark.e2e
@pytest.mark.parametrize(("typed", "status"), [("streamhold", 0), ("yes", 1)])
def test_on_a_terminal_the_name_has_to_be_typed(
    aws: FakeAws, templates: Path, typed: str, status: int
) -> None:
    stacks = FakeStacks(aws)
    stacks.there("streamhold-service", "CREATE_COMPLETE")
    terminal = Terminal(command(aws.url, templates, "destroy"), env=ENV)
    with terminal:
        terminal.until(lambda: b"to go on: " in terminal.written, "the question")
        terminal.press(typed.encode() + b"\r")
        assert terminal.wait() == status
    assert (stacks.found("streamhold-service") is None) is (status == 0)


def test_a_reader_that_has_gone_is_no_traceback(aws: FakeAws, templates: Path) -> None:
    FakeStacks(aws)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(aws.url, templates, "plan", *GIVEN),
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENV},
        timeout=50,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == b""
