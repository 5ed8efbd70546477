"""The command in a process of its own, as people start it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.emulator.sessions import session
from tests.support.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30
COMMAND = [sys.executable, "-u", "-m", "emulator"]
FREE = ["--port", "0", "--control-port", "0"]

pytestmark = pytest.mark.e2e


@contextmanager
def emulator(*options: str) -> Iterator[subprocess.Popen[str]]:
    """The command running; killed at the end if it still is."""
    with subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def lines_until_ready(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == "ready":
            return lines
    raise AssertionError(f"it ended before it was ready: {lines} {process.communicate()[1]}")


def json_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_tells_what_it_started_and_stops_cleanly(number: signal.Signals) -> None:
    with emulator(*FREE, "--flaky", "b", "--segment-seconds", "0") as process:
        text = "\n".join(lines_until_ready(process))
        urls = re.findall(r"^  ([a-c]) +(http://127\.0\.0\.1:\d+)", text, re.MULTILINE)
        assert [name for name, _ in urls] == ["a", "b", "c"]
        assert "flaky" in text
        async with session(urls[0][1].replace("http", "ws") + "/v1/stream") as client:
            await client.open()
            assert await client.segment("p")
            process.send_signal(number)
            end = await client.to_the_end()
        assert (end.code, end.reason) == (1001, "going_away")
        code, out, err = ended(process)
    assert (code, err) == (0, "")
    assert "a session 1: opened" in out


def test_the_lines_for_breaking_a_replica_work_as_they_stand() -> None:
    with emulator(*FREE) as process:
        lines = lines_until_ready(process)
        commands = [line.strip() for line in lines if line.startswith("  curl ")]
        assert len(commands) >= 6
        for command in commands:
            subprocess.run(
                command.replace("curl", "curl --silent --fail --noproxy '*'"),
                shell=True,
                check=True,
                timeout=PATIENCE_SECONDS,
                capture_output=True,
            )


async def test_programs_get_the_addresses_as_json(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    with emulator(*FREE, "--replicas", "2", "--json", "--ready-file", str(ready), "--down", "b") as process:
        addresses = json_line(process)
        assert json.loads(ready.read_text()) == addresses
        assert addresses["pid"] == process.pid
        a, b = addresses["replicas"]
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(a["url"] + "/health")).status_code == 200
            with pytest.raises(httpx.ConnectError):
                await client.get(b["url"] + "/health")
            assert (await client.get(f"{addresses['control']}/replicas/b")).json()["refusing"]
        process.terminate()
        assert ended(process)[0] == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--control-port", "0", "--port", "BUSY"], "--port"),
        (["--port", "0", "--control-port", "BUSY"], "--control-port"),
        ([*FREE, "--flaky", "q"], "--flaky q: there is no such replica; there are: a, b, c"),
        ([*FREE, "--ready-file", "/nowhere/at/all"], "--ready-file"),
        ([*FREE, "--ready-file", "/"], "/ is a directory: name a file with --ready-file"),
        (["--control-port", "0", "--port", "65535"], "--port and --replicas"),
        (["--control-port", "9103", "--port", "9101"], "one of the replicas' (9101 to 9103): choose another"),
    ],
)
def test_what_cannot_start_is_told_in_one_line(options: list[str], text: str) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        with emulator(*[port if option == "BUSY" else option for option in options]) as process:
            code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err.startswith("emulator: ")
    assert text in err
    assert len(err.splitlines()) == 1
    if "BUSY" in options:
        assert port in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--replicas", "0"], "argument --replicas: must be a whole number of 1 or more, not '0'"),
        (["--replicas", "x"], "argument --replicas: must be a whole number of 1 or more, not 'x'"),
        (["--port", "70000"], "argument --port: must be a whole number from 0 to 65535, not '70000'"),
        (["--control-port", "x"], "must be a whole number from 0 to 65535, not 'x'"),
        (["--seed", "1.5"], "argument --seed: must be a whole number, not '1.5'"),
        (["--segment-seconds", "-1"], "must be a finite number of 0 or more, not '-1'"),
        (["--segment-seconds", "nan"], "must be a finite number of 0 or more, not 'nan'"),
        (["--segment-seconds", "1s"], "must be a finite number of 0 or more, not '1s'"),
        (["--no-such"], "--no-such"),
    ],
)
def test_a_wrong_option_is_refused(options: list[str], text: str) -> None:
    with emulator(*options) as process:
        code, _, err = ended(process)
    assert code == 2
    assert text in err
    assert "Traceback" not in err


async def test_isolated_replicas_die_with_the_command_even_by_sigkill_and_while_stopped() -> None:
    with emulator(*FREE, "--replicas", "2", "--isolate", "process", "--json") as process:
        addresses = json_line(process)
        children = [psutil.Process(replica["pid"]) for replica in addresses["replicas"]]
        assert {child.ppid() for child in children} == {process.pid}
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            await client.post(f"{addresses['control']}/replicas/b/pause")
        stopped = psutil.STATUS_STOPPED
        await eventually(lambda: children[1].status() == stopped, "the paused replica's process is stopped")
        process.kill()
        process.wait(timeout=PATIENCE_SECONDS)
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_SECONDS)
        assert alive == []


async def test_a_signal_to_the_whole_group_stops_isolated_replicas_in_order() -> None:
    with emulator(*FREE, "--replicas", "2", "--isolate", "process", "--json") as process:
        addresses = json_line(process)
        url = addresses["replicas"][0]["url"]
        async with session(url.replace("http", "ws") + "/v1/stream") as client:
            await client.open()
            process.send_signal(signal.SIGINT)
            assert (await client.to_the_end()).code == 1001
        assert ended(process)[0] == 0


def test_a_reader_that_goes_away_does_not_end_the_replicas() -> None:
    with emulator(*FREE, "--segment-seconds", "0") as process:
        lines = lines_until_ready(process)
        control = next(line for line in lines if line.startswith("control API")).split()[2]
        assert process.stdout is not None
        process.stdout.close()
        for _ in range(3):
            assert httpx.post(f"{control}/replicas/a/restart", trust_env=False).status_code == 200
        process.terminate()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0


def test_poison_stands_on_every_replica() -> None:
    with emulator(*FREE, "--poison", "bad", "--json") as process:
        control = json_line(process)["control"]
        replicas = httpx.get(f"{control}/replicas", trust_env=False).json()
        assert [replica["faults"]["poison"]["text"] for replica in replicas] == ["bad"] * 3
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


# Media


def test_video_that_cannot_be_made_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with emulator(*FREE, "--media", "mp4") as process:
        code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err.startswith("emulator: --media mp4 needs PyAV, which is not installed: install it with")
    assert len(err.splitlines()) == 1


def test_a_watermark_without_video_is_refused_in_a_line() -> None:
    with emulator(*FREE, "--media", "filler", "--watermark") as process:
        assert ended(process) == (
            1,
            "",
            "emulator: --watermark is painted into real video: use it with --media mp4\n",
        )


@pytest.mark.parametrize(("choice", "is_video"), [("auto", True), ("mp4", True), ("filler", False)])
async def test_the_media_are_those_asked_for(choice: str, is_video: bool) -> None:
    with emulator(*FREE, "--segment-seconds", "0", "--media", choice, "--json") as process:
        url = json_line(process)["replicas"][0]["url"]
        async with session(url.replace("http", "ws") + "/v1/stream") as client:
            await client.open()
            media = await client.segment("p")
        process.send_signal(signal.SIGTERM)
        ended(process)
    assert (media[4:8] == b"ftyp") is is_video


# Other addresses than this machine's own


def test_replicas_listen_where_they_are_told_to_and_the_control_api_where_it_can_be_asked() -> None:
    with emulator(*FREE, "--host", "127.0.0.2", "--json") as process:
        told = json_line(process)
        replica = told["replicas"][0]["url"]
        assert replica.startswith("http://127.0.0.2:")
        assert httpx.get(f"{replica}/readyz").status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{replica.replace('127.0.0.2', '127.0.0.1')}/readyz")
        assert told["control"].startswith("http://127.0.0.1:")
        assert httpx.get(f"{told['control']}/replicas").json()[0]["url"] == replica
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


@pytest.mark.parametrize("host", ["name.invalid", "192.0.2.7", "a..b"])
def test_an_address_that_is_not_this_machines_is_refused_in_a_line(host: str) -> None:
    with emulator(*FREE, "--host", host) as process:
        code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err.startswith(f"emulator: --host {host}: ")
    assert err.endswith("name an address of this machine, or 0.0.0.0 for all of them\n")
    assert len(err.splitlines()) == 1


# Announcing


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--announce-ttl", "3"], "emulator: --announce is missing: name the fleet's server with it\n"),
        (["--announce", "http://me:hush@a"], "emulator: --announce: the fleet's url cannot be used"),
        (
            ["--announce", "redis://me:hush@127.0.0.1:{free}"],
            "the fleet's store gave no usable",
        ),
        (["--announce", "redis://a", "--announce-fleet", "a:b"], "should have no colon"),
    ],
)
def test_where_replicas_cannot_be_announced_it_does_not_start(words: list[str], said: str) -> None:
    with emulator(*FREE, *(word.format(free=free_port()) for word in words)) as process:
        code, _, err = ended(process)
    assert code == 1
    assert said in err
    assert "hush" not in err
    assert len(err.splitlines()) == 1
