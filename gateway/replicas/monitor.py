"""Keeps the registry's view of every replica's health current.

Each replica has a schedule of its own: probed at once when it is first seen, then after part of an
interval, so that many replicas spread out instead of being probed in one burst, then every interval with
jitter. A probe that is due while one is under way starts right after it. A replica that hangs delays nobody
else.

Evidence is weighed by when it was gathered:

1. A success of a probe that began before a later passive failure does not undo that failure; the probe that
the
   failure triggers decides.
2. Nothing that was under way while the process was frozen counts, in either direction.

A replica that sleeps (`cold_start`) is not probed, for a probe would wake it, and no connection to it is
kept. It is put to sleep here, once it has had no session for a time, and probed again when a session has
woken it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from gateway.clock import Clock, SystemClock
from gateway.logs import log_line
from gateway.replicas.config import HealthPolicy, RouterConfig
from gateway.replicas.events import (
    RegistryEvent,
    ReplicaGone,
    ReplicaJoined,
    ReplicaSlept,
    ReplicaWoke,
)
from gateway.replicas.model import Replica, ReplicaStatus
from gateway.replicas.probes import HttpProbe, HttpxProbe, RememberingProbe
from gateway.replicas.registry import ReplicaRegistry
from gateway.replicas.urls import join_url, normalised_url

logger = logging.getLogger("streamhold.replicas")

TICK_SECONDS = 1.0
"""How often the monitor looks at the clock to notice that the process was frozen."""
FROZEN_SECONDS, FROZEN_INTERVALS = 10.0, 3
"""A tick later than both was no busy machine: the process did not run."""


@dataclass(slots=True)
class _Watch:
    """One replica's schedule."""

    replica: Replica
    due: asyncio.Event = field(default_factory=asyncio.Event)
    """A probe is to start as soon as none is under way."""
    reports: int = 0
    """Passive failures so far."""
    tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def url(self) -> str:
        return self.replica.url


class HealthMonitor:
    """Probes the replicas of a registry, whichever these are at the time, and records what it finds."""

    def __init__(
        self,
        registry: ReplicaRegistry,
        policy: HealthPolicy,
        probe: HttpProbe,
        *,
        sleep_after_seconds: float = 300.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`sleep_after_seconds` without a session put a replica to sleep that may be, at the next probe that
        would be due.
        """
        self._registry = registry
        self._sleep_after_seconds = sleep_after_seconds
        self._policy = policy
        self._probe = probe
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._rng = rng if rng is not None else random.Random()
        self._watches: dict[str, _Watch] = {}
        self._running = self._stopping = False
        self._first_round: set[str] = set()
        self._freezes = 0
        self._round_after_freeze: set[str] = set()
        self._last_alive: tuple[float, float] | None = None
        self._renew_events()

    def _renew_events(self) -> None:
        """An event that was waited for belongs to that event loop, and the next run may be in another."""
        self.first_round_done = asyncio.Event()
        """Set once each replica known at the start of `run` has been probed, or has gone. Another one from
        the end of a run on.
        """
        self._changed = asyncio.Event()
        self._fresh = asyncio.Event()
        self._fresh.set()

    @property
    def running(self) -> bool:
        """Whether replicas are being watched now."""
        return self._running

    async def run(self) -> None:
        """Watch until cancelled, or until `stop`. Cancel-safe: no task is left, no probe under way.

        One run at a time, and none after `stop`. The next one may be in another event loop.
        """
        if self._running:
            raise RuntimeError("this monitor is running already")
        self._running = True
        unsubscribe = self._registry.subscribe(self._heard)
        try:
            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(self._tick())
                await self._follow(group)
                self._first_round = self._awake()
                self._update_first_round()
                while not self._stopping:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._follow(group)
                ticking.cancel()
                for watch in self._watches.values():
                    watch.tasks[0].cancel()
                    watch.due.set()
        finally:
            unsubscribe()
            self._watches.clear()
            self._last_alive = None
            self._fresh.set()
            self._round_after_freeze.clear()
            self._renew_events()
            self._running = False

    def stop(self) -> None:
        """Start no further probe, and let `run` return once those under way have been recorded."""
        self._stopping = True
        self._changed.set()

    def report_failure(self, url: str, reason: str) -> None:
        """A session could not connect to the replica at `url`: one failure, and a probe at once.

        Every report counts; the probes that they trigger run one after the other, and any number of reports
        during a probe trigger one. A URL that is not, or no longer, a replica's is ignored. Never raises.
        """
        replica = self._registry.get(url)
        if replica is None:
            return
        if watch := self._watches.get(normalised_url(url)):
            watch.reports += 1
            watch.due.set()
        self._registry.note_failure(replica, failure_threshold=self._policy.failure_threshold, reason=reason)

    async def fresh(self) -> None:
        """Return when health can be relied on: at once, except after the process was frozen.

        After a freeze this waits until each replica has been probed once more. Without a running monitor
        there is nothing to wait for. Cancel-safe.
        """
        self._notice_freeze()
        await self._fresh.wait()

    def report_awake(self, url: str, *, latency_ms: float) -> None:
        """A session has reached the replica at `url`, which slept: it is healthy, and a probe goes there at
        once. A no-op for one that does not sleep.
        """
        replica = self._registry.get(url)
        if replica is not None and replica.sleeping:
            threshold = self._policy.recovery_threshold
            self._registry.note_success(replica, recovery_threshold=threshold, latency_ms=latency_ms)

    def _heard(self, event: RegistryEvent) -> None:
        match event:
            case ReplicaJoined() | ReplicaGone():
                self._changed.set()
            case ReplicaSlept(url=url) | ReplicaWoke(url=url):
                if watch := self._watches.get(normalised_url(url)):
                    watch.due.set()
            case _:
                pass

    def _awake(self) -> set[str]:
        return {key for key, watch in self._watches.items() if not watch.replica.sleeping}

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Afterwards exactly the registry's replicas are watched."""
        known = {normalised_url(replica.url): replica for replica in self._registry.all()}
        for key, watch in list(self._watches.items()):
            if known.get(key) is not watch.replica:
                await self._unwatch(key, watch)
        for key, replica in known.items():
            if key not in self._watches:
                watch = self._watches[key] = _Watch(replica)
                watch.due.set()
                watch.tasks = (
                    group.create_task(self._schedule(watch)),
                    group.create_task(self._probe_when_due(key, watch)),
                )

    async def _unwatch(self, key: str, watch: _Watch) -> None:
        for task in watch.tasks:
            task.cancel()
        # Before the same URL is watched again: its connection belongs to the probe that is ending.
        await asyncio.wait(watch.tasks, timeout=self._policy.timeout_seconds)
        await self._forget(watch)
        del self._watches[key]
        self._count_as_probed(key)

    async def _forget(self, watch: _Watch) -> None:
        if isinstance(self._probe, RememberingProbe):
            await self._probe.forget(self._health_url(watch))

    async def _schedule(self, watch: _Watch) -> None:
        delay = self._policy.interval_seconds * self._rng.random()
        while True:
            await self._clock.sleep(delay)
            self._registry.let_sleep(watch.replica, idle_seconds=self._sleep_after_seconds)
            if not watch.replica.sleeping:
                watch.due.set()
            delay = self._interval(watch) * (1 + self._policy.jitter * self._rng.uniform(-1, 1))

    def _interval(self, watch: _Watch) -> float:
        slow = self._policy.unhealthy_interval_seconds
        unhealthy = watch.replica.health.status is ReplicaStatus.UNHEALTHY
        return slow if unhealthy and slow is not None else self._policy.interval_seconds

    async def _probe_when_due(self, key: str, watch: _Watch) -> None:
        while True:
            await watch.due.wait()
            if self._stopping:
                return
            watch.due.clear()
            if watch.replica.sleeping:
                await self._forget(watch)
                self._count_as_probed(key)
                continue
            freezes, reports = self._freezes, watch.reports
            latency_ms, reason = await self._ask(watch)
            self._notice_freeze()
            if watch.replica.sleeping:
                watch.due.set()  # it fell asleep meanwhile: what it says now is of before
                continue
            if freezes != self._freezes:
                continue  # what it says is of before the freeze, or timed out by it; the next probe is due
            if reason is not None:
                self._registry.note_failure(
                    watch.replica, failure_threshold=self._policy.failure_threshold, reason=reason
                )
            elif reports == watch.reports:
                self._registry.note_success(
                    watch.replica,
                    recovery_threshold=self._policy.recovery_threshold,
                    latency_ms=latency_ms,
                )
            self._count_as_probed(key)

    async def _ask(self, watch: _Watch) -> tuple[float, str | None]:
        seconds = self._policy.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                latency_ms, reason = await self._probe(self._health_url(watch), timeout=seconds)
        except TimeoutError:
            return 0.0, f"no complete answer to the health probe within {seconds:g} s"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return 0.0, "the health probe was cancelled from within"
        except Exception as error:  # whatever a probe raises is a failure of its replica
            logger.debug(log_line("probe_raised", replica=watch.replica.name), exc_info=True)
            return 0.0, f"health probe raised {type(error).__name__}: {error}"
        return latency_ms, reason

    def _health_url(self, watch: _Watch) -> str:
        return join_url(watch.url, self._policy.path)

    def _count_as_probed(self, key: str) -> None:
        self._first_round.discard(key)
        self._update_first_round()
        self._round_after_freeze.discard(key)
        if not self._round_after_freeze:
            self._fresh.set()

    def _update_first_round(self) -> None:
        if not self._first_round:
            self.first_round_done.set()

    async def _tick(self) -> None:
        while True:
            self._last_alive = self._last_alive or (self._clock.monotonic(), self._clock.time())
            self._notice_freeze()
            await self._clock.sleep(TICK_SECONDS)

    def _notice_freeze(self) -> None:
        if self._last_alive is None:
            return
        now = (self._clock.monotonic(), self._clock.time())
        # A suspended machine's monotonic clock may stand still, a stopped process's does not: ask both
        # clocks. A wall clock that was set forward costs one early round.
        gap = max(now[0] - self._last_alive[0], now[1] - self._last_alive[1])
        self._last_alive = now
        if gap <= max(FROZEN_SECONDS, FROZEN_INTERVALS * self._policy.interval_seconds):
            return
        logger.warning(log_line("process_was_frozen", seconds=round(gap, 1)))
        self._freezes += 1
        self._round_after_freeze = self._awake()
        if self._round_after_freeze:
            self._fresh.clear()
        for watch in self._watches.values():
            watch.due.set()


async def run_health_check_loop(
    registry: ReplicaRegistry,
    config: RouterConfig,
    *,
    stop_event: asyncio.Event,
    http_get: HttpProbe | None = None,
) -> None:
    """Watch the replicas of `registry` until `stop_event` is set; probes under way are still recorded.

    `http_get` takes the place of the probe over HTTP.
    """
    policy = HealthPolicy.from_config(config)
    async with AsyncExitStack() as stack:
        probe = http_get if http_get is not None else await stack.enter_async_context(HttpxProbe(policy))
        if stop_event.is_set():
            return
        monitor = HealthMonitor(registry, policy, probe)
        async with asyncio.TaskGroup() as group:
            group.create_task(monitor.run())
            await stop_event.wait()
            monitor.stop()
