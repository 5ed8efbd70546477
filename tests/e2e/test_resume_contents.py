"""What is taken along when a session moves, and what keeps it from moving."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from emulator import media
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import After, LongSession, Prompt, Snapshot, Step, Until, live, toggle
from tests.support.undisturbed import assert_lost, assert_undisturbed, resumes, segment_hashes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

FAST = ("--segment-seconds", "0.05")
PROMPTS = [Prompt(f"scene {number}", seed=number) for number in range(4)]
MIB = 1 << 20


async def test_image_toggles_and_unknown_keys_come_along(tmp_path: Path) -> None:
    init = {
        "client_id": "tests",
        "initial_image": {"mime": "image/png", "data": "aGVsbG8g" * (MIB // 8)},
        "curated_prompts": ["one", "two"],
        "x_unknown": {"kept": True},
    }
    steps: list[Step] = [
        toggle("enhancement_updated", enabled=True),
        PROMPTS[0],
        toggle("loop_generation_updated", enabled=False),
        toggle("seed_prompts_updated", seed_prompts=["first"]),
        toggle("seed_prompts_updated", seed_prompts=["second", "third"]),
        PROMPTS[1],
        PROMPTS[2],
    ]
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "abort", segment=1)
            story = await live(gateway.ws, steps, init=init)
            heard = await _sizes_heard(emulator, "b")
    assert_undisturbed(story, PROMPTS[:3])
    assert resumes(story) == [(1, "b")]
    assert heard[0][0] == "session_init_v2"
    assert heard[0][1] > MIB, "with its image"
    assert {"enhancement_updated", "loop_generation_updated"} <= {kind for kind, _ in heard}
    newest = {"type": "seed_prompts_updated", "seed_prompts": ["second", "third"]}
    told = [size for kind, size in heard if kind == "seed_prompts_updated"]
    assert told[-1] == len(json.dumps(newest)), "the newest value holds"


async def test_a_paused_session_stays_paused_where_it_goes(tmp_path: Path) -> None:
    gate = asyncio.Event()
    steps: list[Step] = [
        PROMPTS[0],
        toggle("generation_paused_updated", paused=True),
        Prompt("scene 1", 1, wait=False),
        After(gate),
        toggle("generation_paused_updated", paused=False),
        PROMPTS[2],
    ]
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            session = LongSession(gateway.ws, steps)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.run())
                await eventually(lambda: len(session.asked) == 2, "it is paused with a prompt waiting")
                await eventually(lambda: _has_heard(emulator, "a", "generation_paused_updated"), "on a")
                await emulator.kill("a")
                await eventually(lambda: session.story.resumed, "it goes on elsewhere")
                await eventually(
                    lambda: _has_heard(emulator, "b", "segment_prompt_source"), "with its prompt"
                )
                assert session.story.completed == 1
                assert len(session.story.segments) == 1, "nothing starts during the pause"
                gate.set()
    assert_undisturbed(session.story, PROMPTS[:3])
    assert resumes(session.story) == [(1, "b")]


@pytest.mark.parametrize("way", ["kill", "gpu_error", "reset"])
async def test_a_clients_own_question_is_answered_wherever_the_session_goes(tmp_path: Path, way: str) -> None:
    steps: list[Step] = [PROMPTS[0], Snapshot(), PROMPTS[1], Snapshot(), Snapshot(), PROMPTS[2], Snapshot()]
    async with EmulatorProcess(tmp_path, "--isolate", "process", *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            undisturbed = await live(gateway.ws, steps)
            await emulator.arm("a", way, point="segment_end", segment=1)
            story = await live(gateway.ws, steps)
    assert_undisturbed(undisturbed, PROMPTS[:3])
    assert_undisturbed(story, PROMPTS[:3])
    assert len(story.resumed) == 1

    def digests(states: list[dict[str, dict[str, object]]]) -> list[object]:
        return [state["payload"]["digest"] for state in states]

    assert digests(story.snapshots) == digests(undisturbed.snapshots)


@pytest.mark.parametrize("point", ["segment", "segment_end"])
async def test_a_session_that_goes_on_by_itself_does_so_elsewhere(tmp_path: Path, point: str) -> None:
    steps: list[Step] = [
        Prompt("the beginning", seed=7),
        Until(lambda story: story.completed >= 6),
        toggle("auto_extension_updated", enabled=False),
    ]
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "reset", point=point, segment=2, times=1)
            story = await live(gateway.ws, steps, init={"auto_extension_enabled": True})
    assert (story.problems, story.errors, story.finished) == ([], [], True), str(story)
    assert len(story.resumed) == 1
    asked, digest = [("the beginning", 7)], media.digest_of(None)
    for _ in story.prompts[1:]:
        prompt, seed = asked[-1]
        digest = media.generate(digest, prompt=prompt, seed=seed, chunks=1, chunk_bytes=1).digest
        asked.append((media.extension_of(digest), 0))
    assert story.prompts == [prompt for prompt, _ in asked]
    assert story.hashes == segment_hashes(asked)


@pytest.mark.parametrize("size_bytes", [100_000, 4 * MIB])
async def test_a_large_state_is_carried(tmp_path: Path, size_bytes: int) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "big_state", size_bytes=size_bytes)
            await emulator.arm("a", "abort", segment=2)
            story = await live(gateway.ws, PROMPTS)
            heard = await _sizes_heard(emulator, "b")
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(2, "b")]
    assert heard[0][1] > size_bytes


async def test_a_state_above_the_bound_is_not_kept(tmp_path: Path) -> None:
    bound: dict[str, object] = {"session__max_state_bytes": 50_000}
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=bound) as gateway:
            await emulator.arm("a", "big_state", size_bytes=60_000)
            assert_undisturbed(await live(gateway.ws, PROMPTS), PROMPTS)
            await emulator.arm("a", "abort", segment=2)
            story = await live(gateway.ws, PROMPTS)
            await eventually(lambda: "not_resumable=state_too_big" in gateway.output(), "the log says why")
    assert_lost(story)
    assert story.completed == 2


async def test_a_replica_that_cannot_tell_its_state_cannot_be_replaced(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "no_snapshot")
            assert_undisturbed(await live(gateway.ws, PROMPTS), PROMPTS)
            await emulator.arm("a", "abort", segment=2)
            story = await live(gateway.ws, PROMPTS)
            lines = [line for line in gateway.output().splitlines() if "session_ended" in line]
    assert_lost(story)
    assert story.completed == 2
    assert "not_resumable=" in lines[-1]


async def test_before_its_first_segment_such_a_session_can_still_move(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "no_snapshot")
            await emulator.arm("a", "abort", segment=0)
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(0, "b")]


async def test_what_the_protocol_does_not_know_passes_and_does_no_harm(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            async with connect(gateway.ws, proxy=None) as client:
                await client.send(json.dumps({"type": "session_init_v2"}))
                for _ in range(3):
                    await client.recv()
                await client.send('{"type":"of_tomorrow","\\u0061":1}')
                answer = json.loads(await client.recv())
                assert (answer["code"], answer["retryable"]) == ("invalid_message", True)
                await client.send(json.dumps({"type": "segment_prompt_source", "prompt": "p"}))
                assert json.loads(await client.recv())["type"] == "ltx2_segment_start"


async def _sizes_heard(emulator: EmulatorProcess, name: str) -> list[tuple[str, int]]:
    """Type and size of each text message that the replica received."""
    events = await emulator.events(name)
    return [
        (event["detail"]["type"], event["detail"]["size_bytes"])
        for event in events
        if event["kind"] == "message_received"
    ]


async def _has_heard(emulator: EmulatorProcess, name: str, kind: str) -> bool:
    return any(heard == kind for heard, _ in await _sizes_heard(emulator, name))
