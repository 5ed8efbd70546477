"""What is measured, one function a measure: a fresh proxy, then figures or an exception that says why."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmarks.accounting import Cores, ProcessTree, own_cpu_seconds
from scripts.benchmarks.backend import PATH, Backend, HealthFarm
from scripts.benchmarks.load import Echo, ReplyMissing, Session, Sink, Viewer, connect, echo_once, until
from scripts.benchmarks.opener import Opener
from scripts.benchmarks.proxies import NAMES, Running, running

MIB = 1 << 20
GIB = 1 << 30
MESSAGE_BYTES = 64
STREAMS = 4
"""Concurrent sessions of the chunk measures."""
OPENERS = 8
PROBED_REPLICAS = 200
PROBE_INTERVAL_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how much one measurement is."""

    seconds: float
    """Of traffic that is counted."""
    warm_up_seconds: float
    sessions: int
    """Idle sessions whose memory is weighed."""
    stall_bytes: int
    """What the backend sends at a client that does not read."""
    probe_seconds: float


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how hard to measure."""

    effort: Effort
    cores: Cores
    logs: Path


Figures = dict[str, float]


_ALL = frozenset(NAMES) - {"gateway-streaming"}
_PROXIES = _ALL - {"direct"}
_WAYS = frozenset(("gateway", "gateway-streaming", "direct"))
"""The two ways in which the gateway can carry a conversation of the streaming protocol, and without it."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind of measurement."""

    name: str
    run: Callable[[Bench, str], Awaitable[Figures]]
    proxies: frozenset[str] = _PROXIES
    """Those for which the figure has a meaning."""


@asynccontextmanager
async def _proxied(bench: Bench, name: str, query: str = "") -> AsyncIterator[tuple[Running, Backend]]:
    async with (
        Backend() as backend,
        running(name, [backend.port], bench.cores.proxy, path=PATH + query, logs=bench.logs) as proxy,
    ):
        yield proxy, backend


@dataclass(slots=True)
class _Window:
    """What passed, and what it cost, between two moments."""

    count: float = 0
    seconds: float = 0
    cpu_seconds: float = 0
    load_cpu_seconds: float = 0

    def busy(self) -> Figures:
        """Shares of a core; a proxy well below 1 beside a load near 1 was not the one that set the pace."""
        return {
            "proxy_busy": self.cpu_seconds / self.seconds,
            "load_busy": self.load_cpu_seconds / self.seconds,
        }


async def _window(bench: Bench, tree: ProcessTree, count: Callable[[], float]) -> _Window:
    """Lets traffic flow: warm-up, then the counted time."""
    await asyncio.sleep(bench.effort.warm_up_seconds)
    before, cpu, own, at = count(), tree.cpu_seconds(), own_cpu_seconds(), time.monotonic()
    await asyncio.sleep(bench.effort.seconds)
    passed = _Window(
        count() - before, time.monotonic() - at, tree.cpu_seconds() - cpu, own_cpu_seconds() - own
    )
    if passed.count <= 0:
        raise ReplyMissing("nothing passed while it was measured")
    return passed


async def _close_all(sessions: list[Session]) -> None:
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(session.close())


def messages(connections: int, window: int) -> Callable[[Bench, str], Awaitable[Figures]]:
    """Small text messages, echoed, a window of them under way in each of several sessions.

    An echo counts as two messages, one for each way through the proxy.
    """

    async def measured(bench: Bench, name: str) -> Figures:
        async with _proxied(bench, name) as (proxy, _):
            sessions = [
                await connect(lambda: Echo(MESSAGE_BYTES, window), proxy.url) for _ in range(connections)
            ]
            for session in sessions:
                session.start()
            passed = await _window(
                bench, proxy.tree, lambda: 2 * sum(session.received for session in sessions)
            )
            for session in sessions:
                await session.settled()
            await _close_all([*sessions])
        return {
            "messages_per_second": passed.count / passed.seconds,
            "cpu_us_per_message": passed.cpu_seconds / passed.count * 1e6,
            **passed.busy(),
        }

    return measured


def chunks(size: int) -> Callable[[Bench, str], Awaitable[Figures]]:
    """Chunks of this size from backend to client, several streams at once."""

    async def measured(bench: Bench, name: str) -> Figures:
        async with _proxied(bench, name) as (proxy, _):
            url = f"{proxy.url}?source={size}&total=0"
            sinks = [await connect(lambda: Sink(size), url) for _ in range(STREAMS)]
            passed = await _window(bench, proxy.tree, lambda: sum(sink.bytes for sink in sinks))
            async with asyncio.TaskGroup() as group:
                for sink in sinks:
                    group.create_task(sink.settled(stop=True))
            await _close_all([*sinks])
        return {
            "mib_per_second": passed.count / passed.seconds / MIB,
            "cpu_seconds_per_gib": passed.cpu_seconds / passed.count * GIB,
            **passed.busy(),
        }

    return measured


def resume(size: int) -> Callable[[Bench, str], Awaitable[Figures]]:
    """Conversations of the streaming protocol with chunks of this size, several at once.

    Ready to resume, the gateway reads each text message, keeps what another replica would need, and asks for
    the state after each segment; as a passthrough it does none of that.
    """

    async def measured(bench: Bench, name: str) -> Figures:
        async with _proxied(bench, name) as (proxy, _):
            url = f"{proxy.url}?segments={size}"
            viewers = [await connect(lambda: Viewer(size), url) for _ in range(STREAMS)]
            passed = await _window(bench, proxy.tree, lambda: sum(viewer.bytes for viewer in viewers))
            for viewer in viewers:
                await viewer.finished()
            await _close_all([*viewers])
        return {
            "mib_per_second": passed.count / passed.seconds / MIB,
            "cpu_seconds_per_gib": passed.cpu_seconds / passed.count * GIB,
            **passed.busy(),
        }

    return measured


async def opens(bench: Bench, name: str) -> Figures:
    """Sessions opened and closed by several clients, one after another each: both handshakes, no message."""
    async with _proxied(bench, name) as (proxy, backend):
        done = 0
        flowing = True

        async def keep_opening() -> None:
            nonlocal done
            opener = Opener(proxy.port, PATH)
            while flowing:
                await opener.open_and_close()
                done += 1

        before = backend.tally.opened
        async with asyncio.TaskGroup() as group:
            for _ in range(OPENERS):
                group.create_task(keep_opening())
            passed = await _window(bench, proxy.tree, lambda: done)
            flowing = False
        reached = backend.tally.opened - before
        if reached != done:
            raise ReplyMissing(f"{done} sessions opened, {reached} reached the backend")
    return {
        "opens_per_second": passed.count / passed.seconds,
        "cpu_us_per_open": passed.cpu_seconds / passed.count * 1e6,
        **passed.busy(),
    }


async def memory(bench: Bench, name: str) -> Figures:
    """Growth of the proxy by many open sessions that have carried one message and then rest."""
    count = bench.effort.sessions
    async with _proxied(bench, name) as (proxy, _):
        for _ in range(10):
            await echo_once(proxy.url)
        before = proxy.tree.memory()
        sessions = [await connect(lambda: Echo(64, 1), proxy.url) for _ in range(count)]
        for session in sessions:
            session.start()
            await session.settled()
        await asyncio.sleep(0.5)
        after = proxy.tree.memory()
        await _close_all([*sessions])
    return {
        "pss_kib_per_session": (after.pss - before.pss) / count / 1024,
        "rss_kib_per_session": (after.rss - before.rss) / count / 1024,
    }


def stalled(size: int) -> Callable[[Bench, str], Awaitable[Figures]]:
    """Peak growth while the backend sends at a client that does not read, which then reads every byte."""

    async def measured(bench: Bench, name: str) -> Figures:
        total = bench.effort.stall_bytes
        async with _proxied(bench, name) as (proxy, backend):
            await echo_once(proxy.url)
            before = peak = proxy.tree.rss()
            sink = await connect(lambda: Sink(size, stalled=True), f"{proxy.url}?source={size}&total={total}")
            moved_at, seen = time.monotonic(), 0
            while time.monotonic() - moved_at < 1.0:
                await asyncio.sleep(0.02)
                peak = max(peak, proxy.tree.rss())
                if backend.tally.source_bytes != seen:
                    moved_at, seen = time.monotonic(), backend.tally.source_bytes
            sink.resume()
            await sink.settled(stop=False)
            await sink.close()
        return {"growth_mib": (peak - before) / MIB, "taken_mib": seen / MIB}

    return measured


async def probes(bench: Bench, name: str) -> Figures:
    """CPU of a gateway without sessions whose only work is to probe many healthy replicas."""
    seconds = bench.effort.probe_seconds
    async with Backend() as backend, HealthFarm(PROBED_REPLICAS - 1) as farm:
        ports = [backend.port, *farm.ports]
        async with running(name, ports, bench.cores.proxy, path=PATH, logs=bench.logs) as proxy:
            await until(lambda: farm.probes >= farm.count)
            await asyncio.sleep(1)
            probed, cpu, at = farm.probes, proxy.tree.cpu_seconds(), time.monotonic()
            await asyncio.sleep(seconds)
            probed, cpu, took = farm.probes - probed, proxy.tree.cpu_seconds() - cpu, time.monotonic() - at
    expected = farm.count * took / PROBE_INTERVAL_SECONDS
    if not 0.8 < probed / expected < 1.25:
        raise ReplyMissing(f"{probed} probes in {took:.1f} s where {expected:.0f} were due")
    return {
        "percent_of_a_core": cpu / took * 100,
        "cpu_ms_per_probe": cpu / probed * 1e3,
        "connections_per_replica": farm.connections / farm.count,
    }


MEASURES = (
    Measure("messages", messages(8, 16), _ALL),
    Measure("messages-single", messages(32, 1), _ALL),
    Measure("chunks-64k", chunks(64 * 1024), _ALL),
    Measure("chunks-1m", chunks(MIB), _ALL),
    Measure("resume", resume(64 * 1024), _WAYS),
    Measure("opens", opens, _ALL),
    Measure("memory", memory),
    Measure("stalled-64k", stalled(64 * 1024)),
    Measure("stalled-1m", stalled(MIB)),
    Measure("probes", probes, frozenset(("gateway",))),
)
