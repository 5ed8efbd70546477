"""How the gateway finds out that a replica does not serve a session any more, and what it does about that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import After, LongSession, Prompt, Step, live
from tests.support.undisturbed import assert_undisturbed, resumes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

REAL = ("--isolate", "process")
PROMPTS = [Prompt(f"scene {number}", seed=number) for number in range(4)]
PINGS: dict[str, object] = {"session__ping_interval_seconds": 0.3, "session__ping_timeout_seconds": 0.7}


async def test_a_replica_that_stands_still_is_found_by_its_missing_pongs(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, "--segment-seconds", "0.5") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=PINGS) as gateway:
            session = LongSession(gateway.ws, PROMPTS)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.run())
                await eventually(lambda: session.story.completed >= 1, "a segment is complete")
                await emulator.pause("a")
            await emulator.resume("a")
            await eventually(lambda: _is_free(emulator, "a"), "the old session is gone from it")
            await gateway.until_no_sessions()
    assert_undisturbed(session.story, PROMPTS)
    assert [name for _, name in resumes(session.story)] == ["b"]


async def test_a_replica_that_says_nothing_and_answers_no_ping_is_lost(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=PINGS) as gateway:
            await emulator.arm("a", "no_pong")
            await emulator.arm("a", "stall", point="segment", segment=1)
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(1, "b")]


async def test_a_stall_inside_a_segment_is_a_loss_where_that_is_asked_for(tmp_path: Path) -> None:
    patience: dict[str, object] = {"session__segment_stall_seconds": 1}
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=patience) as gateway:
            await emulator.arm("a", "stall", point="segment", segment=1)
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(1, "b")]


async def test_a_silence_between_segments_is_no_stall(tmp_path: Path) -> None:
    patience: dict[str, object] = {"session__segment_stall_seconds": 0.3}
    rested = asyncio.Event()
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=patience) as gateway:
            session = LongSession(gateway.ws, [PROMPTS[0], After(rested), PROMPTS[1]])
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.run())
                await eventually(lambda: session.story.completed >= 1, "a segment is complete")
                await asyncio.sleep(1)
                rested.set()
    assert_undisturbed(session.story, PROMPTS[:2])
    assert session.story.resumed == []


@pytest.mark.parametrize(
    ("policy", "moves", "streams"),
    [
        # Until the session's end, whatever the probes say.
        ("keep", False, [1, 1, 1]),
        # Once the running segment is complete: nothing is made twice.
        ("drain", True, [1, 1, 1]),
        # Now: the running segment begins again.
        ("close", True, [1, 2, 1]),
    ],
)
async def test_a_session_on_a_replica_that_turns_unhealthy(
    tmp_path: Path, policy: str, moves: bool, streams: list[int]
) -> None:
    settings: dict[str, object] = {"session__on_unhealthy": policy}
    gates = [asyncio.Event(), asyncio.Event()]
    steps: list[Step] = [PROMPTS[0], Prompt("scene 1", 1, wait=False), After(gates[0]), PROMPTS[2]]
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=settings) as gateway:
            # The second segment stands still until the replica is known to be unhealthy.
            await emulator.arm("a", "stall", point="segment", segment=1)
            session = LongSession(gateway.ws, steps)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.run())
                await eventually(lambda: len(session.story.segments) == 2, "the second segment runs")
                await eventually(lambda: session.story.segments[1].parts, "its media has begun")
                await emulator.arm("a", "health_status")
                await gateway.until_status(emulator.urls["a"], "unhealthy")
                if policy == "close":
                    await eventually(lambda: session.story.completed == 2, "it is complete elsewhere")
                await emulator.lift("a", "stall")
                await eventually(lambda: session.story.completed == 2, "it is complete")
                gates[0].set()
    assert_undisturbed(session.story, [PROMPTS[0], PROMPTS[1], PROMPTS[2]])
    assert [name for _, name in resumes(session.story)] == (["b"] if moves else [])
    assert [len(segment.stream_ids) for segment in session.story.segments] == streams


@pytest.mark.parametrize(("policy", "ends"), [("keep", False), ("drain", False), ("close", True)])
async def test_what_cannot_move_stays_on_an_unhealthy_replica_or_ends(
    tmp_path: Path, policy: str, ends: bool
) -> None:
    settings: dict[str, object] = {"session__on_unhealthy": policy, "session__resume": False}
    gate = asyncio.Event()
    async with EmulatorProcess(tmp_path, "--segment-seconds", "0.05") as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=settings) as gateway:
            session = LongSession(gateway.ws, [PROMPTS[0], After(gate), PROMPTS[1]])
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.run())
                await eventually(lambda: session.story.completed == 1, "it is under way")
                await emulator.arm("a", "health_status")
                await gateway.until_status(emulator.urls["a"], "unhealthy")
                if ends:
                    await eventually(lambda: session.story.over, "the session is ended")
                gate.set()
    assert session.story.finished is not ends, str(session.story)
    assert session.story.resumed == []
    if ends:
        assert (session.story.close_code, session.story.close_reason) == (1011, "replica_lost")


async def _is_free(emulator: EmulatorProcess, name: str) -> bool:
    return int((await emulator.replica(name))["sessions"]) == 0
