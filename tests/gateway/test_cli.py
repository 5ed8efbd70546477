"""`python -m gateway`, as a real process: what it prints, where, and its exit status."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from tests.support.ports import free_port
from tests.support.processes import ROOT, clean_environment

REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


def gateway(
    *arguments: str, directory: Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return python("-m", "gateway", *arguments, directory=directory, environ=environ)


def python(
    *arguments: str, directory: Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished command; the deadline is far above what it takes, so that a slow machine is no failure."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=clean_environment(environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_check_prints_the_resolved_settings_and_the_runtime_mode() -> None:
    done = gateway("check", directory=ROOT, environ={"GATEWAY_CLIENTS__TOKENS": '["hush"]'})
    assert done.returncode == 0
    assert done.stderr == ""
    printed = yaml.safe_load(done.stdout)
    assert [replica["name"] for replica in printed["router"]["replicas"]] == ["a", "b", "c"]
    assert printed["clients"]["tokens"] == ["***"]
    assert "hush" not in done.stdout
    assert "# from gateway.yaml, GATEWAY_CLIENTS__TOKENS" in done.stdout
    assert "# runtime mode: single_process" in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "gateway.yaml: is empty"),
        ("- a\n", "gateway.yaml: should be a mapping"),
        ("router: {replicas: [\n", "gateway.yaml: is not YAML at line 2, column 1"),
        (
            "router:\n  replica: []\n",
            "gateway.yaml:2: router.replica: is not a setting; did you mean replicas?",
        ),
        (None, "With these lines in gateway.yaml the gateway starts"),
    ],
)
@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_bad_configuration_is_refused_without_a_traceback(
    tmp_path: Path, content: str | None, said: str, command: str
) -> None:
    if content is not None:
        (tmp_path / "gateway.yaml").write_text(content)
    done = gateway(command, directory=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert all(line.startswith(("gateway: ", "    ")) for line in done.stderr.splitlines())


def test_check_tells_all_problems_and_the_serverless_host_in_one_go(tmp_path: Path) -> None:
    environ = REPLICAS | {"GATEWAY_ROUTER__PORT": "x", "GATEWAY_ROUTR__PORT": "1", "VERCEL": "1"}
    done = gateway("check", directory=tmp_path, environ=environ)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    for part in ("GATEWAY_ROUTER__PORT", "GATEWAY_ROUTR__PORT", "serverless"):
        assert any(part in line for line in lines)


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("host", [{"GATEWAY_RUNTIME__MODE": "serverless"}, {"AWS_LAMBDA_FUNCTION_NAME": "x"}])
def test_a_serverless_host_is_refused(tmp_path: Path, command: str, host: dict[str, str]) -> None:
    done = gateway(command, directory=tmp_path, environ=REPLICAS | host)
    assert done.returncode == 1
    [refusal] = [line for line in done.stderr.splitlines() if "cannot run" in line]
    assert refusal.startswith("gateway: runtime mode serverless")
    assert "health loop, WebSocket bridge" in refusal


def test_check_warns_of_a_mode_that_the_host_contradicts(tmp_path: Path) -> None:
    environ = REPLICAS | {"VERCEL": "1", "GATEWAY_RUNTIME__MODE": "single_process"}
    done = gateway("check", directory=tmp_path, environ=environ)
    assert done.returncode == 0
    assert done.stderr.startswith("gateway: warning: runtime.mode is single_process and wins")
    assert len(done.stderr.splitlines()) == 1


def test_check_imports_neither_the_server_nor_the_web_framework(tmp_path: Path) -> None:
    code = (
        "import sys; from gateway.cli import main; status = main(['check']); "
        "heavy = {'litestar', 'granian', 'httpx', 'picows', 'uvloop'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = python("-c", code, directory=tmp_path, environ=REPLICAS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [[], ["srve"], ["serve", "--workers", "0"], ["serve", "--workers", "x"], ["check", "extra"]]
)
def test_a_wrong_command_line_has_status_2(tmp_path: Path, arguments: list[str]) -> None:
    done = gateway(*arguments, directory=tmp_path)
    assert done.returncode == 2
    assert "usage: python -m gateway" in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def answering(body: str, status: int = 200) -> Iterator[str]:
    """The URL of a server that answers everything so."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Answer) as url:
        yield url


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL of a server whose requests go to `handler`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


REPLICA = {
    "url": "http://127.0.0.1:9101",
    "primary": True,
    "status": "healthy",
    "last_ok_at": 1.0,
    "last_latency_ms": 1.234,
    "consecutive_failures": 0,
    "name": "a",
    "draining": False,
    "removed": False,
    "active_sessions": 2,
    "pending_sessions": 1,
    "elsewhere_sessions": 5,
    "max_sessions": None,
    "weight": 1.0,
}


def test_status_prints_an_aligned_table(tmp_path: Path) -> None:
    other = {
        **REPLICA,
        "name": "a-longer-name\x1b[2J",
        "primary": False,
        "draining": True,
        "sleeping": True,
        "last_latency_ms": None,
    }
    body = json.dumps({"version": "0", "draining": True, "sessions": 3, "replicas": [REPLICA, other]})
    with answering(body) as url:
        done = gateway("status", "--url", url, directory=tmp_path)
        configured = REPLICAS | {
            "GATEWAY_ROUTER__HOST": "0.0.0.0",
            "GATEWAY_ROUTER__PORT": url.rpartition(":")[2],
        }
        same = gateway("status", directory=tmp_path, environ=configured)
    assert (done.returncode, done.stderr) == (0, "")
    assert same.stdout == done.stdout
    summary, head, first, second = done.stdout.splitlines()
    assert summary == f"{url}: 3 sessions, draining"
    columns = ["REPLICA", "URL", "STATUS", "SESSIONS", "PENDING", "ELSEWHERE", "LIMIT", "FAILURES", "LATENCY"]
    assert head.split() == columns
    assert first.split() == ["a", REPLICA["url"], "healthy", "primary", "2", "1", "5", "-", "0", "1.2", "ms"]
    assert head.index("STATUS") == first.index("healthy") == second.index("healthy draining sleeping")
    assert "\x1b" not in done.stdout


def test_status_says_when_nothing_answers(tmp_path: Path) -> None:
    done = gateway("status", "--url", f"http://127.0.0.1:{free_port()}", directory=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing answers there" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("<html>", 200),
        ("[]", 200),
        ("{}", 200),
        ('{"replicas": [1]}', 200),
        ("{}", 404),
        ('{"replicas": {}}', 200),
        ("[" * 100_000, 200),
        ('{"replicas": [{"last_latency_ms": %s}]}' % ("9" * 5000), 200),
        ('{"replicas": [{"last_latency_ms": %s}]}' % ("9" * 400), 200),
        ('{"replicas": [{"last_latency_ms": NaN}]}', 200),
        ("x" * (17 * 1024 * 1024), 200),
    ],
)
def test_status_says_when_something_else_answers(tmp_path: Path, body: str, status: int) -> None:
    with answering(body, status) as url:
        done = gateway("status", "--url", url, directory=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"gateway: {url}: ")
    assert len(done.stderr.splitlines()) == 1


def test_status_does_not_wait_for_an_answer_that_drips(tmp_path: Path) -> None:
    ended = threading.Event()

    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not ended.wait(0.2):
                    self.wfile.write(b" ")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Drip) as url:
        try:
            done = gateway("status", "--url", url, directory=tmp_path)
        finally:
            ended.set()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gateway: {url}: no whole answer came within 5 seconds\n"


@pytest.mark.parametrize("url", ["http://[", "http://host:port", "ftp://127.0.0.1", "http://"])
def test_status_refuses_what_is_no_url(tmp_path: Path, url: str) -> None:
    done = gateway("status", "--url", url, directory=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_tells_of_a_taken_port_in_one_line(tmp_path: Path) -> None:
    with answering("") as url:
        port = url.rpartition(":")[2]
        environ = REPLICAS | {"GATEWAY_ROUTER__HOST": "localhost", "GATEWAY_ROUTER__PORT": port}
        done = gateway("serve", directory=tmp_path, environ=environ)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"gateway: router.host localhost, router.port {port}: Address already in use"
    ]


def test_serving_from_python_tells_of_a_taken_port_in_one_line(tmp_path: Path) -> None:
    with answering("") as url:
        port = url.rpartition(":")[2]
        code = (
            "from gateway import ReplicaEndpoint, RouterConfig, run_router; "
            f"run_router(RouterConfig('127.0.0.1', {port}, [ReplicaEndpoint('http://a:1')]))"
        )
        done = python("-c", code, directory=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"gateway: router.host 127.0.0.1, router.port {port}: Address already in use"
    ]


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m gateway check | true"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
