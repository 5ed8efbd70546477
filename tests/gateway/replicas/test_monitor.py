from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.replicas.config import HealthPolicy, RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.model import Replica, ReplicaStatus
from gateway.replicas.monitor import HealthMonitor, run_health_check_loop
from gateway.replicas.probes import HttpProbe, HttpxProbe
from gateway.replicas.registry import ReplicaRegistry
from tests.support.http_peer import Exchange, answer, http_peer, keep_answering
from tests.support.manual_clock import ManualClock, settle
from tests.support.waiting import eventually

A, B, C = (ReplicaEndpoint(f"http://{name}:8000", name) for name in "abc")
HANGS = "hangs"
PATIENCE = 60.0
"""A probe timeout that no test waits for."""

Answer = str | BaseException | None | Callable[[], Awaitable[str | None]]


class ScriptedProbe:
    """Answers for each replica as told: None is ready, a text the reason why not, an exception is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.under_way: Counter[str] = Counter()
        self.forgotten: list[str] = []
        self.most_at_once: Counter[str] = Counter()

    async def __call__(self, url: str, *, timeout: float) -> tuple[float, str | None]:
        name = url.removeprefix("http://").split(":")[0]
        assert url.endswith(":8000/health")
        self.asked.append(name)
        self.under_way[name] += 1
        self.most_at_once[name] = max(self.most_at_once[name], self.under_way[name])
        try:
            match self.answers.get(name):
                case None:
                    return 1.5, None
                case "hangs":
                    await asyncio.Event().wait()
                    raise AssertionError("a hanging replica has answered")
                case str() as reason:
                    return 1.5, reason
                case BaseException() as error:
                    raise error
                case held:
                    return 1.5, await held()
        finally:
            self.under_way[name] -= 1

    async def forget(self, url: str) -> None:
        self.forgotten.append(url)


class Held:
    """A probe's answer that the test gives when it wants to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> str | None:
        return await self.answer


class Bench:
    """A monitor over replicas, with its probe and its clock."""

    def __init__(self, *endpoints: ReplicaEndpoint, policy: HealthPolicy | None = None) -> None:
        self.clock = ManualClock()
        self.registry = ReplicaRegistry(list(endpoints), clock=self.clock)
        self.probe = ScriptedProbe()
        self.policy = policy or HealthPolicy(interval_seconds=5, timeout_seconds=PATIENCE)
        probe: HttpProbe = self.probe
        self.monitor = HealthMonitor(
            self.registry, self.policy, probe, clock=self.clock, rng=random.Random(7)
        )

    def replica(self, endpoint: ReplicaEndpoint = A) -> Replica:
        replica = self.registry.get(endpoint.url)
        assert replica is not None
        return replica

    def asked(self, name: str) -> int:
        return self.probe.asked.count(name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        before = asyncio.all_tasks()
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(self.monitor.run())
            await settle()
            yield
            run.cancel()
        assert asyncio.all_tasks() == before
        assert not self.monitor.running
        assert self.probe.under_way.total() == 0
        assert self.clock.sleepers == 0


async def test_first_probes_go_out_at_once_and_make_unknown_replicas_healthy() -> None:
    bench = Bench(A, B)
    bench.probe.answers["b"] = "its health path answered 500"
    assert not bench.monitor.first_round_done.is_set()
    async with bench.running():
        assert bench.probe.asked == ["a", "b"]
        assert bench.monitor.first_round_done.is_set()
        assert bench.replica(A).is_healthy
        assert bench.replica(B).health.status is ReplicaStatus.UNKNOWN
        assert bench.replica(A).health.last_latency_ms == 1.5


async def test_the_first_round_is_not_done_before_every_replica_was_probed() -> None:
    bench = Bench(A, B)
    bench.probe.answers["b"] = held = Held()
    async with bench.running():
        assert not bench.monitor.first_round_done.is_set()
        held.answer.set_result(None)
        await settle()
        assert bench.monitor.first_round_done.is_set()


async def test_a_replica_that_goes_during_the_first_round_does_not_hold_it_up() -> None:
    bench = Bench(A, B)
    bench.probe.answers["b"] = HANGS
    async with bench.running():
        bench.registry.reconcile([A])
        await settle()
        assert bench.monitor.first_round_done.is_set()


async def test_a_hanging_replica_misses_its_own_deadline_and_ends_the_first_round() -> None:
    bench = Bench(A, policy=HealthPolicy(timeout_seconds=0.01))
    bench.probe.answers["a"] = HANGS
    async with bench.running():
        await asyncio.wait_for(bench.monitor.first_round_done.wait(), 20)
        assert bench.replica().health.consecutive_failures >= 1


async def test_each_replica_is_probed_once_an_interval_within_its_jitter() -> None:
    bench = Bench(A, B, C)
    async with bench.running():
        await bench.clock.advance(500)
        for name in "abc":
            assert 100 / 1.1 <= bench.asked(name) <= 100 / 0.9 + 2
        assert max(bench.probe.most_at_once.values()) == 1


async def test_replicas_spread_over_the_interval_instead_of_being_probed_in_one_burst() -> None:
    endpoints = [ReplicaEndpoint(f"http://r{number}:8000") for number in range(100)]
    bench = Bench(*endpoints)
    async with bench.running():
        await bench.clock.advance(5)
        in_each_tenth = []
        for _ in range(10):
            before = len(bench.probe.asked)
            await bench.clock.advance(0.5)
            in_each_tenth.append(len(bench.probe.asked) - before)
        assert max(in_each_tenth) < 40
        assert 80 < sum(in_each_tenth) < 130


async def test_a_hanging_replica_stretches_nobody_elses_period() -> None:
    bench = Bench(A, B)
    bench.probe.answers["a"] = HANGS
    async with bench.running():
        await bench.clock.advance(50)
        assert bench.asked("a") == 1
        assert bench.asked("b") >= 9


async def test_failures_in_a_row_make_a_replica_unhealthy_and_successes_bring_it_back() -> None:
    bench = Bench(A, policy=HealthPolicy(interval_seconds=5, jitter=0, timeout_seconds=PATIENCE))
    async with bench.running():
        bench.probe.answers["a"] = "its health path answered 500"
        await bench.clock.advance(10)
        assert bench.replica().is_healthy
        await bench.clock.advance(5)
        assert bench.replica().health.status is ReplicaStatus.UNHEALTHY
        bench.probe.answers["a"] = None
        await bench.clock.advance(5)
        assert bench.replica().health.status is ReplicaStatus.UNHEALTHY
        await bench.clock.advance(5)
        assert bench.replica().is_healthy


async def test_a_warming_replica_is_not_healthy_until_it_says_ready() -> None:
    bench = Bench(A)
    bench.probe.answers["a"] = 'its health body says status "warming"'
    async with bench.running():
        await bench.clock.advance(3)
        assert bench.registry.select() is None
        bench.probe.answers["a"] = None
        await bench.clock.advance(11)
        assert bench.registry.select() is bench.replica()


@pytest.mark.parametrize(
    "error", [OSError("refused"), ValueError("broken"), asyncio.CancelledError(), TimeoutError()]
)
async def test_a_probe_that_raises_is_a_failure_and_probing_goes_on(error: BaseException) -> None:
    bench = Bench(A)
    bench.probe.answers["a"] = error
    async with bench.running():
        assert bench.replica().health.consecutive_failures == 1
        await bench.clock.advance(20)
        assert bench.replica().health.status is ReplicaStatus.UNHEALTHY
        bench.probe.answers["a"] = None
        await bench.clock.advance(20)
        assert bench.replica().is_healthy


async def test_an_unhealthy_replica_has_its_own_interval() -> None:
    policy = HealthPolicy(
        interval_seconds=5, timeout_seconds=PATIENCE, jitter=0, unhealthy_interval_seconds=1
    )
    bench = Bench(A, policy=policy)
    bench.probe.answers["a"] = "down"
    async with bench.running():
        await bench.clock.advance(15)
        assert bench.replica().health.status is ReplicaStatus.UNHEALTHY
        before = bench.asked("a")
        await bench.clock.advance(10)
        assert bench.asked("a") - before == 10


async def test_a_reported_failure_counts_once_and_triggers_a_probe_at_once() -> None:
    bench = Bench(A)
    async with bench.running():
        bench.probe.answers["a"] = "connection refused"
        bench.monitor.report_failure("http://A:8000/", "connect refused")
        assert bench.replica().health.consecutive_failures == 1
        await settle()
        assert bench.asked("a") == 2
        assert bench.replica().health.consecutive_failures == 2


async def test_a_success_after_a_reported_failure_clears_it() -> None:
    bench = Bench(A)
    async with bench.running():
        bench.monitor.report_failure(A.url, "connect timed out")
        await settle()
        assert bench.replica().health.consecutive_failures == 0
        assert bench.replica().is_healthy


async def test_many_reports_each_count_and_trigger_one_probe_at_a_time() -> None:
    bench = Bench(A, policy=HealthPolicy(timeout_seconds=PATIENCE, failure_threshold=1000))
    async with bench.running():
        bench.probe.answers["a"] = held = Held()
        for _ in range(50):
            bench.monitor.report_failure(A.url, "connect refused")
        await settle()
        for _ in range(50):
            bench.monitor.report_failure(A.url, "connect refused")
        assert bench.asked("a") == 2
        assert bench.replica().health.consecutive_failures == 100
        held.answer.set_result("down")
        await settle()
        assert bench.asked("a") == 3
        assert bench.probe.most_at_once["a"] == 1


async def test_a_probe_that_began_before_a_reported_failure_does_not_undo_it() -> None:
    bench = Bench(A)
    async with bench.running():
        bench.probe.answers["a"] = early = Held()
        await bench.clock.advance(6)
        assert bench.asked("a") == 2
        bench.monitor.report_failure(A.url, "connect refused")
        bench.probe.answers["a"] = late = Held()
        early.answer.set_result(None)
        await settle()
        assert bench.asked("a") == 3
        assert bench.replica().health.consecutive_failures == 1
        late.answer.set_result(None)
        await settle()
        assert bench.replica().health.consecutive_failures == 0


async def test_a_failure_of_a_probe_that_began_before_a_report_counts_beside_it() -> None:
    bench = Bench(A)
    async with bench.running():
        bench.probe.answers["a"] = early = Held()
        await bench.clock.advance(6)
        bench.monitor.report_failure(A.url, "connect refused")
        bench.probe.answers["a"] = HANGS
        early.answer.set_result("its health path answered 500")
        await settle()
        assert bench.replica().health.consecutive_failures == 2


async def test_reports_never_raise() -> None:
    bench = Bench(A)
    bench.monitor.report_failure(A.url, "before the run")
    assert bench.replica().health.consecutive_failures == 1
    async with bench.running():
        for url in ("http://unknown", "", "http://[::1", "nonsense"):
            bench.monitor.report_failure(url, "connect refused")
        assert bench.asked("a") == 1
    bench.monitor.report_failure(A.url, "after the run")


async def test_replicas_that_join_are_probed_at_once_and_those_that_go_no_more() -> None:
    bench = Bench(A)
    async with bench.running():
        bench.registry.reconcile([B])
        await settle()
        assert bench.replica(B).is_healthy
        await bench.clock.advance(50)
        assert bench.asked("a") == 1
        assert bench.probe.forgotten == ["http://a:8000/health"]


async def test_a_removed_replica_is_probed_until_its_last_session_ends() -> None:
    bench = Bench(A, B)
    async with bench.running():
        with bench.registry.lease(A.url):
            bench.registry.reconcile([B])
            await bench.clock.advance(20)
            assert bench.asked("a") > 2
        await settle()
        before = bench.asked("a")
        await bench.clock.advance(20)
        assert bench.asked("a") == before


async def test_a_replica_that_goes_and_comes_back_at_once_is_probed_as_a_new_one() -> None:
    bench = Bench(A)
    bench.probe.answers["a"] = HANGS
    async with bench.running():
        bench.probe.answers["a"] = None
        bench.registry.reconcile([])
        bench.registry.reconcile([A])
        await settle()
        assert bench.asked("a") == 2
        assert bench.replica().is_healthy
        assert bench.probe.forgotten == ["http://a:8000/health"]


async def test_without_replicas_the_first_round_is_done_and_newcomers_are_found() -> None:
    bench = Bench(A)
    bench.registry.reconcile([])
    async with bench.running():
        assert bench.monitor.first_round_done.is_set()
        await bench.monitor.fresh()
        bench.registry.reconcile([B])
        await settle()
        assert bench.replica(B).is_healthy


async def test_fresh_returns_at_once_when_nothing_was_frozen() -> None:
    bench = Bench(A)
    await asyncio.wait_for(bench.monitor.fresh(), 20)
    bench.probe.answers["a"] = HANGS
    async with bench.running():
        await bench.clock.advance(60)
        await asyncio.wait_for(bench.monitor.fresh(), 20)


@pytest.mark.parametrize(
    ("interval", "seconds", "frozen"), [(5, 14, False), (5, 16, True), (1, 9, False), (1, 11, True)]
)
async def test_a_freeze_is_a_tick_later_than_three_intervals_and_ten_seconds(
    interval: float, seconds: float, frozen: bool
) -> None:
    bench = Bench(A, policy=HealthPolicy(interval_seconds=interval, timeout_seconds=PATIENCE))
    async with bench.running(), asyncio.TaskGroup() as tasks:
        bench.probe.answers["a"] = held = Held()
        bench.clock.jump(seconds)
        waiting = tasks.create_task(bench.monitor.fresh())
        await settle()
        assert waiting.done() is not frozen
        held.answer.set_result(None)
        await bench.clock.freeze(0)
        assert waiting.done()


async def test_after_a_freeze_new_sessions_wait_for_one_full_round() -> None:
    bench = Bench(A, B)
    async with bench.running(), asyncio.TaskGroup() as tasks:
        bench.probe.answers = {"a": (one := Held()), "b": (two := Held())}
        await bench.clock.freeze(3600)
        waiting = tasks.create_task(bench.monitor.fresh())
        one.answer.set_result(None)
        await settle()
        assert not waiting.done()
        two.answer.set_result("its health path answered 500")
        await settle()
        assert waiting.done()
        await bench.monitor.fresh()


async def test_what_was_under_way_during_a_freeze_counts_neither_way() -> None:
    bench = Bench(A, B)
    async with bench.running():
        bench.probe.answers = {"a": (one := Held()), "b": (two := Held())}
        await bench.clock.advance(6)
        before = bench.replica(A).health, bench.replica(B).health
        bench.probe.answers = {"a": HANGS, "b": HANGS}
        bench.clock.jump(3600)
        one.answer.set_result("no complete answer to the health probe within 2 s")
        two.answer.set_result(None)
        await settle()
        assert (bench.replica(A).health, bench.replica(B).health) == before
        assert (bench.asked("a"), bench.asked("b")) == (3, 3)


async def test_a_replica_that_goes_does_not_hold_up_the_round_after_a_freeze() -> None:
    bench = Bench(A, B)
    async with bench.running(), asyncio.TaskGroup() as tasks:
        bench.probe.answers["b"] = HANGS
        await bench.clock.freeze(3600)
        waiting = tasks.create_task(bench.monitor.fresh())
        await settle()
        assert not waiting.done()
        bench.registry.reconcile([A])
        await settle()
        assert waiting.done()


async def test_the_end_of_the_run_lets_those_who_wait_for_freshness_go() -> None:
    bench = Bench(A)
    async with asyncio.TaskGroup() as tasks:
        async with bench.running():
            bench.probe.answers["a"] = HANGS
            await bench.clock.freeze(3600)
            waiting = tasks.create_task(bench.monitor.fresh())
            await settle()
            assert not waiting.done()
        await settle()
        assert waiting.done()


async def test_cancelling_the_run_leaves_no_task_and_no_connection() -> None:
    async def hang(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with http_peer(keep_answering(answer())) as quick, http_peer(hang) as hung:
        policy = HealthPolicy(timeout_seconds=PATIENCE)
        registry = ReplicaRegistry([ReplicaEndpoint(quick.url), ReplicaEndpoint(hung.url)])
        before = asyncio.all_tasks()
        async with HttpxProbe(policy) as probe, asyncio.TaskGroup() as tasks:
            run = tasks.create_task(HealthMonitor(registry, policy, probe).run())
            await eventually(
                lambda: hung.open_connections == 1 and registry.select(), "both are being probed"
            )
            run.cancel()
        await eventually(lambda: quick.open_connections == 0, "the kept connection is closed")
        await eventually(
            lambda: len(asyncio.all_tasks() - before) <= 1, "only the hung peer's own task is left"
        )


async def test_a_monitor_runs_once_at_a_time() -> None:
    bench = Bench(A)
    async with bench.running():
        with pytest.raises(RuntimeError, match="already"):
            await bench.monitor.run()


def config(**changes: float) -> RouterConfig:
    return RouterConfig(replicas=[A, B], health_check_timeout_seconds=PATIENCE, **changes)  # type: ignore[arg-type]


async def test_the_health_check_loop_probes_until_its_stop_event() -> None:
    registry, stop, asked = ReplicaRegistry([A, B]), asyncio.Event(), Counter[str]()

    async def http_get(url: str, *, timeout: float) -> tuple[float, str | None]:
        assert timeout == PATIENCE
        asked[url] += 1
        if min(asked["http://a:8000/health"], asked["http://b:8000/health"]) >= 3:
            stop.set()
        return 1.0, "down" if "b" in url else None

    await asyncio.wait_for(
        run_health_check_loop(
            registry, config(health_check_interval_seconds=0.001), stop_event=stop, http_get=http_get
        ),
        20,
    )
    a, b = registry.all()
    assert a.is_healthy
    assert b.health.status is ReplicaStatus.UNHEALTHY


async def test_probes_under_way_at_the_stop_event_are_still_recorded() -> None:
    registry, stop = ReplicaRegistry([A, B]), asyncio.Event()

    async def http_get(url: str, *, timeout: float) -> tuple[float, str | None]:
        stop.set()
        await settle()
        return 1.0, None

    await asyncio.wait_for(run_health_check_loop(registry, config(), stop_event=stop, http_get=http_get), 20)
    assert all(replica.is_healthy for replica in registry.all())


async def test_a_loop_that_was_stopped_before_it_began_probes_nothing() -> None:
    registry, stop = ReplicaRegistry([A, B]), asyncio.Event()
    stop.set()
    await asyncio.wait_for(run_health_check_loop(registry, config(), stop_event=stop), 20)
    assert registry.select() is None


async def test_the_health_check_loop_probes_over_http_by_default() -> None:
    async with http_peer(keep_answering(answer())) as peer:
        endpoint = ReplicaEndpoint(peer.url + "/")
        registry, stop = ReplicaRegistry([endpoint]), asyncio.Event()
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(
                run_health_check_loop(registry, RouterConfig(replicas=[endpoint]), stop_event=stop)
            )
            await eventually(registry.select, "the replica is healthy")
            stop.set()
        await eventually(lambda: peer.open_connections == 0, "its connection is closed")
