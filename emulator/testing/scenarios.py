"""A scenario file, played from a test: where it is, where it is played, and its verdict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from emulator.running.gateways import BadCommand, parsed
from emulator.running.play import CannotPlay, Fresh, Standing, Venue
from emulator.running.results import Result
from emulator.running.standing import BadGateway, reach, standing
from emulator.running.suite import Suite
from emulator.scenario.reading import SHIPPED, BrokenScenario, located, read_scenario
from emulator.scenario.values import did_you_mean

BEGIN_SECONDS = 10.0
"""From starting a thread until its loop runs."""

T = TypeVar("T")


class NotPlayed(Exception):
    """There is nothing to judge: a broken scenario, or a gateway that cannot be had. The text says what would
    be right."""


class Failed(Exception):
    """Something was not as the scenario expects it; the text is the verdict, with what happened."""


def found(file: str | Path, beside: Path) -> Path:
    """The scenario file: in `beside`, or one that the emulator brings. Raises NotPlayed."""
    if (path := located(Path(file), beside=beside)) is not None:
        return path
    shipped = sorted(path.name for path in SHIPPED.glob("*.yaml"))
    guess = did_you_mean(Path(file).stem, [Path(name).stem for name in shipped], always=False)
    raise NotPlayed(
        f"there is no such file in {beside}, nor among the emulator's own: {', '.join(shipped)}{guess}"
    )


def venue(gateway: str | None, start_gateway: str | None, port: int | None) -> Venue:
    """Where to play. Raises NotPlayed."""
    if (gateway is None) == (start_gateway is None):
        raise NotPlayed("say where: gateway=URL for one that runs, or start_gateway=COMMAND for a fresh one")
    if start_gateway is not None and port is not None:
        raise NotPlayed("port= goes with gateway=: one that is started here is told where its replicas are")
    try:
        return standing(gateway, port) if gateway is not None else Fresh(parsed(start_gateway or ""))
    except (BadGateway, BadCommand) as problem:
        raise NotPlayed(str(problem)) from problem


def play(path: Path, where: Venue, *, seed: int | None = None) -> Result:
    """The scenario was played, and all was as it expects. Raises Failed and NotPlayed.

    Blocks; it has an event loop of its own, in a thread of its own, and leaves the caller's alone.
    """
    try:
        result = _in_a_thread(lambda: _play(path, where, seed))
    except (BrokenScenario, BadGateway, CannotPlay) as problem:
        raise NotPlayed(str(problem)) from problem
    told = "\n".join(result.lines(account=True))
    match result.verdict:
        case "passed":
            return result
        case "failed":
            raise Failed(told)
        case "cannot":
            raise NotPlayed(told)


async def _play(path: Path, where: Venue, seed: int | None) -> Result:
    scenario = read_scenario(path)
    if isinstance(where, Standing):
        await reach(where)
    (result,) = await Suite([scenario], where, seed=seed).run()
    return result


def _in_a_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine returns or raises. Whatever ends the wait, Ctrl-C for one, cancels it and waits
    until it has cleaned up."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None, "a coroutine that runs is a task"
        begun.set_result((asyncio.get_running_loop(), task))
        return await make()

    with ThreadPoolExecutor(1, "scenario") as pool:
        done = pool.submit(lambda: asyncio.run(main()))
        try:
            return done.result()
        finally:
            if not done.done():
                loop, task = begun.result(BEGIN_SECONDS)
                # Its loop is closed when it has ended meanwhile.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(task.cancel)
