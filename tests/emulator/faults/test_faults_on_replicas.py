"""Every fault, seen from the other end of a socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidHandshake

from emulator import faults
from emulator.farm import Farm, Isolation
from emulator.replica.frames import begun_frame
from emulator.replica.replica import Replica
from tests.emulator.sessions import Client, Finished, session
from tests.support.waiting import eventually

PROMPT = {"type": "segment_prompt_source", "prompt": "p"}


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2) as running:
        yield running


@pytest.fixture
async def a(farm: Farm) -> Replica:
    return farm.replicas["a"]


async def get(url: str, timeout: float = 20.0) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout) as client:
        return await client.get(url)


async def segment_to_the_end(client: Client) -> Finished:
    await client.open()
    await client.send(PROMPT)
    return await client.to_the_end()


async def is_refused(replica: Replica) -> bool:
    try:
        _, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # Taken by the kernel, and the port closed at that moment.
        return False
    writer.close()
    return False


# The port and the health routes


async def test_refuse_closes_the_port_at_once_and_leaves_open_sessions_alone(a: Replica) -> None:
    async with session(a.ws_url) as client:
        await client.open()
        a.set_fault(faults.Refuse())
        assert await is_refused(a)
        assert await client.segment("still here")
        a.clear_fault("refuse")
        await a.settle()
        assert not await is_refused(a)


async def test_refuse_ends_idle_http_connections(a: Replica) -> None:
    reader, writer = await asyncio.open_connection(a.spec.host, a.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await reader.readuntil(b"}")
    a.set_fault(faults.Refuse())
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_refuse_ends_by_itself_after_its_time(a: Replica) -> None:
    a.set_fault(faults.Refuse(for_seconds=0.2))
    assert await is_refused(a)

    async def is_back() -> bool:
        return not await is_refused(a)

    await eventually(is_back, "the port is open again")


async def test_refuse_begins_after_its_time(a: Replica) -> None:
    a.set_fault(faults.Refuse(after_seconds=0.2))
    assert not await is_refused(a)
    await eventually(lambda: is_refused(a), "the port is closed")


async def test_health_status_answers_so_many_requests(a: Replica) -> None:
    a.set_fault(faults.HealthStatus(status=500, times=2))
    assert [(await get(a.url + "/health")).status_code for _ in range(3)] == [500, 500, 200]


async def test_health_hang_never_answers(a: Replica) -> None:
    a.set_fault(faults.HealthHang())
    with pytest.raises(httpx.ReadTimeout):
        await get(a.url + "/health", timeout=0.2)


async def test_health_hang_answers_after_its_time(a: Replica) -> None:
    a.set_fault(faults.HealthHang(seconds=0.05))
    assert (await get(a.url + "/health")).json()["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "status"), [("/health", "warming"), ("/readyz", "warming"), ("/healthz", "ok")]
)
async def test_warming_is_told_with_status_200(a: Replica, path: str, status: str) -> None:
    a.set_fault(faults.Warming())
    answer = await get(a.url + path)
    assert (answer.status_code, answer.json()["status"]) == (200, status)


async def test_other_requests_are_answered_and_the_connection_kept(a: Replica) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(a.url + "/nothing")).status_code == 404
        assert (await client.post(a.url + "/health", json={"x": 1})).status_code == 405
        assert (await client.head(a.url + "/health")).status_code == 200
        assert (await client.get(a.url + "/health")).status_code == 200
    assert a.status()["connections_total"] == 1


async def test_garbage_is_answered_with_400(a: Replica) -> None:
    reader, writer = await asyncio.open_connection(a.spec.host, a.port)
    writer.write(b"\x16\x03\x01 garbage\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await writer.wait_closed()


# Sessions


async def test_latency_comes_before_every_message(a: Replica) -> None:
    a.set_fault(faults.Latency(seconds=0.01, jitter_seconds=0.01))
    loop = asyncio.get_running_loop()
    async with session(a.ws_url) as client:
        began = loop.time()
        await client.open()
        assert loop.time() - began >= 3 * 0.01


async def test_a_stall_goes_quiet_in_the_middle_of_a_segment_and_still_answers_pings(a: Replica) -> None:
    a.set_fault(faults.Stall())
    async with session(a.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        seen = [await client.receive() for _ in range(9)]
        assert [isinstance(item, bytes) for item in seen[-3:]] == [True] * 3
        await (await client.socket.ping())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.socket.recv()
        a.clear_fault("stall")
        assert (await client.receive_until("ltx2_segment_complete")).media


async def test_a_stall_may_end_in_a_reset(a: Replica) -> None:
    a.set_fault(faults.Stall(seconds=0.05, then="reset"))
    async with session(a.ws_url) as client:
        end = await segment_to_the_end(client)
    assert (end.types[-1], end.code) == ("media_init", None)


async def test_a_stall_may_come_before_the_handshake(a: Replica) -> None:
    a.set_fault(faults.Stall(point="upgrade", seconds=0.05))
    async with session(a.ws_url) as client:
        await client.open()


async def test_an_abort_begins_a_frame_and_resets(a: Replica) -> None:
    a.set_fault(faults.Abort())
    async with session(a.ws_url) as client:
        end = await segment_to_the_end(client)
    assert end.types[-1] == "media_init"
    assert len(end.media) == 3, "the last chunk is the one that was cut"
    assert end.code is None


async def test_an_abort_puts_its_bytes_on_the_wire_and_then_a_reset(a: Replica) -> None:
    a.set_fault(faults.Abort(point="open", declared_bytes=100_000, sent_bytes=5))
    reader, writer = await asyncio.open_connection(a.spec.host, a.port)
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    writer.write(
        f"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    header = bytes([0x82, 127]) + (100_000).to_bytes(8, "big")
    assert await reader.readexactly(len(header) + 5) == header + bytes(5) == begun_frame(100_000, 5)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    with pytest.raises(ConnectionResetError):
        await writer.wait_closed()


@pytest.mark.parametrize("declared", [1, 125, 126, 65535, 65536])
def test_a_begun_frame_is_a_legal_beginning(declared: int) -> None:
    frame = begun_frame(declared, 0)
    length = frame[1] if frame[1] < 126 else int.from_bytes(frame[2:], "big")
    assert (frame[0], length) == (0x82, declared)


async def test_a_reset_replaces_the_answer_to_the_upgrade(a: Replica) -> None:
    a.set_fault(faults.Reset(times=1))
    with pytest.raises((OSError, InvalidHandshake)):
        async with session(a.ws_url):
            pass
    async with session(a.ws_url) as client:
        await client.open()


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        ({"point": "open"}, 0),
        ({"point": "init"}, 0),
        ({"point": "segment"}, 3 + 6),
        ({"point": "segment", "segment": 1}, 3 + 8 + 6),
    ],
)
async def test_a_close_comes_with_its_code_at_its_point(
    a: Replica, fields: dict[str, Any], types: int
) -> None:
    a.set_fault(faults.CloseSession(code=4001, reason="session_gone", **fields))
    async with session(a.ws_url) as client:
        with contextlib.suppress(ConnectionClosedError):
            await client.send({"type": "session_init_v2"}, PROMPT, PROMPT)
        end = await client.to_the_end()
    assert (len(end.messages), end.code, end.reason) == (types, 4001, "session_gone")


async def test_a_close_now_reaches_an_idle_session(a: Replica) -> None:
    async with session(a.ws_url) as client:
        await client.open()
        a.set_fault(faults.CloseSession(code=1012, point="now"))
        assert (await client.to_the_end()).code == 1012


async def test_flaky_breaks_some_sessions_and_not_others_the_same_ones_with_the_same_seed() -> None:
    async def outcomes() -> list[str]:
        async with Farm(1, seed=3, faults={"a": [faults.Flaky(health=0)]}) as farm:
            found = []
            for _ in range(12):
                await eventually(lambda: _is_open(farm.replicas["a"]), "the port is open")
                found.append(await _outcome(farm.replicas["a"]))
            return found

    async def _is_open(replica: Replica) -> bool:
        return not replica.status()["refusing"] and not await is_refused(replica)

    async def _outcome(replica: Replica) -> str:
        try:
            async with session(replica.ws_url) as client:
                await client.open()
                await client.send(PROMPT)
                await client.receive_until("ltx2_segment_complete")
        except ConnectionClosedError as end:
            return str(end.rcvd.code if end.rcvd else None)
        except (OSError, InvalidHandshake):
            return "no handshake"
        return "whole"

    first = await outcomes()
    assert 2 <= first.count("whole") <= 10
    assert await outcomes() == first


# The process


@pytest.fixture(params=["none", "process"])
async def isolated(request: pytest.FixtureRequest) -> AsyncIterator[Farm]:
    isolation: Isolation = request.param
    async with Farm(2, isolate=isolation) as running:
        yield running


async def test_a_kill_resets_everything_and_a_restart_brings_it_back_warming(isolated: Farm) -> None:
    a = isolated.replicas["a"]
    async with session(a.ws_url) as client:
        await client.open()
        await isolated.kill("a")
        assert (await client.to_the_end()).code is None
    assert await is_refused(a)
    assert (a.status()["state"], a.sessions, a.pid) == ("killed", 0, None)
    await isolated.restart("a", warming_seconds=0.5)
    assert (await get(a.url + "/health")).json()["status"] == "warming"

    async def is_ready() -> bool:
        return bool((await get(a.url + "/health")).json()["status"] == "ok")

    await eventually(is_ready, "the replica is warm")
    async with session(a.ws_url) as client:
        await client.open()
    assert a.status()["sessions_total"] == 2


async def test_a_killed_replica_comes_back_by_itself_when_told_so(isolated: Farm) -> None:
    await isolated.kill("a", restart_after_seconds=0.1)
    await eventually(lambda: isolated.replicas["a"].status()["state"] == "running", "it is back")
    async with session(isolated.replicas["a"].ws_url) as client:
        await client.open()


async def test_a_paused_replica_takes_connects_and_says_nothing_until_it_goes_on(isolated: Farm) -> None:
    a = isolated.replicas["a"]
    async with session(a.ws_url) as client:
        await client.open()
        await isolated.pause("a")
        await client.send(PROMPT)
        assert not await is_refused(a)
        with pytest.raises(httpx.ReadTimeout):
            await get(a.url + "/health", timeout=0.2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.socket.recv()
        await isolated.resume("a")
        assert (await client.receive_until("ltx2_segment_complete")).media
        assert (await get(a.url + "/health")).status_code == 200


async def test_a_pause_ends_by_itself_after_its_time(isolated: Farm) -> None:
    await isolated.pause("a", for_seconds=0.1)
    await eventually(lambda: isolated.replicas["a"].status()["state"] == "running", "it goes on")
    assert (await get(isolated.replicas["a"].url + "/health")).status_code == 200


async def test_a_reset_makes_all_as_new(isolated: Farm) -> None:
    isolated.set_fault("a", faults.Refuse())
    await isolated.kill("b")
    await isolated.reset()
    for replica in isolated.replicas.values():
        assert (await get(replica.url + "/health")).status_code == 200
        assert replica.status()["faults"] == {}


async def test_faults_outlive_a_restart_with_their_counts(isolated: Farm) -> None:
    a = isolated.replicas["a"]
    a.set_fault(faults.HealthStatus(times=2))
    await a.settle()
    assert (await get(a.url + "/health")).status_code == 503
    await eventually(lambda: a.status()["faults"]["health_status"]["struck"] == 1, "the strike is counted")
    await isolated.restart("a")
    assert [(await get(a.url + "/health")).status_code for _ in range(2)] == [503, 200]


async def test_a_closed_port_is_given_to_nobody_else(a: Replica, farm: Farm) -> None:
    await farm.kill("a")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((a.spec.host, a.port))
    assert urlsplit(a.url).port == a.port
