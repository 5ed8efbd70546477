"""Recording and replaying as people do it: the commands, real replicas, and a gateway in front."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.emulator.sessions import session
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.processes import BIN, ROOT, RunningProcess

CASES = ROOT / "tests" / "emulator" / "protocol" / "recorded-sessions.jsonl"

pytestmark = pytest.mark.e2e


class Command(RunningProcess):
    """`python -m emulator` with these options."""

    def __init__(self, folder: Path, *options: str) -> None:
        log = folder / f"command-{len(list(folder.glob('command-*')))}.log"
        super().__init__([BIN / "python", "-m", "emulator", *options], log=log)

    async def ready(self) -> str:
        """Where clients come, once they may."""
        await self.until(lambda: "\nready\n" in self.output(), "it is ready")
        line = next(line for line in self.output().splitlines() if line.startswith("clients come to "))
        return line.removeprefix("clients come to ")

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.send_signal(number)
        return await self.wait()


async def one_segment(url: str) -> bytes:
    async with session(f"{url}/v1/stream") as client:
        await client.open(client_id="me")
        return await client.segment("a pier")


async def test_a_session_is_recorded_and_served_again(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0", replicas=1) as emulator:
        of = emulator.urls["a"].replace("http", "ws")
        async with Command(tmp_path, "--record", str(file), "--of", of, "--port", "0") as recording:
            media = await one_segment(await recording.ready())
            assert await recording.end() == 0
            assert "session 1: closed by the client, 1000" in recording.output()
    async with Command(tmp_path, f"--replay={file}", "--port", "0", "--speed", "inf") as replay:
        url = await replay.ready()
        assert await one_segment(url) == media
        assert await replay.end(signal.SIGTERM) == 0
        assert "1 session played to its end, 0 differed" in replay.output()


async def test_a_recording_that_was_killed_can_be_replayed(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0", replicas=1) as emulator:
        of = emulator.urls["a"].replace("http", "ws")
        async with Command(tmp_path, "--record", str(file), "--of", of, "--port", "0") as recording:
            async with session(f"{await recording.ready()}/v1/stream") as client:
                await client.open()
                assert await client.segment("a pier")
                await recording.end(signal.SIGKILL)
    with file.open("ab") as half:
        half.write(b'{"session":1,"at":1.0,"s":{"type":"st')
    async with Command(tmp_path, "--replay", str(file), "--port", "0", "--speed", "inf") as replay:
        url = await replay.ready()
        async with session(f"{url}/v1/stream") as client:
            await client.open()
            assert await client.segment("a pier")
        await replay.until(lambda: "played to its end" in replay.output(), "the session is over")
        assert await replay.end() == 0
        assert "its last line is only half there" in replay.output()


async def test_a_client_that_differs_makes_the_replay_fail(tmp_path: Path) -> None:
    async with Command(tmp_path, "--replay", str(CASES), "--port", "0") as replay:
        async with session(await replay.ready()) as client:
            await client.send({"type": "session_init_v2"})
            assert (await client.to_the_end()).code == 1008
        assert await replay.end() == 1
        output = replay.output()
    assert "4 of its binary messages have no bytes" in output
    assert "session 1 DIFFERS at step 1 of 19 (line 1)" in output
    assert "at continuation_state: the client has nothing" in output


async def test_a_gateway_works_in_front_of_a_replay(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0", replicas=1) as emulator:
        of = emulator.urls["a"].replace("http", "ws")
        async with Command(tmp_path, "--record", str(file), "--of", of, "--port", "0") as recording:
            media = await one_segment(await recording.ready())
            assert await recording.end() == 0
    async with Command(tmp_path, "--replay", str(file), "--port", "0", "--speed", "inf") as replay:
        url = (await replay.ready()).replace("ws", "http")
        async with GatewayProcess(tmp_path, [url]) as gateway:
            assert await one_segment(f"ws://127.0.0.1:{gateway.port}") == media
            await replay.until(
                lambda: "session 1: played to its end" in replay.output(), "the session is over"
            )
        assert await replay.end() == 0


async def test_a_gateway_works_in_front_of_a_recording(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0", replicas=1) as emulator:
        of = emulator.urls["a"].replace("http", "ws")
        async with Command(tmp_path, "--record", str(file), "--of", of, "--port", "0") as recording:
            url = (await recording.ready()).replace("ws", "http")
            async with GatewayProcess(tmp_path, [url]) as gateway:
                assert await one_segment(f"ws://127.0.0.1:{gateway.port}")
            assert await recording.end() == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert any(line.get("http", "").startswith("GET /") for line in lines)
    assert any(line.get("c", {}).get("type") == "session_init_v2" for line in lines)


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--record", "new.jsonl"], 2, "the following arguments are required: --of"),
        (
            ["--record", "new.jsonl", "--of", "ws://127.0.0.1:1/v1"],
            1,
            "must be ws://host:port (or wss), without a path",
        ),
        (
            ["--record", "there.jsonl", "--of", "ws://127.0.0.1:1"],
            1,
            "there.jsonl is there already: name another file",
        ),
        (
            ["--record", "no/new.jsonl", "--of", "ws://127.0.0.1:1"],
            1,
            "no/new.jsonl cannot be written: No such file",
        ),
        (
            ["--record", "new.jsonl", "--of", "ws://127.0.0.1:1", "--port", "BUSY"],
            1,
            "choose another with --port",
        ),
        (["--replay", "missing.jsonl"], 1, "missing.jsonl cannot be read: No such file or directory"),
        (["--replay", "."], 1, ". cannot be read: Is a directory"),
        (["--replay", "/dev/zero"], 1, "/dev/zero is a device, and has no end: name a recording"),
        (["--replay", "there.jsonl"], 1, "there.jsonl, line 2: is no JSON"),
        (["--replay", "half.jsonl"], 1, 'half.jsonl, line 1: "s_text" has \\ud800, half of a surrogate pair'),
        (
            ["--record", "new.jsonl", "--of", "ws://127.0.0.1:1", "--limit-mib", "1025"],
            2,
            "must be 1024 at most",
        ),
        (["--replay", "empty.jsonl"], 1, 'empty.jsonl holds no session: no line has "conversation"'),
        (["--replay", str(CASES), "--port", "BUSY"], 1, "choose another with --port"),
        (["--replay", str(CASES), "--speed", "0"], 2, "must be a number above 0, or inf, not '0'"),
        (["--replay", str(CASES), "--sped", "2"], 2, "unrecognized arguments: --sped 2"),
    ],
)
async def test_what_cannot_be_done_is_told_in_a_line(
    tmp_path: Path, options: list[str], status: int, text: str
) -> None:
    (tmp_path / "there.jsonl").write_text('{"conversation": "a", "session": 1}\n{oops\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "half.jsonl").write_text('{"conversation": "a", "steps": [{"s_text": "\\ud800"}]}\n')
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        async with Command(tmp_path, *[port if word == "BUSY" else word for word in options]) as command:
            assert await command.wait() == status
            output = command.output()
    assert text in output
    assert "Traceback" not in output
    if status == 1:
        assert len(output.splitlines()) == 1
        assert output.startswith("emulator: ")
    assert not (tmp_path / "new.jsonl").exists()


async def test_waiting_for_a_pipe_that_nobody_writes_ends_by_ctrl_c(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with Command(tmp_path, "--replay", str(pipe)) as command:
        writers: list[int] = []

        def is_read() -> bool:
            with contextlib.suppress(OSError):  # ENXIO: nobody reads yet
                writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return bool(writers)

        await command.until(is_read, "it reads the pipe")
        assert await command.end() == 130
        assert command.output() == ""
        os.close(*writers)


async def test_the_help_of_the_plain_command_names_both(tmp_path: Path) -> None:
    async with Command(tmp_path, "--help") as command:
        assert await command.wait() == 0
        assert "--record FILE" in command.output()
        assert "--replay FILE" in command.output()
