"""Stands in for AWS where a test needs what moto does not do: pages, failures, and a count of what was asked.

It speaks AWS's JSON protocol and its query protocol (forms, answered by XML) over real HTTP, in threads of
its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import pytest


@dataclass(frozen=True, slots=True)
class Failure:
    """AWS's way to say no."""

    code: str
    status: int = 400
    message: str = "as the test wants it"


Answer = Mapping[str, Any] | Failure
Operation = Callable[[Mapping[str, Any]], Answer]
"""From the parameters to the answer. A form's parameters are flat: `Parameters.member.1.ParameterKey`."""


class FakeAws:
    """`operations` by AWS's names for them may be changed at any time."""

    def __init__(self) -> None:
        self.url = ""
        self.operations: dict[str, Operation] = {}
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def count(self, operation: str) -> int:
        """How often that was asked."""
        return sum(1 for name, _ in self.asked if name == operation)

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> Answer:
        """What is answered, noted."""
        self.asked.append((operation, parameters))
        known = self.operations.get(operation)
        return known(parameters) if known is not None else Failure("UnknownOperationException")


@contextmanager
def fake_aws() -> Iterator[FakeAws]:
    """One that listens on this machine for as long as the block lasts."""
    aws = FakeAws()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            target = self.headers["X-Amz-Target"]
            if target is not None:
                operation = target.rpartition(".")[2]
                self._send(*_in_json(aws.answer(operation, json.loads(body))))
            else:
                form = dict(parse_qsl(body.decode(), keep_blank_values=True))
                self._send(*_in_xml(form["Action"], aws.answer(form["Action"], form)))

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    aws.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield aws
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _in_json(answer: Answer) -> tuple[int, str, bytes]:
    status = 200
    if isinstance(answer, Failure):
        status = answer.status
        answer = {"__type": answer.code, "message": answer.message}
    return status, "application/x-amz-json-1.1", json.dumps(answer).encode()


def _in_xml(operation: str, answer: Answer) -> tuple[int, str, bytes]:
    if isinstance(answer, Failure):
        error = _elements({"Type": "Sender", "Code": answer.code, "Message": answer.message})
        return answer.status, "text/xml", f"<ErrorResponse><Error>{error}</Error></ErrorResponse>".encode()
    result = f"<{operation}Result>{_elements(answer)}</{operation}Result>"
    return 200, "text/xml", f"<{operation}Response>{result}</{operation}Response>".encode()


def _elements(value: object) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{key}>{_elements(inner)}</{key}>" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "".join(f"<member>{_elements(inner)}</member>" for inner in value)
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def with_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that nothing but a stand-in takes, and none from anywhere else."""
    without_credentials(monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, from nowhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
