"""Sessions that outlive their replicas, on real processes: what the client gets is what it would have got."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import LongSession, Prompt, Snapshot, Step, Until, live, toggle
from tests.support.undisturbed import assert_lost, assert_undisturbed, resumes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

REAL = ("--isolate", "process")
"""Each replica a process of its own: kill and pause are signals."""
FAST = ("--segment-seconds", "0.05")
QUICK_PINGS: dict[str, object] = {
    "session__ping_interval_seconds": 0.5,
    "session__ping_timeout_seconds": 1,
}

PROMPTS = [Prompt(f"scene {number}", seed=number) for number in range(4)]


# What the computed media stands for


async def test_media_without_a_gateway_are_the_computed_ones(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        url = emulator.urls["a"].replace("http", "ws") + "/v1/stream"
        assert_undisturbed(await live(url, PROMPTS), PROMPTS)


async def test_an_undisturbed_session_is_told_of_no_resume(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings()) as gateway:
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert story.resumed == []


# One loss, wherever it comes

LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("reset", {"point": "open"}),
    ("reset", {"point": "init"}),
    ("reset", {"point": "segment_start", "segment": 0}),
    ("abort", {"point": "segment", "segment": 0}),
    ("abort", {"point": "segment", "segment": 2}),
    ("reset", {"point": "segment_end", "segment": 1}),
    ("reset", {"point": "snapshot"}),
    ("kill", {"point": "segment", "segment": 1}),
    ("kill", {"point": "segment_end", "segment": 1}),
    ("kill", {"point": "snapshot"}),
    ("close", {"point": "segment", "segment": 1, "code": 1011, "reason": "worker gone"}),
    ("close", {"point": "segment", "segment": 1, "code": 1012, "reason": "restarting"}),
    ("close", {"point": "segment_end", "segment": 1, "code": 1001, "reason": "going_away"}),
    ("gpu_error", {"point": "init"}),
    ("gpu_error", {"point": "segment_start", "segment": 1}),
    ("gpu_error", {"point": "segment", "segment": 1}),
    ("gpu_error", {"point": "segment_end", "segment": 1}),
    ("gpu_error", {"point": "snapshot"}),
    ("gpu_error", {"point": "segment", "segment": 1, "retryable": False}),
]


async def test_one_loss_changes_nothing_for_the_client(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        # It loses one session after the other here, and is to get the next one all the same.
        kept: dict[str, object] = {"outlier__max_ejected_share": 0}
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=kept) as gateway:
            for fault, fields in LOSSES:
                await emulator.reset()
                await gateway.until_status(emulator.urls["a"], "healthy")
                await emulator.arm("a", fault, times=1, **fields)
                pipelined = [*PROMPTS[:2], Prompt("scene 2", 2, wait=False), PROMPTS[3]]
                story = await live(gateway.ws, pipelined)
                said = f"{fault} {fields}: {story}"
                assert await emulator.struck("a", fault) == 1, said
                assert_undisturbed(story, pipelined)
                before_anything = fields["point"] in ("open", "init")
                assert len(story.resumed) == (0 if before_anything else 1), said
                assert {name for _, name in resumes(story)} <= {"b"}, said
            await gateway.until_no_sessions()


async def test_a_segment_that_the_client_has_is_not_made_for_it_again(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        every_third: dict[str, object] = {"session__snapshot_every": 3}
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=every_third) as gateway:
            await emulator.arm("a", "kill", point="segment", segment=5)
            asked = [Prompt(f"scene {number}", seed=number) for number in range(8)]
            story = await live(gateway.ws, asked)
    assert_undisturbed(story, asked)
    assert resumes(story) == [(5, "b")]
    streams = [len(segment.stream_ids) for segment in story.segments]
    assert streams == [1, 1, 1, 1, 1, 2, 1, 1], "two that were finished are caught up with, unseen"


# More than one loss


async def test_two_losses_in_a_row_are_one_resume_for_the_client(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "kill", point="segment", segment=1)
            await emulator.arm("b", "kill", point="init")
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(1, "c")]


async def test_every_replica_may_be_lost_once(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            # A session that comes from another replica counts its segments anew.
            await emulator.arm("a", "kill", point="segment", segment=1)
            await emulator.arm("b", "gpu_error", point="segment", segment=1)
            story = await live(gateway.ws, PROMPTS)
    assert_undisturbed(story, PROMPTS)
    assert resumes(story) == [(1, "b"), (2, "c")]


@pytest.mark.parametrize("replicas", [1, 2])
async def test_the_last_replica_lost_is_told_so(tmp_path: Path, replicas: int) -> None:
    async with EmulatorProcess(tmp_path, *REAL, *FAST, replicas=replicas) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            for name in emulator.urls:
                await emulator.arm(name, "kill", point="segment_end", segment=1)
            story = await live(gateway.ws, [Prompt(f"scene {number}") for number in range(9)])
            await gateway.until_no_sessions()
    assert_lost(story)
    # The second replica makes again what the first had not told its state of: two more are one more.
    assert story.completed == 1 + replicas


async def test_resume_attempts_bound_the_losses_in_a_row(tmp_path: Path) -> None:
    once: dict[str, object] = {"session__resume_attempts": 1}
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=once) as gateway:
            await emulator.arm("a", "kill", point="segment", segment=1)
            await emulator.arm("b", "kill", point="init")
            assert_lost(await live(gateway.ws, PROMPTS))
            assert (await emulator.sessions_total())["c"] == 0


@pytest.mark.parametrize("protocol", ["passthrough", "streaming"])
async def test_without_resume_a_lost_replica_ends_the_session(tmp_path: Path, protocol: str) -> None:
    off: dict[str, object] = {"session__protocol": protocol, "session__resume": False}
    async with EmulatorProcess(tmp_path, *REAL, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order(), settings=off) as gateway:
            await emulator.arm("a", "kill", point="segment", segment=1)
            story = await live(gateway.ws, PROMPTS)
            if protocol == "streaming":
                assert_lost(story)
            else:
                assert story.errors == [], "nothing of ours stands between the replica's messages"
                assert (story.close_code, story.close_reason) == (1011, "replica_lost")
            assert (story.completed, story.resumed) == (1, [])


@pytest.mark.parametrize("code", [1000, 1008, 4001])
async def test_a_close_that_is_meant_passes_as_it_is(tmp_path: Path, code: int) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            await emulator.arm("a", "close", point="segment", segment=1, code=code, reason="that is it")
            story = await live(gateway.ws, PROMPTS)
    assert (story.close_code, story.close_reason) == (code, "that is it")
    assert (story.errors, story.resumed, story.completed) == ([], [], 1)


# Everything at once

WAYS = ("kill", "pause", "abort", "gpu_error", "crash", "close", "reject", "kill", "pause")


async def test_twenty_sessions_survive_all_that_is_done_to_their_replicas(tmp_path: Path) -> None:
    settings: dict[str, object] = {
        **QUICK_PINGS,
        "selection__policy": "least_sessions",
        # A killed replica has lost its sessions by its own fault; here it is wanted back soon.
        "outlier__base_seconds": 0.5,
        "outlier__max_seconds": 1,
    }
    calm = asyncio.Event()

    def steps(client: int) -> Iterator[Step]:
        for number in itertools.count():
            yield Prompt(f"client {client} scene {number}", seed=number, wait=(number + client) % 3 != 0)
            if (number + client) % 4 == 0:
                yield toggle("enhancement_updated", enabled=number % 8 == 0)
            if number % 5 == 4:
                yield Until(lambda story: story.completed > 0)
                yield Snapshot()
            if calm.is_set() and number >= 5:
                return

    places = ("--capacity", "8", "--segment-seconds", "0.3")
    async with EmulatorProcess(tmp_path, *REAL, *places, replicas=4) as emulator:
        eight: dict[str, Mapping[str, object]] = {name: {"max_sessions": 8} for name in emulator.urls}
        async with GatewayProcess(tmp_path, emulator.settings(**eight), settings=settings) as gateway:
            sessions = [LongSession(gateway.ws, steps(client)) for client in range(20)]
            async with asyncio.TaskGroup() as tasks:
                for session in sessions:
                    tasks.create_task(session.run())
                await eventually(lambda: all(s.story.opened for s in sessions), "all have begun")
                for way in WAYS:
                    await _disturb(way, emulator, gateway)
                    # The next one finds nobody where this one left it: a prompt that meets two losses in a
                    # row is not tried again.
                    await _all_go_on(sessions)
                calm.set()
            await gateway.until_no_sessions()
    for session in sessions:
        assert_undisturbed(session.story, session.asked)
    moved = sum(len(session.story.resumed) for session in sessions)
    assert moved >= len(WAYS), f"{moved} resumes: this run shows little"


async def _all_go_on(sessions: Sequence[LongSession]) -> None:
    """Every session has got two segments more, or is over."""
    before = [session.story.completed for session in sessions]

    def went_on() -> bool:
        pairs = zip(sessions, before, strict=True)
        return all(session.story.over or session.story.completed >= count + 2 for session, count in pairs)

    await eventually(went_on, "every session goes on", timeout=60)


async def _disturb(way: str, emulator: EmulatorProcess, gateway: GatewayProcess) -> None:
    """What is meant by `way` has happened to the replica with the most sessions, and it is well again."""

    async def counts() -> dict[str, int]:
        by_url = await gateway.sessions()
        return {name: int(by_url[url]["active_sessions"]) for name, url in emulator.urls.items()}

    async def is_busy() -> bool:
        return max((await counts()).values()) >= 3

    await eventually(is_busy, "a replica has sessions")
    busy = await counts()
    name = max(busy, key=lambda one: busy[one])

    async def is_left() -> bool:
        return (await counts())[name] == 0

    if way in ("kill", "pause", "crash"):
        await _take_away(way, emulator, name)
        await eventually(is_left, f"all sessions left {name} after {way}", timeout=60)
        await _bring_back(way, emulator, name)
    elif way == "reject":
        # Those that leave this one are refused where they come first.
        others = [other for other in emulator.urls if other != name]
        for other in others:
            await emulator.arm(other, "reject", times=1)
        await _strike("abort", emulator, name, times=2)
        for other in others:
            await emulator.lift(other, "reject")
    else:
        await _strike(way, emulator, name, times=3)
    await gateway.until_status(emulator.urls[name], "healthy")


async def _take_away(way: str, emulator: EmulatorProcess, name: str) -> None:
    match way:
        case "kill":
            await emulator.kill(name)
        case "pause":
            await emulator.pause(name)
        case _:
            await emulator.arm(name, "kill", point="segment", times=1)


async def _bring_back(way: str, emulator: EmulatorProcess, name: str) -> None:
    if way == "pause":
        await emulator.resume(name)
        return
    if way == "crash":
        await emulator.lift(name, "kill")
    await emulator.restart(name)


async def _strike(way: str, emulator: EmulatorProcess, name: str, *, times: int) -> None:
    """So many sessions of the replica have met the fault."""
    await emulator.arm(name, way, times=times)
    await _until_struck(emulator, name, way, times)
    await emulator.lift(name, way)


async def _until_struck(emulator: EmulatorProcess, name: str, fault: str, times: int) -> None:
    async def struck() -> bool:
        return await emulator.struck(name, fault) >= times

    await eventually(struck, f"{fault} struck {times} sessions on {name}", timeout=60)
