from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidHandshake, InvalidStatus

from emulator.farm import Farm
from emulator.faults import GluedFirstFrame, Reject, SlowUpgrade, Stall, UpgradeStatus
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import UPGRADE, arm, kinds, lift, stays_away
from tests.emulator.sessions import session
from tests.support.waiting import PATIENCE_SECONDS, eventually


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"status": 401}, {}),
        ({"status": 403, "body": "not you"}, {}),
        ({"status": 429, "retry_after_seconds": 7}, {"Retry-After": "7"}),
        ({"status": 500}, {}),
        ({"status": 503, "retry_after_seconds": 0}, {"Retry-After": "0"}),
        ({"status": 302, "location": "http://127.0.0.1:1/x"}, {"Location": "http://127.0.0.1:1/x"}),
    ],
)
async def test_an_upgrade_is_refused_with_a_status(
    replica: Replica, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    await arm(replica, UpgradeStatus(times=1, **fields))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, *lines = head.split("\r\n")
    assert status.split()[1] == str(fields["status"])
    found = dict(line.split(": ", 1) for line in lines)
    assert {name: found.get(name) for name in ("Location", "Retry-After") if name in found} == headers
    assert body == fields.get("body", "")
    async with session(replica.ws_url) as client:
        await client.open()


async def test_some_upgrades_are_refused_and_others_are_not(replica: Replica) -> None:
    async def status() -> int:
        try:
            async with session(replica.ws_url):
                return 101
        except InvalidStatus as refusal:
            return refusal.response.status_code

    await arm(replica, UpgradeStatus(probability=0.5))
    assert {await status() for _ in range(16)} == {101, 503}
    await arm(replica, UpgradeStatus(session=18))
    assert [await status() for _ in range(3)] == [101, 503, 101]


async def test_a_slow_upgrade_comes_in_pieces(replica: Replica) -> None:
    await arm(replica, SlowUpgrade(seconds=0.2, pieces=4))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    pieces: list[bytes] = []
    while not b"".join(pieces).endswith(b"\r\n\r\n"):
        pieces.append(await reader.read(65536))
    writer.close()
    assert b"".join(pieces).startswith(b"HTTP/1.1 101 ")
    assert len(pieces) > 1
    async with session(replica.ws_url) as client:
        await client.open()


async def test_a_slow_upgrade_is_over_as_soon_as_it_is_lifted(replica: Replica) -> None:
    await arm(replica, SlowUpgrade(seconds=3600))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    assert await stays_away(reader.readexactly(1))
    await lift(replica, "slow_upgrade")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def test_whoever_leaves_during_a_slow_upgrade_is_not_kept(isolated: Farm, replica: Replica) -> None:
    await arm(replica, SlowUpgrade(seconds=3600))
    _, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    await eventually(lambda: replica.status()["sessions_total"] == 1, "the request has come")
    writer.close()
    await eventually(lambda: kinds(isolated)[-1] == "connection_closed", "it is gone")


async def test_the_first_frame_is_glued_to_the_answer(replica: Replica) -> None:
    await arm(replica, GluedFirstFrame(times=1))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    head, _, rest = (await reader.read(65536)).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert rest[:1] == b"\x81"
    assert b'"queue_status"' in rest, "in one read, so in one segment"


async def test_a_session_with_a_glued_frame_is_a_session(replica: Replica) -> None:
    await arm(replica, GluedFirstFrame())
    async with session(replica.ws_url) as client:
        assert (await client.receive_until("queue_status")).types == ["queue_status"]
        assert (await client.open()).types == ["queue_status", "gpu_assigned", "ltx2_stream_start"]
        assert await client.segment("p")


async def test_a_glued_frame_may_come_slowly_and_before_a_refusal(replica: Replica) -> None:
    await arm(replica, GluedFirstFrame(), SlowUpgrade(seconds=0.1), Reject())
    async with session(replica.ws_url) as client:
        end = await client.to_the_end()
    assert (end.types, end.code) == (["queue_status", "error"], 1013)


async def test_a_stall_before_the_handshake_that_is_lifted_does_not_reset(replica: Replica) -> None:
    await arm(replica, Stall(point="upgrade", seconds=3600, then="reset", times=1))
    opening = asyncio.ensure_future(_visit(replica))
    await eventually(lambda: replica.status()["sessions_total"] == 1, "the request has come")
    await lift(replica, "stall")
    await opening
    await arm(replica, Stall(point="upgrade", seconds=0.05, then="reset"))
    with pytest.raises((OSError, InvalidHandshake, ConnectionClosedError)):
        await _visit(replica)


async def _visit(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
