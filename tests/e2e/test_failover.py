"""The main job on real processes: replicas that fail, the gateway before them, clients that try again."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from tests.support.close_codes import assert_in_table
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_port
from tests.support.streaming_client import Attempt, Outcome, drive_session, drive_until_complete
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

FAST = ("--segment-seconds", "0.05")


async def test_clients_that_try_again_all_complete_beside_a_flaky_replica(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--flaky", "b", *FAST) as emulator:
        spread: dict[str, object] = {"selection__policy": "round_robin"}
        async with GatewayProcess(tmp_path, emulator.settings(), settings=spread) as gateway:
            # Its health is flaky as well: without a wait it might not be in the round at all.
            await gateway.until_status(emulator.urls["b"], "healthy")
            async with asyncio.TaskGroup() as tasks:
                driven = [tasks.create_task(drive_until_complete(gateway.ws)) for _ in range(8)]
            outcomes = [task.result() for task in driven]
            await gateway.until_no_sessions()
        totals = await emulator.sessions_total()
    assert all(outcome.completed for outcome in outcomes), outcomes
    for attempt in _broken(outcomes):
        assert_in_table(attempt)
    assert totals["b"] > 0, "the flaky replica was never asked: this run shows nothing"


async def test_with_every_replica_down_a_client_is_told_so_in_band(tmp_path: Path) -> None:
    downs = ("--down", "a", "--down", "b", "--down", "c")
    async with EmulatorProcess(tmp_path, *downs) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), wait_for="/healthz") as gateway:
            async with connect(gateway.ws, proxy=None) as client:
                message = json.loads(await client.recv())
                assert message["type"] == "error"
                assert message["code"] == "gpu_unavailable"
                assert message["retryable"] is True
                with pytest.raises(ConnectionClosedError) as closed:
                    await client.recv()
                assert closed.value.rcvd is not None
                assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1013, "no_healthy_replica")
            assert (await gateway.get("/readyz")).status_code == 503


async def test_a_replica_killed_under_its_session_is_1011_and_the_next_try_goes_elsewhere(
    tmp_path: Path,
) -> None:
    async with EmulatorProcess(tmp_path, "--segment-seconds", "30") as emulator:
        told: dict[str, object] = {"session__resume": False}
        primary = emulator.settings(a={"primary": True})
        async with GatewayProcess(tmp_path, primary, settings=told) as gateway:
            async with asyncio.TaskGroup() as tasks:
                driven = tasks.create_task(drive_session(gateway.ws))
                await eventually(lambda: _has_session(emulator, "a"), "replica a has the session")
                await emulator.kill("a")
            attempt = driven.result()
            assert (attempt.close_code, attempt.close_reason) == (1011, "replica_lost")
            async with asyncio.TaskGroup() as tasks:
                again = tasks.create_task(drive_session(gateway.ws))
                await eventually(lambda: _has_session(emulator, "b"), "replica b has the next session")
                again.cancel()


async def test_a_killed_replica_is_found_and_served_again_when_it_is_back(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(a={"primary": True})) as gateway:
            assert (await drive_session(gateway.ws)).completed
            await emulator.kill("a")
            assert (await drive_session(gateway.ws)).completed, "killed between two probes: nothing to notice"
            await gateway.until_status(emulator.urls["a"], "unhealthy")
            assert (await drive_session(gateway.ws)).completed
            await emulator.restart("a")
            await gateway.until_status(emulator.urls["a"], "healthy")
            before = await emulator.sessions_total()
            assert (await drive_session(gateway.ws)).completed
            after = await emulator.sessions_total()
    assert after["a"] == before["a"] + 1


async def test_last_words_reach_a_client_that_is_still_talking(tmp_path: Path) -> None:
    """A server that closes while something is under way resets the connection, and unread words are lost."""

    async def talks() -> tuple[list[str], int | None]:
        heard: list[str] = []
        async with connect(gateway.ws, proxy=None) as client:
            with suppress(ConnectionClosed):
                for _ in range(3):
                    await client.send("x" * 100_000)
            with suppress(ConnectionClosed):
                while True:
                    heard.append(json.loads(await client.recv())["code"])
        return heard, client.close_code

    async with GatewayProcess(tmp_path, [f"http://127.0.0.1:{free_port()}"], wait_for="/healthz") as gateway:
        for _ in range(5):
            told = await asyncio.gather(*(talks() for _ in range(20)))
            assert told == [(["gpu_unavailable"], 1013)] * 20


async def test_replicas_in_processes_of_their_own_fail_over_too(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--isolate", "process", *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(a={"primary": True})) as gateway:
            assert (await drive_session(gateway.ws)).completed
            await emulator.kill("a")
            assert (await drive_session(gateway.ws)).completed
            await emulator.restart("a")
            await gateway.until_status(emulator.urls["a"], "healthy")


async def test_a_full_replica_is_passed_over_and_full_replicas_are_told_in_band(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--segment-seconds", "30", replicas=2) as emulator:
        one_each = emulator.settings(a={"max_sessions": 1}, b={"max_sessions": 1})
        no_line: dict[str, object] = {"admission__queue_size": 0}
        async with GatewayProcess(tmp_path, one_each, settings=no_line) as gateway:
            async with asyncio.TaskGroup() as tasks:
                open_ones = [tasks.create_task(drive_session(gateway.ws)) for _ in range(2)]
                await eventually(lambda: _both_have(emulator), "one session on each replica")
                refused = await drive_session(gateway.ws)
                for task in open_ones:
                    task.cancel()
            assert refused.errors == ["gpu_unavailable"]
            assert (refused.close_code, refused.close_reason) == (1013, "queue_full")


async def _has_session(emulator: EmulatorProcess, name: str) -> bool:
    return int((await emulator.replica(name))["sessions"]) > 0


async def _both_have(emulator: EmulatorProcess) -> bool:
    return await _has_session(emulator, "a") and await _has_session(emulator, "b")


def _broken(outcomes: list[Outcome]) -> list[Attempt]:
    return [attempt for outcome in outcomes for attempt in outcome.broken]
