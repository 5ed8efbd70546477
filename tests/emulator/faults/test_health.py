from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from emulator.farm import Farm
from emulator.faults import BadJson, Flap, HealthHang, HealthStatus, HugeBody, Redirect, SlowDrip, Warming
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import SHORT_SECONDS, arm, get, kinds, lift
from tests.support.waiting import eventually


async def test_a_slow_drip_never_pauses_for_long_and_takes_its_time(replica: Replica) -> None:
    await arm(replica, SlowDrip(seconds=0.5, pieces=25))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await get(replica.url + "/health")).json()["status"] == "ok"
    assert loop.time() - began >= 0.4
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    pieces: list[bytes] = []
    while not b"".join(pieces).endswith(b"}"):
        pieces.append(await reader.read(65536))
    writer.close()
    assert len(pieces) > 5


async def test_a_slow_drip_pours_out_once_it_is_lifted(replica: Replica) -> None:
    await arm(replica, SlowDrip(seconds=3600))
    answer = asyncio.ensure_future(get(replica.url + "/health"))
    await eventually(lambda: replica.status()["health_total"] == 1, "the request has come")
    await lift(replica, "slow_drip")
    assert (await answer).json()["status"] == "ok"


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_a_redirect_leads_to_a_healthy_answer_of_no_worth(replica: Replica, status: int) -> None:
    await arm(replica, Redirect(status=status))  # type: ignore[arg-type]
    answer = await get(replica.url + "/health")
    assert (answer.status_code, answer.headers["Location"]) == (status, "/moved")
    followed = await get(replica.url + "/health", follow_redirects=True)
    assert (followed.status_code, followed.json()["status"]) == (200, "ok")
    await arm(replica, Redirect(location="http://127.0.0.1:1/there"))
    assert (await get(replica.url + "/readyz")).headers["Location"] == "http://127.0.0.1:1/there"


async def test_bad_json_calls_itself_json(replica: Replica) -> None:
    await arm(replica, BadJson())
    answer = await get(replica.url + "/health")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    with pytest.raises(json.JSONDecodeError):
        answer.json()


async def test_a_huge_body_is_json_all_the_same(replica: Replica) -> None:
    await arm(replica, HugeBody(size_bytes=5_000_000))
    answer = await get(replica.url + "/health")
    assert len(answer.content) > 5_000_000
    assert answer.json()["status"] == "ok"
    assert (await get(replica.url + "/healthz")).json()["status"] == "ok"


async def test_a_head_of_a_huge_body_has_no_body(replica: Replica) -> None:
    await arm(replica, HugeBody(size_bytes=5_000_000))
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.head(replica.url + "/health")
        assert int(answer.headers["Content-Length"]) > 5_000_000
        assert answer.content == b""


async def test_flapping_health_goes_down_and_up_and_open_connections_stay(replica: Replica) -> None:
    await arm(replica, Flap(down_seconds=0.2, up_seconds=0.2))
    async with httpx.AsyncClient(trust_env=False) as client:

        async def status() -> int:
            return (await client.get(replica.url + "/health")).status_code

        async def is_down() -> bool:
            return await status() == 503

        async def is_up() -> bool:
            return await status() == 200

        for _ in range(2):
            await eventually(is_down, "down")
            await eventually(is_up, "up")
    assert replica.status()["connections_total"] == 1


async def test_a_hang_ends_as_soon_as_it_is_lifted_and_longer_ones_may_follow(replica: Replica) -> None:
    await arm(replica, HealthHang())
    answer = asyncio.ensure_future(get(replica.url + "/health"))
    await eventually(lambda: replica.status()["health_total"] == 1, "the request has come")
    await arm(replica, HealthHang(seconds=0.05))
    assert (await answer).status_code == 200
    assert replica.status()["faults"]["health_hang"]["struck"] == 1, "the new one has struck the same request"


async def test_several_faults_of_health_add_up(replica: Replica) -> None:
    await arm(
        replica,
        HealthHang(seconds=0.02),
        Warming(),
        HealthStatus(status=418),
        SlowDrip(seconds=0.05),
        HugeBody(size_bytes=1000),
    )
    answer = await get(replica.url + "/health")
    assert (answer.status_code, len(answer.content) > 1000) == (418, True)
    await lift(replica, "health_status")
    assert (await get(replica.url + "/health")).json()["status"] == "warming"


async def test_probes_count_against_times_and_probability(replica: Replica) -> None:
    await arm(replica, BadJson(body="x", times=2))
    assert [(await get(replica.url + "/health")).text == "x" for _ in range(3)] == [True, True, False]
    await arm(replica, Redirect(probability=0.5))
    found = {(await get(replica.url + "/health")).status_code for _ in range(20)}
    assert found == {200, 302}


async def test_a_prober_that_leaves_is_not_waited_for(isolated: Farm, replica: Replica) -> None:
    await arm(replica, HealthHang())
    with pytest.raises(httpx.ReadTimeout):
        await get(replica.url + "/health", timeout=SHORT_SECONDS)
    await eventually(lambda: kinds(isolated)[-1] == "connection_closed", "it is gone")
