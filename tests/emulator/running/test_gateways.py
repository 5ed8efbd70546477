"""Gateways that are started for a scenario: told what they need, waited for, and gone after."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from emulator.running import gateways
from emulator.running.gateways import (
    BadCommand,
    Gateway,
    GatewayFailed,
    StartedGateway,
    environment,
    parsed,
    started,
)
from tests.support.ports import free_port
from tests.support.processes import ROOT
from tests.support.waiting import eventually


def fake(how: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.support.fake_gateway", how)


@asynccontextmanager
async def running(how: str) -> AsyncIterator[StartedGateway]:
    port = free_port()
    variables = {**environment(port, [], {}, capacity=4), "PYTHONPATH": str(ROOT)}
    async with asyncio.TaskGroup() as tasks:
        async with started(fake(how), port, variables, tasks) as gateway:
            yield gateway


def test_a_command_is_split_as_a_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(f"'{sys.executable}' -m 'a b'") == (sys.executable, "-m", "a b")


def test_what_is_installed_beside_this_python_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert parsed("granian gateway.app:app") == ("granian", "gateway.app:app")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "needs a command"),
        ("  ", "needs a command"),
        ("no-such-gateway --fast", "there is no command 'no-such-gateway' on PATH"),
        ("granian 'gateway", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command: str, said: str) -> None:
    with pytest.raises(BadCommand, match=said):
        parsed(command)


def test_a_gateway_is_told_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_SESSION__RESUME", "false")
    monkeypatch.setenv("HOME", "/home")
    replicas = [{"url": "http://127.0.0.1:1", "name": "a"}, {"url": "http://127.0.0.1:2", "name": "b"}]
    own = {"GATEWAY_SELECTION__POLICY": "p2c", "GATEWAY_SESSION__PATHS": ["/ws"], "FLAG": True}
    told = environment(8123, replicas, own, capacity=3)
    assert json.loads(told["GATEWAY_ROUTER__REPLICAS"]) == replicas
    assert told["REPLICA_URLS"] == "http://127.0.0.1:1 http://127.0.0.1:2"
    assert told["REPLICA_CAPACITY"] == "3"
    assert told["GATEWAY_ROUTER__HEALTH_CHECK__INTERVAL_SECONDS"] == "0.5"
    assert told["GRANIAN_PORT"] == told["GATEWAY_ROUTER__PORT"] == "8123"
    assert told["GATEWAY_SELECTION__POLICY"] == "p2c"
    assert told["GATEWAY_SESSION__PATHS"] == '["/ws"]'
    assert told["FLAG"] == "true"
    assert told["HOME"] == "/home"
    assert "GATEWAY_SESSION__RESUME" not in told
    page = (ROOT / "docs" / "running.md").read_text()
    new = told.keys() - own.keys() - os.environ.keys() - {"PATH", "PYTHONUNBUFFERED"}
    assert [name for name in new if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("url", "http", "ws"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "ws://127.0.0.1:8000"),
        ("wss://gateway.example/", "https://gateway.example", "wss://gateway.example"),
    ],
)
def test_a_url_is_for_requests_and_for_sessions(url: str, http: str, ws: str) -> None:
    gateway = Gateway(url)
    assert (gateway.http, gateway.ws) == (http, ws)


async def test_it_serves_inside_and_is_gone_after() -> None:
    async with running("well") as gateway:
        answer = await gateway.get("/status")
        assert answer is not None
        assert gateway.pid is not None
        assert psutil.pid_exists(gateway.pid)
    assert gateway.returncode is not None
    assert not psutil.pid_exists(gateway.pid)


@pytest.mark.parametrize("how", ["deaf", "family", "orphans"])
async def test_whoever_does_not_listen_is_gone_too(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "STOP_SECONDS", 0.5)
    async with running(how) as gateway:
        everyone = [psutil.Process(gateway.pid), *psutil.Process(gateway.pid).children(recursive=True)]
        assert len(everyone) == (1 if how == "deaf" else 2)
        if how != "deaf":
            await eventually(lambda: re.search(r"child \d+", gateway.tail), "it has told of its child")
    assert not any(_lives(process) for process in everyone)


async def test_its_end_is_that_of_its_own_process() -> None:
    """Whoever of its children still has its output open, and what it does to them."""
    async with running("orphans") as gateway:
        assert gateway.pid is not None
        (child,) = psutil.Process(gateway.pid).children()
        gateway.signal(signal.SIGKILL)
        async with asyncio.timeout(20):
            await gateway.until_ended()
        assert gateway.returncode == -signal.SIGKILL
        assert _lives(child)
    assert not _lives(child)


async def test_it_is_gone_when_the_work_inside_fails() -> None:
    with pytest.RaisesGroup(RuntimeError):
        async with running("well") as gateway:
            raise RuntimeError
    assert gateway.pid is not None
    assert not psutil.pid_exists(gateway.pid)


async def test_one_that_ends_at_once_is_told_with_its_last_words() -> None:
    with pytest.RaisesGroup(GatewayFailed) as raised:
        async with running("ends"):
            pass
    said = str(raised.value.exceptions[0])
    assert "the gateway ended by itself" in said
    assert "exit status 7" in said
    assert "cannot live like that" in said


async def test_more_variables_than_a_process_can_have_are_told() -> None:
    variables = {f"V{number}": "x" * 100_000 for number in range(200)}
    with pytest.RaisesGroup(GatewayFailed) as raised:
        async with asyncio.TaskGroup() as tasks, started(fake("well"), free_port(), variables, tasks):
            pass
    assert "cannot be started" in str(raised.value.exceptions[0])
    assert "Argument list too long" in str(raised.value.exceptions[0])


async def test_one_that_never_serves_is_told_and_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "START_SECONDS", 1.5)
    with pytest.RaisesGroup(GatewayFailed) as raised:
        async with running("never"):
            pass
    said = str(raised.value.exceptions[0])
    assert "does not answer on http://127.0.0.1:" in said
    assert "within 1.5 s" in said
    assert "fake gateway: never" in said


async def test_one_that_is_never_ready_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "UNREADY_SECONDS", 0.2)
    async with running("broken") as gateway:
        answer = await gateway.get("/")
        assert answer is not None
        assert answer.status_code == 503


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
