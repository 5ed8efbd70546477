"""Healthy but full: clients wait in line, are told where they stand, and are served in order."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from emulator.running.story import Story
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import clients_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

FAST = ("--segment-seconds", "0.05")


def with_room(emulator: EmulatorProcess, places: int) -> list[Mapping[str, object]]:
    """Replica settings by which each takes so many sessions."""
    rooms: dict[str, Mapping[str, object]] = {name: {"max_sessions": places} for name in emulator.urls}
    return list(emulator.settings(**rooms))


def assert_refused(story: Story, reason: str) -> None:
    """Told in band that there is no place, and closed with 1013."""
    told = [(error["code"], error["retryable"]) for error in story.errors]
    assert told == [("gpu_unavailable", True)], str(story)
    assert (story.close_code, story.close_reason) == (1013, reason)


async def test_three_stream_and_seven_see_their_position_fall_and_are_served_in_order(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--capacity", "1", *FAST) as emulator:
        async with (
            GatewayProcess(tmp_path, with_room(emulator, 1)) as gateway,
            clients_of(gateway) as clients,
        ):
            served = []
            for number in range(3):
                served.append(clients.come(f"client {number}"))
                await served[-1].until_served()
            waiting = []
            for number in range(7):
                waiting.append(clients.come(f"client {number + 3}"))
                await waiting[-1].until_waiting(number)
                assert waiting[-1].story.queue[-1] == (number, number + 1)
            line = list(waiting)
            while served:
                leaving = served.pop(0)
                leaving.let_go()
                await leaving.over()
                leaving.assert_served()
                if not line:
                    continue
                await line[0].until_served()
                served.append(line.pop(0))
                for position, held in enumerate(line):
                    await held.until_waiting(position)
                    assert not held.story.opened, "it overtook another"
            for number, held in enumerate(waiting):
                told = [position for position, _ in held.story.queue]
                assert told == sorted(told, reverse=True), "a position never rises"
                assert set(told) == set(range(number + 1)), "and falls one by one"
            await gateway.until_no_sessions()


async def test_a_replica_that_refuses_in_band_is_passed_over_unseen(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--capacity", "1", *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway, clients_of(gateway) as clients:
            # The gateway knows of no capacity: the first replica takes one, the second the next.
            held = [clients.come(f"client {number}") for number in range(3)]
            for one in held:
                await one.until_served()
            totals = await emulator.sessions_total()
            assert set((await gateway.statuses()).values()) == {"healthy"}
            for one in held:
                one.let_go()
                await one.over()
                one.assert_served()
                assert one.story.resumed == []
            assert all(total >= 1 for total in totals.values())


@pytest.mark.parametrize("code", ["session_rejected", "gpu_unavailable"])
@pytest.mark.parametrize("point", ["open", "init"])
async def test_a_refusal_counts_as_full_for_a_moment_and_never_as_unhealthy(
    tmp_path: Path, code: str, point: str
) -> None:
    async with EmulatorProcess(tmp_path, *FAST) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway, clients_of(gateway) as clients:
            await emulator.arm("a", "reject", code=code, point=point)
            first = clients.come("first")
            await first.until_served()
            second = clients.come("second")
            await second.until_served()
            for held in (first, second):
                held.let_go()
                await held.over()
                held.assert_served()
            await emulator.lift("a", "reject")
            assert set((await gateway.statuses()).values()) == {"healthy"}
            before = (await emulator.sessions_total())["a"]

            async def is_asked_again() -> bool:
                another = clients.come("another")
                another.let_go()
                await another.over()
                another.assert_served()
                return (await emulator.sessions_total())["a"] > before

            await eventually(is_asked_again, "the replica is asked again")


async def test_clients_wait_for_replicas_that_refuse_in_band_until_one_has_room(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--capacity", "1", *FAST, replicas=2) as emulator:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway, clients_of(gateway) as clients:
            served = [clients.come(f"client {number}") for number in range(2)]
            for one in served:
                await one.until_served()
            waiting = [clients.come(f"client {number}") for number in (2, 3)]
            for one in waiting:
                await one.until_waiting()
            for one in [*served, *waiting]:
                one.let_go()
            for one in [*served, *waiting]:
                await one.over()
                one.assert_served()
            await gateway.until_no_sessions()


async def test_a_client_that_leaves_the_line_gives_its_place_to_the_next(tmp_path: Path) -> None:
    short: dict[str, object] = {"admission__queue_size": 2}
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        gateway = GatewayProcess(tmp_path, with_room(emulator, 1), settings=short)
        async with gateway, clients_of(gateway) as clients:
            served = clients.come("served")
            await served.until_served()
            first, second = clients.come("first"), None
            await first.until_waiting(0)
            second = clients.come("second")
            await second.until_waiting(1)
            assert_refused(await clients.come("too many").over(), "queue_full")
            await first.leave()
            await second.until_waiting(0)
            third = clients.come("third")
            await third.until_waiting(1)
            for one in (served, second, third):
                one.let_go()
                await one.over()
                one.assert_served()
            await gateway.until_no_sessions()


async def test_who_waits_too_long_is_told_so(tmp_path: Path) -> None:
    short: dict[str, object] = {"admission__queue_timeout_seconds": 1}
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        gateway = GatewayProcess(tmp_path, with_room(emulator, 1), settings=short)
        async with gateway, clients_of(gateway) as clients:
            served = clients.come("served")
            await served.until_served()
            assert_refused(await clients.come("late").over(), "queue_timeout")
            assert not served.story.over


async def test_without_a_line_a_full_house_refuses_at_once(tmp_path: Path) -> None:
    none: dict[str, object] = {"admission__queue_size": 0}
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        gateway = GatewayProcess(tmp_path, with_room(emulator, 1), settings=none)
        async with gateway, clients_of(gateway) as clients:
            served = clients.come("served")
            await served.until_served()
            refused = await clients.come("late").over()
            assert_refused(refused, "queue_full")
            assert refused.queue == []


async def test_nobody_waits_for_replicas_that_are_all_gone(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--isolate", "process", *FAST, replicas=1) as emulator:
        async with (
            GatewayProcess(tmp_path, with_room(emulator, 1)) as gateway,
            clients_of(gateway) as clients,
        ):
            served = clients.come("served")
            await served.until_served()
            waiting = clients.come("waiting")
            await waiting.until_waiting(0)
            await emulator.kill("a")
            assert_refused(await waiting.over(), "no_healthy_replica")
            lost = await served.over()
            assert (lost.close_code, lost.close_reason) == (1011, "replica_lost")


async def test_a_session_that_lost_its_replica_waits_for_the_next_one(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--isolate", "process", *FAST, replicas=2) as emulator:
        async with (
            GatewayProcess(tmp_path, with_room(emulator, 1)) as gateway,
            clients_of(gateway) as clients,
        ):
            # By priority the first session is on a, the second on b.
            moving, staying = clients.come("moving"), None
            await moving.until_served()
            staying = clients.come("staying")
            await staying.until_served()
            newcomer = clients.come("newcomer")
            await newcomer.until_waiting(0)
            await emulator.kill("a")
            await newcomer.until_waiting(1)
            staying.let_go()
            await eventually(lambda: moving.story.resumed, "the older session goes on first")
            assert not newcomer.story.opened
            moving.let_go()
            newcomer.let_go()
            for one in (staying, moving, newcomer):
                await one.over()
                one.assert_served()


async def test_a_client_that_leaves_while_its_session_moves_is_forgotten(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, "--isolate", "process", *FAST, replicas=2) as emulator:
        async with (
            GatewayProcess(tmp_path, with_room(emulator, 1)) as gateway,
            clients_of(gateway) as clients,
        ):
            moving = clients.come("moving")
            await moving.until_served()
            staying = clients.come("staying")
            await staying.until_served()
            told = len(moving.story.queue)
            await emulator.kill("a")
            await eventually(lambda: len(moving.story.queue) > told, "it waits for a place")
            await moving.leave()
            newcomer = clients.come("newcomer")
            await newcomer.until_waiting(0)
            staying.let_go()
            await newcomer.until_served()
            newcomer.let_go()
            await newcomer.over()
            newcomer.assert_served()
            await gateway.until_no_sessions()


async def test_one_client_gets_no_more_than_its_share(tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "admission__max_sessions_per_client": 2,
        "clients__trusted_proxies": ["127.0.0.1/32"],
    }
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        gateway = GatewayProcess(tmp_path, with_room(emulator, 2), settings=settings)
        async with gateway, clients_of(gateway) as clients:
            greedy, modest = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
            first = clients.come("first", headers=greedy)
            await first.until_served()
            other = clients.come("other", headers=modest)
            await other.until_served()
            waiting = clients.come("waiting", headers=greedy)
            await waiting.until_waiting(0)
            assert (await clients.come("too many", headers=greedy).over()).status == 429, "waiting ones count"
            await waiting.leave()
            again = clients.come("again", headers=greedy)
            await again.until_waiting(0)
            for one in (first, other, again):
                one.let_go()
                await one.over()
                one.assert_served()


async def test_a_drain_sends_those_who_wait_elsewhere_and_lets_the_served_finish(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *FAST, replicas=1) as emulator:
        async with (
            GatewayProcess(tmp_path, with_room(emulator, 1)) as gateway,
            clients_of(gateway) as clients,
        ):
            served = clients.come("served")
            await served.until_served()
            waiting = clients.come("waiting")
            await waiting.until_waiting(0)
            gateway.send_signal(signal.SIGTERM)
            gone = await waiting.over()
            assert (gone.close_code, gone.close_reason) == (1012, "gateway_restarting")
            assert gone.types[-1] == "going_away"
            assert not served.story.over
            served.let_go()
            await served.over()
            served.assert_served()
            assert await gateway.wait() == 0
