"""`python -m emulator run FILE...`: plays scenarios against a gateway, and tells whether it did well."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path

from emulator.cli import values
from emulator.running.gateways import BadCommand, parsed
from emulator.running.junit import write_junit
from emulator.running.play import DEFAULT_PORT, CannotPlay, Fresh, Standing, Venue
from emulator.running.progress import Progress
from emulator.running.results import Result, summary
from emulator.running.standing import BadGateway, reach, standing
from emulator.running.suite import Suite
from emulator.running.trace import trace_of
from emulator.scenario import NEEDS, Scenario
from emulator.scenario.reading import SHIPPED, BrokenScenario, Problem, files_in, read_scenario

PASSED, FAILED, NOT_PLAYED, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: all as expected; something was not; nothing could be judged; Ctrl-C."""
JOBS_A_CORE = 2
"""Scenarios wait more than they work."""
MOST_JOBS = 64


class BadUse(Exception):
    """The command line cannot be followed; the text says what would be right."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        venue = _venue(options)
        _check_outputs(options)
        scenarios = _scenarios(options.files)
    except (BadUse, BadCommand) as problem:
        print(f"run: {problem}", file=sys.stderr)
        return NOT_PLAYED
    except BrokenScenario as broken:
        print(broken, file=sys.stderr)
        return NOT_PLAYED
    try:
        return asyncio.run(_until_told_to_stop(_run(scenarios, venue, options)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("run: stopped", file=sys.stderr)
        return INTERRUPTED
    except (CannotPlay, BadUse) as problem:
        print(f"run: {problem}", file=sys.stderr)
        return NOT_PLAYED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator run",
        description="Plays scenarios: replicas fail on a timeline while sessions run through a gateway, and "
        "what clients and replicas saw is held against what is expected. Exit status: 0 when all was as "
        "expected, 1 when something was not, 2 when nothing could be judged: a broken scenario, or a gateway "
        "that cannot be reached.",
    )
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a scenario, or a directory of them; `kill` is the one of that name that comes along, of which "
        f"`python -m emulator list` tells (they are in {SHIPPED})",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--gateway", metavar="URL", help="one that runs, and has its replicas on this machine from --port on"
    )
    where.add_argument(
        "--start-gateway",
        metavar="COMMAND",
        help="starts a fresh one for each scenario, as in 'granian gateway.app:app'",
    )
    add("--port", type=values.port, help=f"of the first replica, with --gateway ({DEFAULT_PORT})")
    add("--junit", type=Path, metavar="PATH", help="writes the results there, for a CI server")
    add("--trace", type=Path, metavar="PATH", help="writes what came of it there; the same for the same seed")
    add("--seed", type=values.seed, metavar="N", help="of everything random, in place of the scenarios' own")
    add(
        "--jobs",
        type=values.positive,
        metavar="N",
        help="scenarios side by side (two for each core)",
    )
    add(
        "--without",
        type=_needs,
        default=[],
        metavar="NEED,...",
        help=f"what the gateway cannot do: scenarios that need it are left out; of {', '.join(NEEDS)}",
    )
    add("--verbose", action="store_true", help="tells what happened in scenarios that passed, too")
    return parser


def _needs(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in NEEDS]:
        raise argparse.ArgumentTypeError(f"there is no need {unknown[0]!r}; there are: {', '.join(NEEDS)}")
    return names


def _venue(options: argparse.Namespace) -> Venue:
    if options.start_gateway is not None:
        if options.port is not None:
            raise BadUse(
                "--port goes with --gateway; a gateway that is started here is told where its replicas are"
            )
        return Fresh(parsed(options.start_gateway))
    if options.jobs is not None and options.jobs > 1:
        raise BadUse("--jobs goes with --start-gateway: with one gateway, scenarios are played one by one")
    if options.port == 0:
        raise BadUse("--port 0 would take ports that the gateway does not know")
    try:
        return standing(options.gateway, options.port)
    except BadGateway as problem:
        raise BadUse(f"--gateway {problem}") from problem


def _check_outputs(options: argparse.Namespace) -> None:
    """Told before anything is played."""
    for flag, path in (("--junit", options.junit), ("--trace", options.trace)):
        if path is None:
            continue
        if path.is_dir():
            raise BadUse(f"{flag} {path} is a directory: name a file")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise BadUse(f"{flag} {path} cannot be written: choose another place")


def _scenarios(paths: Sequence[Path]) -> list[Scenario]:
    """Raises BrokenScenario with the problems of all files."""
    found: list[Scenario] = []
    problems: list[Problem] = []
    for path in files_in(paths):
        try:
            found.append(read_scenario(path))
        except BrokenScenario as broken:
            problems += broken.problems
    if problems:
        raise BrokenScenario(tuple(problems))
    if not found:
        raise BadUse(f"{', '.join(map(str, paths))}: no scenario file there; they end in .yaml or .yml")
    return found


async def _until_told_to_stop(running: Coroutine[object, object, int]) -> int:
    """SIGTERM ends it as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await running


async def _run(scenarios: Sequence[Scenario], venue: Venue, options: argparse.Namespace) -> int:
    if isinstance(venue, Standing):
        try:
            await reach(venue)
        except BadGateway as problem:
            raise BadUse(f"--gateway {problem}") from problem
    began = time.monotonic()
    shows_all = options.verbose or len(scenarios) == 1
    with Progress(len(scenarios), shows_all=shows_all) as progress:
        suite = Suite(
            scenarios,
            venue,
            jobs=min(options.jobs or JOBS_A_CORE * (os.cpu_count() or 1), MOST_JOBS),
            seed=options.seed,
            without=options.without,
            began=progress.began,
            ended=progress.ended,
        )
        results = await suite.run()
    print(summary(results, time.monotonic() - began))
    _write(results, options)
    return FAILED if any(result.verdict == "failed" for result in results) else PASSED


def _write(results: Sequence[Result], options: argparse.Namespace) -> None:
    try:
        if options.trace is not None:
            lines = [
                line
                for each in results
                if each.played
                for line in trace_of(each.played, passed=each.verdict == "passed")
            ]
            options.trace.write_text("".join(f"{line}\n" for line in lines))
        if options.junit is not None:
            write_junit(options.junit, results)
    except OSError as problem:
        raise BadUse(f"{problem.filename}: {problem.strerror}") from problem
