"""python -m scripts.benchmarks.fleet_cost: what a beat costs on a real server, by the size of the fleet.

A server is started for each kind and size, and so many members write an entry; then one of them beats on, and
bytes and CPU are counted. CPU is what the kernel accounts to the two processes: a busy machine makes the run
longer, and the figures a little larger. The table is the one in docs/fleet.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

import psutil
from redis import Redis

from gateway.fleet.encoding import encode_report
from gateway.fleet.member import MemberState, Report
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.redis_store import RedisFleetStore, open_client
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Beat
from tests.support.redis_server import KINDS, Kind, RedisServer

SIZES = (3, 50, 200, 500)
EVERY_SECONDS = 3.0
SPEC = FleetSpec("gateways", timedelta(hours=1))


@dataclass(frozen=True, slots=True)
class Cost:
    """One beat in a fleet of this size."""

    kind: Kind
    members: int
    sent_bytes: float
    reply_bytes: float
    member_cpu_ms: float
    server_cpu_ms: float

    def row(self) -> str:
        """The line of the table: a beat, and then the whole fleet at the usual cadence."""
        beats = self.members / EVERY_SECONDS
        cells = (
            self.kind,
            self.members,
            f"{self.sent_bytes:.0f}",
            f"{self.reply_bytes / 1024:.1f}",
            f"{self.member_cpu_ms:.2f}",
            f"{self.server_cpu_ms:.2f}",
            f"{beats * self.reply_bytes / 1024 / 1024:.2f}",
            f"{beats * self.server_cpu_ms / 10:.1f}",
            f"{self.member_cpu_ms / EVERY_SECONDS / 10:.2f}",
        )
        return f"| {' | '.join(map(str, cells))} |"


HEAD = (
    "| server | members | sent, bytes | reply, KiB | member's CPU, ms | server's CPU, ms "
    "| fleet's replies, MiB/s | server, % of a core | a member, % of a core |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def report_of(number: int) -> Report:
    """What a gateway with sessions on eight replicas reports."""
    sessions = {f"r:streamer-{(number * 7 + index) % 500:03d}": 1 + index % 3 for index in range(8)}
    return {"load": 16, "movable": 12, "max": 1000, **sessions}


def beat_of(number: int, count: int) -> Beat:
    name = f"ip-10-0-{number // 256}-{number % 256}:17:{number:016x}"
    return Beat(name, MemberState.SERVING, report_of(number + count), f"{number:016x}", count)


async def measure(kind: Kind, members: int, beats: int, folder: Path) -> Cost:
    """The mean of so many beats by one member of the fleet."""
    server = RedisServer(kind, folder)
    client = open_client(server.url, timeout_seconds=10)
    redis: Redis = Redis(port=server.port)
    try:
        store = RedisFleetStore(client, SPEC, RedisFleetConfig("cost"))
        for number in range(members):
            await store.beat(beat_of(number, 0))
        for count in range(1, 20):
            await store.beat(beat_of(0, count))
        process = psutil.Process(server.pid)
        net, cpu, own = _traffic(redis), sum(process.cpu_times()[:2]), time.process_time()
        for count in range(20, 20 + beats):
            answer = await store.beat(beat_of(0, count))
            if len(answer.view.members) != members:
                raise RuntimeError(f"{len(answer.view.members)} members came back, not {members}")
        own, cpu_after = time.process_time() - own, sum(process.cpu_times()[:2])
        sent, replied = (after - before for after, before in zip(_traffic(redis), net, strict=True))
        return Cost(
            kind,
            members,
            sent / beats,
            replied / beats,
            own / beats * 1000,
            (cpu_after - cpu) / beats * 1000,
        )
    finally:
        redis.close()
        await client.aclose()
        server.kill()


def _traffic(redis: Redis) -> tuple[int, int]:
    """Bytes that the server has read and written."""
    stats = cast("dict[str, int]", redis.info("stats"))
    return stats["total_net_input_bytes"], stats["total_net_output_bytes"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmarks.fleet_cost")
    parser.description = "Measures what a beat costs on real servers, by the size of the fleet."
    parser.add_argument(
        "--beats", type=int, default=1000, metavar="N", help="beats to take the mean of (1000)"
    )
    parser.add_argument("--members", type=int, action="append", metavar="N", help="a size; repeatable")
    parser.add_argument("--kind", action="append", choices=KINDS, help="a server; repeatable (all)")
    chosen = parser.parse_args(arguments)
    size = len(encode_report(report_of(0), SPEC.report_max_bytes))
    print(f"reports of {size} bytes, a beat every {EVERY_SECONDS:g} s, mean of {chosen.beats} beats\n")
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen.kind or KINDS:
            for members in chosen.members or SIZES:
                print(asyncio.run(measure(kind, members, chosen.beats, Path(folder))).row(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
