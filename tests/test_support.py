"""The tests' own instruments: what they report must be what was on the wire."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.peer import Ending, Peer, PeerEndedError
from tests.support.processes import ROOT, RunningProcess
from tests.support.raw_client import HandshakeRefusedError, connect, raw_client
from tests.support.scripted_replica import Accept, Health, Refuse, ScriptedReplica
from tests.support.waiting import eventually


@pytest.fixture
async def replica() -> AsyncIterator[ScriptedReplica]:
    async with ScriptedReplica() as replica:
        yield replica


async def test_the_request_is_recorded_octet_for_octet(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port, "/v1/stream?t=a%2Fb&t=c", headers=[("X-One", "1"), ("x-one", "2")]):
        await replica.session()
    (request,) = replica.upgrades
    assert request.target == "/v1/stream?t=a%2Fb&t=c"
    assert [pair for pair in request.headers if pair[0].lower() == "x-one"] == [
        ("X-One", "1"),
        ("x-one", "2"),
    ]


async def test_messages_of_any_size_arrive_both_ways(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port) as client:
        session = await replica.session()
        await client.send("hällo")
        await session.send(b"x" * (1 << 20))
        await session.send_fragments([b"a", b"b", b"c"])
        assert await session.recv() == "hällo"
        assert await client.recv() == b"x" * (1 << 20)
        assert await client.recv() == b"abc"


async def test_a_close_is_seen_with_code_and_reason(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port) as client:
        session = await replica.session()
        await session.close(4001, "session_gone")
        assert await client.ended() == Ending(4001, "session_gone")
        with pytest.raises(PeerEndedError):
            await client.recv()
        assert (await session.ended()).code == 4001


async def test_an_illegal_code_on_the_wire_is_a_fault(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port) as client:
        session = await replica.session()
        await session.send_raw(b"\x88\x02" + (1005).to_bytes(2, "big"))
        assert (await client.ended()).fault is not None


async def test_an_abort_in_mid_message_has_no_code(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port) as client:
        session = await replica.session()
        await session.abort_mid_message()
        assert await client.ended() == Ending(None, "")


async def test_a_client_that_stops_reading_holds_the_sender_up(replica: ScriptedReplica) -> None:
    async with raw_client(replica.port) as client:
        session = await replica.session()
        client.pause_reading()
        with pytest.raises(TimeoutError):
            await _send_for(session, seconds=1)
        sent = session.bytes_sent
        client.resume_reading()
        await eventually(lambda: client.received_messages >= sent // (1 << 20), "what was sent arrives")


async def test_refusals_are_shown_whole(replica: ScriptedReplica) -> None:
    replica.upgrade = Refuse(429, [("Retry-After", "7")], b"busy")
    with pytest.raises(HandshakeRefusedError) as refusal:
        await connect(replica.port)
    assert (refusal.value.status, refusal.value.header("retry-after"), refusal.value.body) == (
        429,
        "7",
        b"busy",
    )


@pytest.mark.parametrize(("chosen", "expected"), [("b", "b"), (None, None)])
async def test_the_subprotocol_is_the_replicas_choice(
    replica: ScriptedReplica, chosen: str | None, expected: str | None
) -> None:
    replica.upgrade = Accept(lambda _offered: chosen)
    async with raw_client(replica.port, subprotocols=["a", "b"]) as client:
        assert client.subprotocol == expected
    assert replica.upgrades[0].subprotocols == ["a", "b"]


async def test_a_killed_replica_refuses_and_comes_back_on_its_port(replica: ScriptedReplica) -> None:
    port = replica.port
    async with raw_client(port) as client:
        await replica.session()
        await replica.kill()
        assert (await client.ended()).code is None
    with pytest.raises(ConnectionRefusedError):
        await connect(port)
    await replica.start()
    assert replica.port == port
    async with raw_client(port):
        pass


async def test_health_answers_what_it_is_told(replica: ScriptedReplica) -> None:
    replica.health = Health(503, b'{"status": "warming"}')
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(replica.url + "/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "warming"})
    assert [request.target for _, request in replica.health_requests] == ["/health"]


async def test_a_process_that_ends_too_soon_shows_its_output(tmp_path: Path) -> None:
    program = "import sys; print('reason'); sys.exit(3)"
    async with RunningProcess([sys.executable, "-c", program], log=tmp_path / "log") as process:
        with pytest.raises(AssertionError, match=r"exit status 3[\s\S]*reason"):
            await process.until(lambda: False, "it serves")


async def test_a_process_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    program = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('up', flush=True)\n"
        "time.sleep(600)"
    )
    process = RunningProcess([sys.executable, "-c", program], log=tmp_path / "log")
    await process.until(lambda: "up" in process.output(), "it is up")
    tree = process.tree()
    await process.stop(timeout=0.5)
    assert len(tree) == 2
    await eventually(lambda: not any(member.is_running() for member in tree), "the whole tree is gone")


async def _send_for(session: Peer, *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            await session.send(b"x" * (1 << 20))


STARTER = """
import sys, time
from pathlib import Path
from tests.support.processes import RunningProcess
command = [sys.executable, "-c", "import time; time.sleep(60)"]
started = RunningProcess(command, log=Path("tied.log"), tied=True)
print(started.pid, flush=True)
time.sleep(60)
"""


async def test_a_tied_process_ends_with_whoever_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER]
    env = {"PYTHONPATH": str(ROOT)}
    async with RunningProcess(command, log=tmp_path / "starter.log", env=env, cwd=tmp_path) as starter:
        await starter.until(lambda: starter.output().endswith("\n"), "it has started one")
        tied = psutil.Process(int(starter.output()))
        starter.send_signal(signal.SIGKILL)
        await eventually(lambda: not tied.is_running(), "it is gone")
