"""Replicas with `cold_start`: nobody asks how they are while they sleep, and a session wakes them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.clock import Clock
from gateway.replicas.config import HealthPolicy
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.events import PlaceFreed, RegistryEvent, ReplicaSlept, ReplicaWoke, StatusChanged
from gateway.replicas.model import ReplicaStatus
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.registry import ReplicaRegistry
from tests.gateway.replicas.test_monitor import Bench, Held
from tests.support.manual_clock import ManualClock, settle

COLD = ReplicaEndpoint("http://a:8000", "a", max_sessions=1, cold_start=True)
WARM = ReplicaEndpoint("http://b:8000", "b")
IDLE_SECONDS = 300.0


class ColdBench(Bench):
    def __init__(self, *endpoints: ReplicaEndpoint) -> None:
        super().__init__(*endpoints)
        clock: Clock = self.clock
        self.monitor = HealthMonitor(
            self.registry,
            HealthPolicy(interval_seconds=5, timeout_seconds=60, jitter=0.0),
            self.probe,
            sleep_after_seconds=IDLE_SECONDS,
            clock=clock,
            rng=random.Random(7),
        )

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """The monitor runs, and a session that has ended woke the replica."""
        async with self.running():
            lease = self.registry.lease(COLD.url)
            self.monitor.report_awake(COLD.url, latency_ms=20_000)
            lease.release()
            await settle()
            yield


@pytest.fixture
def events() -> list[RegistryEvent]:
    return []


async def test_a_sleeping_replica_is_not_probed_and_delays_no_first_round() -> None:
    bench = ColdBench(COLD, WARM)
    async with bench.running():
        assert bench.monitor.first_round_done.is_set()
        await bench.clock.advance(3600)
        assert (bench.asked("a"), bench.asked("b")) == (0, 721)
    assert bench.replica(COLD).health.status is ReplicaStatus.UNKNOWN


async def test_where_all_sleep_the_first_round_is_done_at_once() -> None:
    bench = ColdBench(COLD)
    async with bench.running():
        assert bench.monitor.first_round_done.is_set()


async def test_a_session_that_reaches_it_makes_it_healthy_and_probed(events: list[RegistryEvent]) -> None:
    bench = ColdBench(COLD)
    bench.registry.subscribe(events.append)
    async with bench.running():
        lease = bench.registry.lease(COLD.url)
        bench.monitor.report_awake(COLD.url, latency_ms=20_000)
        assert bench.replica(COLD).is_healthy
        await settle()
        assert bench.asked("a") == 1
        await bench.clock.advance(10)
        assert bench.asked("a") == 3
        lease.release()
    url = COLD.url
    changed = StatusChanged(url, ReplicaStatus.UNKNOWN, ReplicaStatus.HEALTHY, "health check passed")
    assert events == [changed, PlaceFreed(url), ReplicaWoke(url), PlaceFreed(url)]


async def test_it_sleeps_again_after_its_idle_time_and_its_connection_is_closed() -> None:
    bench = ColdBench(COLD)
    async with bench.awake():
        await bench.clock.advance(IDLE_SECONDS - 5)
        assert not bench.replica(COLD).sleeping
        await bench.clock.advance(10)
        assert bench.replica(COLD).sleeping
        assert bench.probe.forgotten[-1] == "http://a:8000/health"
        probes = bench.asked("a")
        await bench.clock.advance(3600)
        assert bench.asked("a") == probes


async def test_it_does_not_sleep_while_it_has_a_session() -> None:
    bench = ColdBench(COLD)
    async with bench.awake():
        lease = bench.registry.lease(COLD.url)
        await bench.clock.advance(10 * IDLE_SECONDS)
        assert not bench.replica(COLD).sleeping
        lease.release()
        await bench.clock.advance(IDLE_SECONDS + 5)
        assert bench.replica(COLD).sleeping


async def test_one_that_could_not_be_woken_is_unhealthy_and_may_be_woken_again_later() -> None:
    bench = ColdBench(COLD)
    bench.probe.answers["a"] = "connect refused"
    async with bench.running():
        bench.monitor.report_failure(COLD.url, "connect timed out")
        await settle()
        assert bench.replica(COLD).health.status is ReplicaStatus.UNHEALTHY
        assert not any(candidate.usable for candidate in bench.registry.candidates())
        assert bench.asked("a") == 1
        await bench.clock.advance(IDLE_SECONDS + 5)
        assert all(candidate.usable for candidate in bench.registry.candidates())


async def test_what_a_probe_says_that_was_under_way_when_it_fell_asleep_is_of_before() -> None:
    bench = ColdBench(COLD)
    async with bench.awake():
        held = bench.probe.answers["a"] = Held()
        await bench.clock.advance(IDLE_SECONDS + 5)
        held.answer.set_result(None)
        await settle()
        assert bench.replica(COLD).sleeping
        assert not bench.replica(COLD).is_healthy


async def test_a_freeze_waits_for_no_replica_that_sleeps() -> None:
    bench = ColdBench(COLD)
    async with bench.running():
        await bench.clock.freeze(100)
        await bench.monitor.fresh()
        await settle()
        assert bench.asked("a") == 0


def test_a_reconciled_replica_sleeps_on_or_wakes_when_it_may_no_longer_sleep(
    events: list[RegistryEvent],
) -> None:
    registry = ReplicaRegistry([], clock=ManualClock())
    registry.reconcile([COLD])
    registry.reconcile([COLD])
    assert registry.all()[0].sleeping
    registry.subscribe(events.append)
    registry.reconcile([ReplicaEndpoint(COLD.url, "a")])
    assert not registry.all()[0].sleeping
    assert ReplicaWoke(COLD.url) in events


def test_whoever_waits_hears_that_one_has_fallen_asleep(events: list[RegistryEvent]) -> None:
    clock = ManualClock()
    registry = ReplicaRegistry([COLD], clock=clock)
    (replica,) = registry.all()
    registry.note_failure(replica, failure_threshold=3, reason="could not be woken")
    assert not replica.takes_sessions
    clock.jump(5)
    registry.subscribe(events.append)
    registry.let_sleep(replica, idle_seconds=5)
    assert events == [ReplicaSlept(COLD.url), PlaceFreed(COLD.url)]
    assert replica.takes_sessions


def test_one_without_cold_start_never_sleeps() -> None:
    clock = ManualClock()
    registry = ReplicaRegistry([WARM], clock=clock)
    clock.jump(1000)
    registry.let_sleep(registry.all()[0], idle_seconds=5)
    assert not registry.all()[0].sleeping


def test_selecting_prefers_one_that_is_awake() -> None:
    registry = ReplicaRegistry([COLD, WARM], clock=ManualClock())
    assert registry.select() is registry.get(COLD.url)
    warm = registry.get(WARM.url)
    assert warm is not None
    registry.note_success(warm, recovery_threshold=1, latency_ms=1)
    assert registry.select() is warm
