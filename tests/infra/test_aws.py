"""What goes wrong with AWS, told in lines: no traceback, no secret."""

from __future__ import annotations

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.cli import main
from tests.infra.conftest import Infra, QuickClock
from tests.support.fake_aws import Failure, FakeAws, with_credentials, without_credentials
from tests.support.fake_stacks import FakeStacks

SECRET = "a-very-secret-access-key"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("InvalidClientTokenId", "AWS refuses these credentials (InvalidClientTokenId)"),
        ("ExpiredToken", "AWS refuses these credentials (ExpiredToken)"),
        ("SignatureDoesNotMatch", "is eu-central-1 enabled for it?"),
        ("AccessDenied", "these credentials need the permission cloudformation:DescribeStacks"),
        ("InvalidAction", "cloudformation:DescribeStacks was refused (InvalidAction: as the test wants it)"),
    ],
)
def test_a_refusal(aws: FakeAws, infra: Infra, code: str, told: str) -> None:
    aws.operations["DescribeStacks"] = lambda _: Failure(code, 403)
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert told in ended.err
    assert all(line.startswith("infra: ") for line in ended.err.splitlines())


def test_a_refusal_that_quotes_the_request_is_not_repeated(
    aws: FakeAws, infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    message = f"The canonical string should have been x-amz-security-token:{SECRET}"
    aws.operations["DescribeStacks"] = lambda _: Failure("SignatureDoesNotMatch", 403, message)
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert SECRET not in ended.out + ended.err


def test_no_credentials(aws: FakeAws, infra: Infra, monkeypatch: pytest.MonkeyPatch) -> None:
    without_credentials(monkeypatch)
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert "there are no usable AWS credentials" in ended.err
    assert "set AWS_PROFILE" in ended.err
    assert aws.asked == []


def test_a_profile_that_is_not_there(aws: FakeAws, infra: Infra, monkeypatch: pytest.MonkeyPatch) -> None:
    without_credentials(monkeypatch)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    ended = infra(aws.url, "status")
    assert ended.status == 1
    assert "nobody" in ended.err


def test_a_configuration_that_may_not_be_read(
    aws: FakeAws, infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/home/me/.aws/config")

    monkeypatch.setattr("boto3.session.Session", closed)
    ended = infra(aws.url, "status")
    assert (ended.status, ended.err) == (1, "infra: /home/me/.aws/config cannot be read: Permission denied\n")


def test_no_region(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with_credentials(monkeypatch)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == "infra: no AWS region is known: add --region, or set AWS_REGION\n"


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_of_a_variable(
    aws: FakeAws,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "eu-west-1")
    FakeStacks(aws)
    assert main(["status", "--endpoint-url", aws.url]) == 1
    assert capsys.readouterr().out.startswith("streamhold in eu-west-1\n")


@pytest.mark.parametrize(
    ("region", "hint"), [("eu-nowhere-1", True), ("eu-central-1", False)], ids=["unknown", "known"]
)
def test_a_region_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, region: str, hint: bool
) -> None:
    def nobody(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    assert main(["status", "--region", region], clock=QuickClock()) == 1
    said = capsys.readouterr().err
    assert f"AWS does not answer in the region {region}" in said
    assert (f"boto3 knows no region {region}: is --region right?" in said) is hint


def test_a_region_that_is_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--region", "no such region!"], clock=QuickClock()) == 1
    assert capsys.readouterr().err.startswith("infra: ")


@pytest.mark.parametrize(
    "url", ["localhost:4566", "not a url", "http://", "http://127.0.0.1:99999", "http://[::1"]
)
def test_an_endpoint_that_is_no_url(infra: Infra, url: str) -> None:
    ended = infra(url, "status")
    assert ended.status == 1
    assert ended.err.startswith("infra: ")
    assert "answers" not in ended.err


def test_nobody_at_the_endpoint_and_no_password_shown(infra: Infra) -> None:
    # Bound and not listened on, for as long as the test lasts: nobody else gets the port.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        ended = infra(f"http://me:{SECRET}@127.0.0.1:{port}", "status")
    assert ended.status == 1
    assert ended.err == f"infra: nothing answers at http://***@127.0.0.1:{port}: is --endpoint-url right?\n"


@pytest.mark.parametrize("command", [("status",), ("destroy", "--yes"), ("replace", "abc")])
@pytest.mark.parametrize(
    "page",
    [
        "<!doctype html><p>hello",
        "<html></html>",
        "[]",
        "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>x</StackName></member>"
        "</Stacks></DescribeStacksResult></DescribeStacksResponse>",
    ],
    ids=["no XML", "XML", "JSON", "a part of an answer"],
)
def test_somebody_else_at_the_endpoint(infra: Infra, page: str, command: tuple[str, ...]) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        ended = infra(f"http://127.0.0.1:{server.server_port}", *command)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert ended.status == 1
    assert "answers, but not as AWS does" in ended.err


def test_without_boto3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert main(["status", "--region", "eu-central-1"]) == 1
    assert "pip install '.[aws]' in a clone" in capsys.readouterr().err
