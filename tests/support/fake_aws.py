"""Stands in for AWS where a test needs what moto does not do: pages, failures, and a count of what was asked.

It speaks AWS's JSON protocol over real HTTP, in threads of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Failure:
    """AWS's way to say no."""

    code: str
    status: int = 400
    message: str = "as the test wants it"


Answer = Mapping[str, Any] | Failure
Operation = Callable[[Mapping[str, Any]], Answer]
"""From the parameters to the answer."""


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
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            self._send(aws.answer(operation, json.loads(body)))

        def _send(self, answer: Answer) -> None:
            status = 200
            if isinstance(answer, Failure):
                status = answer.status
                answer = {"__type": answer.code, "message": answer.message}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
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
