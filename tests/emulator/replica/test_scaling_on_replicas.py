"""Replicas that scale to zero, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from emulator.farm import Farm, Isolation
from emulator.replica.replica import Replica
from emulator.replica.scaling import ScaleToZero
from tests.emulator.sessions import session
from tests.support.waiting import eventually

BRISK = ScaleToZero(idle_seconds=0.8, wake_seconds=0.3)
TIRELESS = ScaleToZero(idle_seconds=3600, wake_seconds=0.2)


def asking() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=20, trust_env=False, verify=False)


def power(replica: Replica) -> str:
    return str(replica.status()["scale_to_zero"]["power"])


def wakes(replica: Replica) -> int:
    return int(replica.status()["scale_to_zero"]["wakes"])


def billed(replica: Replica) -> float:
    return float(replica.status()["scale_to_zero"]["billed_seconds"])


async def until_asleep(replica: Replica) -> None:
    await eventually(lambda: power(replica) == "asleep", "it sleeps")


def told(farm: Farm, *kinds: str) -> list[str]:
    return [event.kind for event in farm.events(limit=10_000).events if event.kind in kinds]


@pytest.fixture(params=["none", "process"])
async def farm(request: pytest.FixtureRequest) -> AsyncIterator[Farm]:
    isolation: Isolation = request.param
    async with Farm(replicas=2, isolate=isolation, scale_to_zero={"a": BRISK}) as farm:
        yield farm


async def test_a_probe_wakes_it_and_is_answered_once_it_is_warm(farm: Farm) -> None:
    a = farm.replicas["a"]
    assert (power(a), wakes(a), billed(a)) == ("asleep", 0, 0.0)
    assert farm.replicas["b"].status()["scale_to_zero"] is None
    async with asking() as client:
        answer = await client.get(f"{a.url}/readyz")
    assert answer.json()["status"] == "ready"
    assert answer.elapsed.total_seconds() > BRISK.wake_seconds * 0.9
    await until_asleep(a)
    assert wakes(a) == 1
    assert billed(a) >= (BRISK.wake_seconds + BRISK.idle_seconds) * 0.9
    assert told(farm, "woken", "warmed", "fell_asleep") == ["woken", "warmed", "fell_asleep"]
    slept_at = billed(a)
    await asyncio.sleep(0.1)
    assert billed(a) == slept_at


async def test_a_session_wakes_it_and_keeps_it_awake(farm: Farm) -> None:
    a = farm.replicas["a"]
    async with session(a.ws_url) as client:
        await client.open()
        await asyncio.sleep(1.5 * BRISK.idle_seconds)
        assert power(a) == "awake"
        await client.segment("a pier")
    await until_asleep(a)
    assert wakes(a) == 1


async def test_many_that_come_at_once_wake_it_once() -> None:
    async with Farm(replicas=1, scale_to_zero={"a": TIRELESS}) as farm, asking() as client:
        a = farm.replicas["a"]
        answers = await asyncio.gather(*(client.get(f"{a.url}/health") for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        assert wakes(a) == 1


async def test_a_connection_that_is_kept_lets_it_sleep_and_wakes_it_with_its_next_request(farm: Farm) -> None:
    a = farm.replicas["a"]
    async with asking() as client:
        await client.get(f"{a.url}/health")
        await until_asleep(a)
        again = await client.get(f"{a.url}/health")
        assert again.elapsed.total_seconds() > BRISK.wake_seconds * 0.9
    assert wakes(a) == 2
    assert a.status()["connections_total"] == 1


async def test_a_client_that_leaves_meanwhile_has_woken_it_all_the_same(farm: Farm) -> None:
    a = farm.replicas["a"]
    _, writer = await asyncio.open_connection("127.0.0.1", a.port)
    await eventually(lambda: power(a) == "waking", "it wakes")
    writer.close()
    await writer.wait_closed()
    await until_asleep(a)
    assert told(farm, "woken", "warmed", "fell_asleep") == ["woken", "warmed", "fell_asleep"]
    assert billed(a) > 0


async def test_one_that_is_killed_costs_nothing_and_is_back_asleep() -> None:
    async with Farm(replicas=1, scale_to_zero={"a": TIRELESS}) as farm:
        a = farm.replicas["a"]
        async with asking() as client:
            await client.get(f"{a.url}/health")
        assert power(a) == "awake"
        await farm.kill("a")
        before = billed(a)
        assert before > 0
        await farm.restart("a")
        assert (power(a), wakes(a), billed(a)) == ("asleep", 1, before)
        async with asking() as client:
            await client.get(f"{a.url}/health")
        assert wakes(a) == 2
        assert billed(a) > before
