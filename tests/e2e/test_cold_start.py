"""Replicas that cost something while they are awake, and a gateway that lets them sleep.

The emulator's replicas count what wakes them: one probe too many would show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import QUICK, GatewayProcess
from tests.support.held_clients import Held, clients_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

WAKE_SECONDS, IDLE_SECONDS = 2.0, 2.0
SCALING = ("--wake-seconds", str(WAKE_SECONDS), "--idle-seconds", str(IDLE_SECONDS))
COLD = ("--scale-to-zero", "a", "--scale-to-zero", "b", *SCALING)
SETTINGS: dict[str, object] = {
    "router__cold_start": {"connect_timeout_seconds": 5, "idle_seconds": 0.5},
    "selection__policy": "priority",
}
SOME_PROBES_SECONDS = 1.5
"""Several of the gateway's intervals."""


async def power(emulator: EmulatorProcess, name: str) -> str:
    return str((await emulator.replica(name))["scale_to_zero"]["power"])


async def woken(emulator: EmulatorProcess) -> dict[str, int]:
    return {name: (await emulator.replica(name))["scale_to_zero"]["wakes"] for name in emulator.urls}


async def status(gateway: GatewayProcess, name: str) -> Mapping[str, Any]:
    said = (await gateway.get("/status")).json()["replicas"]
    return next(dict(one) for one in said if one["name"] == name)


async def until_asleep(emulator: EmulatorProcess, gateway: GatewayProcess, name: str) -> None:
    """The gateway leaves the replica alone, which is asleep therefore."""

    async def asleep() -> bool:
        is_left_alone = bool((await status(gateway, name))["sleeping"])
        return is_left_alone and await power(emulator, name) == "asleep"

    await eventually(asleep, f"{name} sleeps", timeout=40)


async def until_left_alone(gateway: GatewayProcess, name: str) -> None:
    async def alone() -> bool:
        found = await status(gateway, name)
        return bool(found["active_sessions"] == found["pending_sessions"] == 0)

    await eventually(alone, f"no session is on {name}")


async def let_go(*clients: Held) -> None:
    for client in clients:
        client.let_go()
        await client.over()
        client.assert_served()


async def test_replicas_sleep_until_a_session_needs_one_and_go_back_to_sleep(tmp_path: Path) -> None:
    assert QUICK["router__health_check__interval_seconds"] == 0.2
    async with EmulatorProcess(tmp_path, *COLD, "--segment-seconds", "0.05", replicas=2) as emulator:
        cold = emulator.settings(a={"cold_start": True}, b={"cold_start": True})
        async with (
            GatewayProcess(tmp_path, cold, settings=SETTINGS) as gateway,
            clients_of(gateway) as clients,
        ):
            # Nobody needs them: nobody asks them.
            await asyncio.sleep(SOME_PROBES_SECONDS)
            for name in emulator.urls:
                assert (await emulator.replica(name))["connections_total"] == 0
                found = await status(gateway, name)
                assert (found["sleeping"], found["status"]) == (True, "unknown")
            assert (await gateway.get("/readyz")).status_code == 200

            # Several at once wake one, once, and are told that they wait.
            several = [clients.come(f"client {number}") for number in range(3)]
            for client in several:
                await client.until_served()
                assert client.story.queue[0] == (0, 1), "as the gateway says it, and no replica"
            assert await woken(emulator) == {"a": 1, "b": 0}
            found = await status(gateway, "a")
            assert (found["sleeping"], found["status"], found["active_sessions"]) == (False, "healthy", 3)
            await eventually(lambda: _is_probed(emulator, "a"), "it is probed while it is awake")
            await let_go(*several)

            # Idle, it sleeps, and is not disturbed.
            await until_asleep(emulator, gateway, "a")
            before = await emulator.replica("a")
            await asyncio.sleep(SOME_PROBES_SECONDS)
            assert await emulator.replica("a") == before

            # A client that leaves meanwhile leaves nothing behind.
            leaving = clients.come("leaving")
            await eventually(lambda: _has_wakes(emulator, "a", 2), "it wakes a")
            await leaving.leave()
            await until_left_alone(gateway, "a")
            assert (await status(gateway, "a"))["sleeping"]
            await until_asleep(emulator, gateway, "a")
            assert await woken(emulator) == {"a": 2, "b": 0}

            # One that does not wake: the next one is woken.
            await emulator.kill("a")
            elsewhere = clients.come("elsewhere")
            await elsewhere.until_waiting(0)
            await elsewhere.until_served()
            assert await woken(emulator) == {"a": 2, "b": 1}
            await let_go(elsewhere)
            await until_asleep(emulator, gateway, "b")

            # None wakes: the client is told so in band.
            await emulator.kill("b")
            refused = await clients.come("refused").over()
            assert [(error["code"], error["retryable"]) for error in refused.errors] == [
                ("gpu_unavailable", True)
            ]
            assert (refused.close_code, refused.close_reason) == (1013, "no_healthy_replica")

            # Whoever comes when they are back is served.
            await emulator.restart("a")
            await emulator.restart("b")
            again = clients.come("again")
            await again.until_served()
            await let_go(again)
            assert "Traceback" not in gateway.output()


async def _has_wakes(emulator: EmulatorProcess, name: str, count: int) -> bool:
    return (await woken(emulator))[name] == count


async def _is_probed(emulator: EmulatorProcess, name: str) -> bool:
    return bool((await emulator.replica(name))["health_total"])
