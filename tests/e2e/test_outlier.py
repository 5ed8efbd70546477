"""Replicas that lose their sessions although their probes pass; and what loses sessions everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import clients_of
from tests.support.long_session import Prompt, live
from tests.support.undisturbed import assert_lost, assert_undisturbed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

FAST = ("--segment-seconds", "0.02")
REAL = ("--isolate", "process", *FAST)
PROMPTS = [Prompt(f"scene {number}", seed=number) for number in range(2)]
STRICT: dict[str, object] = {"outlier__consecutive_losses": 1, "selection__policy": "least_sessions"}
"""One loss that is held against a replica ejects it."""


async def ejected(gateway: GatewayProcess) -> set[str]:
    """Names of the replicas that are left out now."""
    report = (await gateway.get("/status")).json()
    return {replica["name"] for replica in report["replicas"] if replica["ejected"]}


async def test_a_replica_that_loses_its_sessions_is_left_out_and_comes_back(tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "outlier__consecutive_losses": 3,
        "outlier__base_seconds": 3,
        "selection__policy": "round_robin",
    }
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
            await emulator.arm("b", "abort")

            async def is_ejected() -> bool:
                assert_undisturbed(await live(gateway.ws, PROMPTS), PROMPTS)
                return await ejected(gateway) == {"b"}

            await eventually(is_ejected, "b is ejected")
            assert await emulator.struck("b", "abort") == 3
            assert set((await gateway.statuses()).values()) == {"healthy"}
            await emulator.lift("b", "abort")
            before = await emulator.sessions_total()

            async def is_back() -> bool:
                assert_undisturbed(await live(gateway.ws, PROMPTS), PROMPTS)
                return (await emulator.sessions_total())["b"] > before["b"]

            await eventually(is_back, "b gets sessions again")
            assert await ejected(gateway) == set()


async def test_a_poisonous_prompt_takes_two_replicas_and_no_more(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, "--poison", "deadly", replicas=10) as emulator:
        gateway = GatewayProcess(tmp_path, emulator.settings(), settings=STRICT)
        async with gateway, clients_of(gateway) as clients:
            others = [clients.come(f"other {number}") for number in range(8)]
            for other in others:
                await other.until_served()
            asked = [Prompt("harmless"), Prompt("a deadly one"), Prompt("never asked")]
            story = await live(gateway.ws, asked)
            assert_lost(story, retryable=False)
            assert story.completed == 1
            await eventually(lambda: _dead(emulator, 2), "two replicas died")
            assert await ejected(gateway) == set()
            for _ in range(8):
                assert_undisturbed(await live(gateway.ws, PROMPTS), PROMPTS)
            for other in others:
                other.let_go()
                await other.over()
                other.assert_served()
                assert other.story.resumed == [], "the other eight serve on"
            assert await ejected(gateway) == set()
            assert await _dead(emulator, 2)
            await gateway.until_no_sessions()


async def test_a_poisonous_opening_takes_two_replicas_and_no_more(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, replicas=4) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=STRICT) as gateway:
            for name in emulator.urls:
                await emulator.arm(name, "kill", point="init")
            assert_lost(await live(gateway.ws, PROMPTS), retryable=False)
            await eventually(lambda: _dead(emulator, 2), "two replicas died")
            assert await ejected(gateway) == set()


async def test_a_loss_after_which_the_session_ended_for_want_of_replicas_poisons_nobody(
    tmp_path: Path,
) -> None:
    async with EmulatorProcess(tmp_path, *REAL, "--poison", "deadly", replicas=1) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=STRICT) as gateway:
            assert_lost(await live(gateway.ws, [Prompt("deadly")]))


@pytest.mark.parametrize("garbage", ["not json", '{"type":"snapshot_state"}', b"\x00\x01"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_clients_own_fault_is_held_against_no_replica(
    tmp_path: Path, garbage: str | bytes, begun: bool
) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=STRICT) as gateway:
            for _ in range(3):
                async with connect(gateway.ws, proxy=None) as client:
                    if begun:
                        await client.send('{"type":"session_init_v2"}')
                        while "ltx2_stream_start" not in str(await client.recv()):
                            pass
                    await client.send(garbage)
                    try:
                        while "internal_error" not in str(await client.recv()):
                            pass
                    except ConnectionClosed:
                        continue
            await gateway.until_no_sessions()
            assert await ejected(gateway) == set()
            assert sum((await emulator.sessions_total()).values()) == 3, "nothing was tried twice"
            assert set((await gateway.statuses()).values()) == {"healthy"}


async def _dead(emulator: EmulatorProcess, count: int) -> bool:
    states = [(await emulator.replica(name))["state"] for name in emulator.urls]
    return states.count("killed") == count
