"""The gateway at work, for whoever sees it for the first time: real processes, real clients, plain words.

Starts the emulator (three replicas, one of them flaky) and the gateway on free ports, lets clients stream,
kills a replica under its sessions, and brings it back. What is told is checked; exit status 0 when all held.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.close_codes import assert_in_table
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.processes import ROOT
from tests.support.streaming_client import Attempt, Outcome, drive_until_complete
from tests.support.waiting import eventually

PROMPTS = ["a pier at dawn", "the same, in rain"]
FLAKY = "   flaky: breaks about half of its sessions"
LONG = ["a pier at dawn", "the same, in rain", "a gull lands", "the tide comes in", "night"]


class NotHeldError(Exception):
    """Something that this demonstration promises did not happen."""


async def main() -> int:
    """The exit status."""
    folder = Path(tempfile.mkdtemp(prefix="streamhold-demo-"))
    EmulatorProcess.shows_log_on_failure = GatewayProcess.shows_log_on_failure = (
        False  # it would bury the words
    )
    emulator = EmulatorProcess(folder, "--flaky", "b", "--segment-seconds", "0.4")
    gateway: GatewayProcess | None = None
    try:
        async with emulator:
            quick: dict[str, object] = {"router__health_check__interval_seconds": 0.5}
            replicas = [{**replica, "max_sessions": 4} for replica in emulator.settings()]
            gateway = GatewayProcess(folder, replicas, settings=quick, cwd=ROOT)
            async with gateway:
                await show(emulator, gateway)
    except (NotHeldError, AssertionError) as failure:
        print(f"\nNOT HELD: {failure}\n(the logs of both programs: {folder})", file=sys.stderr)
        return 1
    finally:
        emulator.kill_group()
        if gateway is not None:
            gateway.kill_group()
    shutil.rmtree(folder)
    return 0


async def show(emulator: EmulatorProcess, gateway: GatewayProcess) -> None:
    """The demonstration itself."""
    print("Three emulated GPU replicas and one gateway are running on this machine, as real processes:")
    for name, url in emulator.urls.items():
        print(f"    replica {name}   {url}{FLAKY if name == 'b' else ''}")
    print(f"    gateway     {gateway.http}")

    for url in emulator.urls.values():
        await gateway.until_status(url, "healthy")

    step(1, "Eight clients ask for a session at the same time.")
    outcomes, served = await crowd(emulator, gateway, 8)
    told(f"All 8 got every video segment that they asked for. {shares(served)}")
    told_of_broken(outcomes, "the flaky replica broke")

    step(2, "Replica a is killed while it is streaming.")
    outcomes, served = await crowd(emulator, gateway, 6, prompts=LONG, kill="a")
    lost = [try_ for try_ in broken(outcomes) if try_.close_reason == "replica_lost"]
    held(bool(lost), "the sessions on the killed replica end with close 1011 replica_lost")
    told("Its clients were told (close 1011 replica_lost), tried again, and all 6 were served to the end.")

    step(3, "Six more clients come while a is dead.")
    outcomes, served = await crowd(emulator, gateway, 6)
    held(served["a"] == 0, "nobody is sent to a dead replica")
    told(f"All 6 were served, by the others. {shares(served)}")
    await gateway.until_status(emulator.urls["a"], "unhealthy")
    told("The gateway's /status says that a is unhealthy.")

    step(4, "Replica a is started again.")
    await emulator.restart("a")
    await gateway.until_status(emulator.urls["a"], "healthy")
    outcomes, served = await crowd(emulator, gateway, 6)
    held(served["a"] > 0, "the replica that came back gets sessions again")
    told(f"It is healthy again, and serves. {shares(served)}")

    await gateway.until_no_sessions()
    print(
        "\nAll held: every client was served, every broken session ended with a code of the README's table,"
    )
    print('and no session is left behind. To try it by hand, see "Break a replica on purpose" in README.md.')


async def crowd(
    emulator: EmulatorProcess,
    gateway: GatewayProcess,
    clients: int,
    *,
    prompts: Sequence[str] = PROMPTS,
    kill: str | None = None,
) -> tuple[list[Outcome], collections.Counter[str]]:
    """What so many clients got, all complete in the end, and how many sessions each replica was given."""
    before = await emulator.sessions_total()
    async with asyncio.TaskGroup() as tasks:
        driven = [
            tasks.create_task(drive_until_complete(gateway.ws, prompts=prompts, attempts=25))
            for _ in range(clients)
        ]
        if kill is not None:
            await eventually(lambda: busy(emulator, kill), f"replica {kill} serves a session")
            await emulator.kill(kill)
    outcomes = [task.result() for task in driven]
    after = await emulator.sessions_total()
    for outcome in outcomes:
        held(outcome.completed, f"every client is served in the end; one was not: {outcome}")
        for attempt in outcome.broken:
            assert_in_table(attempt)
    return outcomes, collections.Counter({name: after[name] - before[name] for name in after})


async def busy(emulator: EmulatorProcess, name: str) -> bool:
    return int((await emulator.replica(name))["sessions"]) > 0


def broken(outcomes: Sequence[Outcome]) -> list[Attempt]:
    return [attempt for outcome in outcomes for attempt in outcome.broken]


def held(condition: bool, promise: str) -> None:
    if not condition:
        raise NotHeldError(promise)


def step(number: int, text: str) -> None:
    print(f"\n{number}. {text}", flush=True)


def told(text: str) -> None:
    print(f"   {text}", flush=True)


def told_of_broken(outcomes: Sequence[Outcome], who: str) -> None:
    tries = broken(outcomes)
    if not tries:
        return
    codes = collections.Counter(
        f"close {t.close_code} {t.close_reason}" if t.close_code else f"HTTP {t.status}" for t in tries
    )
    ends = ", ".join(f"{count} x {code}" for code, count in codes.most_common())
    told(f"On the way {who} {len(tries)} of their tries, and they tried again: {ends}.")


def shares(served: collections.Counter[str]) -> str:
    return (
        "Sessions given to: " + ", ".join(f"{name} {count}" for name, count in sorted(served.items())) + "."
    )


def run() -> int:
    """Run `main` so that on Ctrl-C and on SIGTERM the processes that it started end with it."""

    async def cancelled_by_signals() -> int:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main()

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        return asyncio.run(cancelled_by_signals())
    print("\nstopped", file=sys.stderr)
    return 130


if __name__ == "__main__":
    sys.exit(run())
