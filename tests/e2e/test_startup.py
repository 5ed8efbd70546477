"""Starting, and refusing to start: real processes, every way to launch the gateway.

A refusal is one line a problem and a non-zero exit status: no traceback, and no restart loop.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.gateway_process import (
    LAUNCHES,
    GatewayProcess,
    Launch,
    gateway_command,
    gateway_environment,
)
from tests.support.ports import default_ports, free_port
from tests.support.processes import BIN, ROOT, RunningProcess
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import ScriptedReplica
from tests.support.streaming_client import drive_until_complete
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

REPLICA = "http://127.0.0.1:9"

COMMANDS: dict[str, list[str]] = {
    **{launch: gateway_command(launch) for launch in LAUNCHES},
    "check": [str(BIN / "python"), "-m", "gateway", "check"],
}

SERVERLESS: dict[str, dict[str, str]] = {
    "by mode": {"GATEWAY_RUNTIME__MODE": "serverless"},
    "on Lambda": {"AWS_LAMBDA_FUNCTION_NAME": "x"},
}


async def run(command: list[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and output of a command that must end by itself."""
    async with RunningProcess(command, log=folder / "refused.log", env=env) as process:
        status = await process.wait()
        return status, process.output()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("host", SERVERLESS)
async def test_a_serverless_host_is_refused_with_the_steps_that_need_another(
    tmp_path: Path, command: str, host: str
) -> None:
    env = gateway_environment(free_port(), [REPLICA]) | SERVERLESS[host]
    status, output = await run(COMMANDS[command], tmp_path, env)
    assert status != 0, output
    lines = [line for line in output.splitlines() if "serverless" in line]
    assert any("health loop" in line and "WebSocket bridge" in line for line in lines), output
    assert "Traceback" not in output
    assert len([line for line in lines if "health loop" in line]) == 1, "said again: a restart loop"


@pytest.mark.parametrize("command", COMMANDS)
async def test_all_that_is_wrong_with_the_settings_is_said_at_once(tmp_path: Path, command: str) -> None:
    env = gateway_environment(
        free_port(),
        [{"url": "ftp://a:1"}, {"url": "http://b:2/path"}],
        {
            "router__health_check__interval_seconds": -1,
            "session__no_such_key": 1,
            "runtime__mode": "sometimes",
        },
    )
    status, output = await run(COMMANDS[command], tmp_path, env)
    assert status == 1, output
    for named in ("ftp://a:1", "without a path", "interval_seconds", "no_such_key", "mode"):
        assert named.lower() in output.lower(), f"{named} is not named in:\n{output}"
    assert "Traceback" not in output


@pytest.mark.parametrize("command", COMMANDS)
async def test_without_any_configuration_it_says_what_would_make_it_start(
    tmp_path: Path, command: str
) -> None:
    status, output = await run(COMMANDS[command], tmp_path, {"GRANIAN_PORT": str(free_port())})
    assert status == 1, output
    assert "replicas" in output
    assert "url" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("content", ["", "- a\n- b\n", "router: [", "router:\n  replica: []\n"])
async def test_a_file_that_is_no_settings_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "gateway.yaml").write_text(content)
    status, output = await run(COMMANDS["granian"], tmp_path, {"GRANIAN_PORT": str(free_port())})
    assert status == 1, output
    assert "gateway.yaml" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("launch", LAUNCHES)
async def test_each_way_to_launch_serves_a_session(tmp_path: Path, launch: Launch) -> None:
    async with (
        ScriptedReplica() as replica,
        GatewayProcess(tmp_path, [replica.url], launch=launch) as gateway,
    ):
        async with raw_client(gateway.port) as client:
            session = await replica.session()
            await session.send("hello")
            assert await client.recv() == "hello"
        for route in ("/healthz", "/readyz", "/status", "/router/replicas/sessions", "/schema"):
            assert (await gateway.get(route)).status_code == 200, route


async def test_two_workers_both_serve_and_say_that_they_are_two(tmp_path: Path) -> None:
    async with ScriptedReplica() as replica, GatewayProcess(tmp_path, [replica.url], workers=2) as gateway:
        for _ in range(8):
            async with raw_client(gateway.port) as client:
                session = await replica.session()
                await session.send("hello")
                assert await client.recv() == "hello"
        await gateway.until(
            lambda: "worker" in gateway.output().lower(), "it says that limits hold per worker"
        )


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_second_gateway_on_a_port_is_refused_and_the_first_one_serves_on(
    tmp_path: Path, workers: int
) -> None:
    async with GatewayProcess(tmp_path, [REPLICA], wait_for="/healthz", workers=workers) as gateway:
        for launch in LAUNCHES:
            env = gateway_environment(gateway.port, [REPLICA]) | {"GRANIAN_WORKERS": str(workers)}
            status, output = await run(gateway_command(launch), tmp_path, env)
            assert status == 1, output
            said = [line for line in output.splitlines() if line.startswith("gateway: ")]
            assert 1 <= len(said) <= workers, output
            assert str(gateway.port) in said[0], output
            if launch != "serve":  # which finds it out before there is a worker
                pids = "|".join(str(process.pid) for process in gateway.tree())
                place = f"serves 127.0.0.1:{gateway.port} already"
                assert re.fullmatch(f"gateway: process ({pids}) {place}, .* choose another port", said[0])
            assert "Traceback" not in output
            assert output.count("Spawning worker") <= workers, "no restart loop"
        async with httpx.AsyncClient(trust_env=False) as http:
            for _ in range(20):
                assert (await http.get(f"{gateway.http}/healthz")).status_code == 200
        # A worker of its own, made anew, finds the old one on that port.
        gateway.send_signal(signal.SIGHUP)
        started = "Started worker-1"
        await gateway.until(lambda: gateway.output().count(f"{started}\n") == 2, "the worker is replaced")
        assert gateway.returncode is None


async def test_readiness_waits_for_a_replica_and_liveness_does_not(tmp_path: Path) -> None:
    async with ScriptedReplica() as replica:
        await replica.kill()
        async with GatewayProcess(tmp_path, [replica.url], wait_for="/healthz") as gateway:
            assert (await gateway.get("/readyz")).status_code == 503
            assert (await gateway.get("/readyz?own=1")).status_code in (200, 503)
            await eventually(lambda: gateway.answers("/readyz?own=1"), "the gateway's own faults are none")
            assert (await gateway.get("/readyz")).status_code == 503
            await replica.start()
            await eventually(lambda: gateway.answers("/readyz"), "a replica is healthy")


@asynccontextmanager
async def verbatim(command: str, folder: Path) -> AsyncIterator[RunningProcess]:
    """One of the README's commands as it is written there, from the root, with the environment on PATH."""
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"}
    name = re.sub(r"\W+", "-", command)
    async with RunningProcess(
        ["bash", "-c", f"exec {command}"], log=folder / f"{name}.log", env=env, cwd=ROOT
    ) as process:
        yield process


async def test_the_two_commands_work_together_as_they_are_written(tmp_path: Path) -> None:
    async with (
        default_ports(),
        verbatim("python -m emulator --replicas 3 --flaky b", tmp_path) as emulator,
        verbatim("granian gateway.app:app", tmp_path) as gateway,
    ):

        async def ready() -> bool:
            assert emulator.returncode is None, emulator.failure("the emulator ended")
            assert gateway.returncode is None, gateway.failure("the gateway ended")
            try:
                async with httpx.AsyncClient(trust_env=False) as http:
                    return (await http.get("http://127.0.0.1:8000/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(ready, "the gateway on its default port is ready", timeout=30)
        outcome = await drive_until_complete("ws://127.0.0.1:8000/v1/stream")
        assert outcome.completed, outcome
