"""Rounds of every measure over every proxy, interleaved, and the report at the end."""

import argparse
import asyncio
import json
import os
import platform
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import uvloop

from scripts.benchmarks.accounting import Cores
from scripts.benchmarks.load import ReplyMissing
from scripts.benchmarks.measures import MEASURES, MIB, Bench, Effort, Measure
from scripts.benchmarks.proxies import NAMES, ON_REQUEST, ProxyFailed, installed
from scripts.benchmarks.report import Results, Sample

ROOT = Path(__file__).parent.parent.parent
OUTPUT = ROOT / "var" / "bench"

FULL = Effort(seconds=3, warm_up_seconds=0.7, sessions=500, stall_bytes=512 * MIB, probe_seconds=20)
QUICK = Effort(seconds=1, warm_up_seconds=0.3, sessions=100, stall_bytes=512 * MIB, probe_seconds=10)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Compares the gateway with a baseline bridge and, where installed, HAProxy and nginx.",
        epilog="Targets are printed, not enforced: the exit status is 1 only when a measurement failed.",
    )
    parser.add_argument("--quick", action="store_true", help="two short rounds, to see that it works")
    parser.add_argument("--rounds", type=int, metavar="N", help="interleaved rounds (5, with --quick 2)")
    parser.add_argument(
        "--only",
        action="append",
        choices=NAMES,
        metavar="NAME",
        help=f"this proxy ({', '.join(NAMES)}); repeatable",
    )
    names = [measure.name for measure in MEASURES]
    parser.add_argument(
        "--measure", action="append", choices=names, metavar="NAME", help=f"this measure ({', '.join(names)})"
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where the JSON goes (var/bench/latest.json)"
    )
    parsed = parser.parse_args(arguments)
    if parsed.rounds is not None and parsed.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return parsed


_BROKEN = (ProxyFailed, ReplyMissing, OSError, psutil.Error)
"""Faults of what is measured; anything else is a defect of the benchmark, and ends it."""


async def _sample(bench: Bench, measure: Measure, proxy: str, turn: int) -> Sample:
    try:
        figures = await measure.run(bench, proxy)
    except _BROKEN as error:
        return Sample(measure.name, proxy, turn, failure=str(error) or type(error).__name__)
    except ExceptionGroup as group:
        broken, ours = group.split(_BROKEN)
        if broken is None or ours is not None:
            raise
        return Sample(measure.name, proxy, turn, failure="; ".join(_reasons(broken)))
    return Sample(measure.name, proxy, turn, figures)


def _reasons(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return list(dict.fromkeys(reason for inner in error.exceptions for reason in _reasons(inner)))
    return [str(error) or type(error).__name__]


async def _rounds(
    bench: Bench, measures: Sequence[Measure], proxies: Sequence[str], rounds: int
) -> list[Sample]:
    """A B C, A B C, ...: what changes on the machine over time touches every proxy alike."""
    samples = []
    for turn in range(1, rounds + 1):
        for measure in measures:
            for proxy in (name for name in proxies if name in measure.proxies):
                sample = await _sample(bench, measure, proxy, turn)
                samples.append(sample)
                said = sample.failure or "  ".join(
                    f"{key}={value:.4g}" for key, value in sample.figures.items()
                )
                print(f"round {turn}  {measure.name:15} {proxy:17} {said}", file=sys.stderr, flush=True)
    return samples


def _about(rounds: int, effort: Effort, cores: Cores, missing: Sequence[str]) -> dict[str, object]:
    about: dict[str, object] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}",
        "rounds": f"{rounds}, {effort.seconds:g} s a measurement",
    }
    if missing:
        about["not installed"] = ", ".join(missing)
    if cores.shared:
        about["warning"] = "one usable core: proxy and load share it, so rates mean little"
    return about


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the table, writes it and the JSON; 1 when a measurement failed, else 0."""
    options = _arguments(arguments)
    effort = QUICK if options.quick else FULL
    rounds = options.rounds or (2 if options.quick else 5)
    chosen = options.only or [name for name in NAMES if name not in ON_REQUEST]
    proxies = [name for name in NAMES if name in chosen and installed(name)]
    missing = [name for name in chosen if not installed(name)]
    measures = [measure for measure in MEASURES if not options.measure or measure.name in options.measure]
    # A session is two sockets in the load generator and two in the proxy.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cores = Cores.split()
    os.sched_setaffinity(0, cores.load)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    # Ended either way, it stops the proxy that it has started.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            samples = runner.run(_rounds(Bench(effort, cores, OUTPUT), measures, proxies, rounds))
    except KeyboardInterrupt:
        print("scripts/bench: interrupted", file=sys.stderr)
        return 130
    results = Results(samples)
    about = _about(rounds, effort, cores, missing)
    table = results.markdown(about)
    print(table)
    (OUTPUT / "latest.md").write_text(table)
    target: Path = options.json or OUTPUT / "latest.json"
    target.write_text(json.dumps(results.as_json(about), indent=1) + "\n")
    return 1 if results.failures() else 0
