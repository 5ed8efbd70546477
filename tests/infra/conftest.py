"""The command line in this process, and small templates of which moto can make stacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.loaders import create_loader

from infra.cli import main
from tests.support.fake_aws import FakeAws, fake_aws, with_credentials
from tests.support.fake_stacks import FakeStacks
from tests.support.moto_server import moto_server

REGION = "eu-central-1"

# Outputs are made of parameters, for moto gives a resource that is changed neither a new name nor a new id.
DATA = """\
Parameters:
  VpcId: {Type: AWS::EC2::VPC::Id}
  NodeType: {Type: String, Default: small, AllowedValues: [small, large]}
Resources:
  UrlSecret:
    Type: AWS::Logs::LogGroup
    DeletionPolicy: Retain
    Properties: {LogGroupName: !Sub "/${AWS::StackName}/${NodeType}"}
Outputs:
  RedisUrlSecretArn: {Value: !Sub "secret-${NodeType}"}
  Endpoint: {Value: !Sub "${NodeType}:6379"}
"""
SERVICE = """\
Parameters:
  VpcId: {Type: AWS::EC2::VPC::Id}
  SubnetIds: {Type: List<AWS::EC2::Subnet::Id>}
  ImageUri: {Type: String, MinLength: 1}
  DesiredCount: {Type: String, AllowedPattern: "[0-9]*", Default: ""}
  MinCount: {Type: Number, MinValue: 1, Default: 2}
  RedisUrlSecretArn: {Type: String, Default: ""}
Rules:
  NotTooMany:
    Assertions:
      - {Assert: !Not [!Equals [!Ref MinCount, 66]], AssertDescription: sixty-six are too many}
Conditions:
  HasDesiredCount: !Not [!Equals [!Ref DesiredCount, ""]]
Resources:
  Cluster:
    Type: AWS::ECS::Cluster
    Properties: {ClusterName: !Sub "${AWS::StackName}"}
  TaskRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement: [{Effect: Allow, Principal: {Service: ecs-tasks.amazonaws.com}, Action: sts:AssumeRole}]
  LogGroup:
    Type: AWS::Logs::LogGroup
    Properties: {LogGroupName: !Sub "/${AWS::StackName}/${MinCount}${RedisUrlSecretArn}"}
Outputs:
  ClusterName: {Value: !Ref Cluster}
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run of the command line came to."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with_credentials(monkeypatch)


_LOADER = create_loader(None)


@pytest.fixture(autouse=True)
def _descriptions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 reads the descriptions of AWS's services once for all tests, not once for each command."""
    monkeypatch.setattr("botocore.session.create_loader", lambda _: _LOADER)


@pytest.fixture
def moto() -> Iterator[str]:
    """moto's URL. Its log lines are not the command line's."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with moto_server() as url:
        yield url


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A directory with a data and a service template, to change."""
    (tmp_path / "data.yaml").write_text(DATA)
    (tmp_path / "service.yaml").write_text(SERVICE)
    return tmp_path


class QuickClock:
    """Sleeping takes no time, and moves the clock on."""

    def __init__(self) -> None:
        self.slept = 0.0
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens in each sleep."""

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=self.slept)

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.meanwhile()


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


Infra = Callable[..., Ended]


@pytest.fixture
def infra(capsys: pytest.CaptureFixture[str], templates: Path, clock: QuickClock) -> Infra:
    """Runs a command: `infra(url, "plan", ...)`."""

    def run(url: str, command: str, *arguments: str) -> Ended:
        place = ["--region", REGION, "--endpoint-url", url]
        capsys.readouterr()
        takes_templates = command in ("plan", "deploy")
        arguments = (*arguments, *(["--templates", str(templates)] if takes_templates else []))
        status = main([command, *place, *arguments], clock=clock)
        said = capsys.readouterr()
        return Ended(status, said.out, said.err)

    return run


GIVEN = (
    "--parameter",
    "VpcId=vpc-0123456789abcdef0",
    "--parameter",
    "SubnetIds=subnet-01234567,subnet-12345678",
    "--parameter",
    "ImageUri=gateway:1",
)
"""What the two stacks need."""

DATA_STACK, SERVICE_STACK = "streamhold-data", "streamhold-service"
PUT_OUT = {"RedisUrlSecretArn": "arn:secret", "Endpoint": "valkey:6379"}


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    """What stands in for AWS where moto does not do what AWS does; it has no operation yet."""
    with fake_aws() as running:
        yield running


@pytest.fixture
def stacks(aws: FakeAws) -> FakeStacks:
    """No stack there; the data stack will put out what the service takes."""
    made = FakeStacks(aws)
    made.outputs[DATA_STACK] = PUT_OUT
    return made


def asked_of_stacks(aws: FakeAws, *operations: str) -> list[tuple[str, str]]:
    """Which of these was asked for which stack, in order."""
    return [(name, asked["StackName"]) for name, asked in aws.asked if name in operations]
