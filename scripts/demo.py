"""The gateway at work, for whoever sees it for the first time: real processes, real clients, plain words.

Starts the emulator (three replicas, one of them flaky) and the gateway on free ports, lets clients stream,
kills a replica in the middle of their segments, and brings it back. All media is compared with an undisturbed
run by its hash. What is told is checked; exit status 0 when all held.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import shutil
import signal
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.running.story import Segment, Story
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import LongSession, Prompt
from tests.support.processes import ROOT
from tests.support.waiting import eventually

CLIENTS = 8
SCENES = ("a pier at dawn", "the same, in rain", "a gull lands", "the tide comes in", "night")
FEW = 3
"""Segments where nothing is killed."""

EMULATOR = ("--isolate", "process", "--flaky", "b", "--seed", "11", "--segment-seconds", "0.5")
"""With this seed b breaks its first sessions. Each replica is a process of its own: a kill is a SIGKILL."""
CAPACITY = 4
FLAKY = "   flaky: breaks about half of its sessions"

Places = dict[str, list[str]]
"""The replicas that each session came to, in order, by its request id."""


class NotHeldError(Exception):
    """Something that this demonstration promises did not happen."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What the demonstration is played on."""

    emulator: EmulatorProcess
    gateway: GatewayProcess
    undisturbed: Sequence[Sequence[str]]
    """For each client, the hash of each segment's media as it is without a gateway and without a fault."""


async def main() -> int:
    """The exit status. The folder with the logs stays only where they may be wanted: after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="streamhold-demo-"))
    try:
        failures = await play(folder)
    except asyncio.CancelledError:
        shutil.rmtree(folder)
        raise
    if failures:
        print("\nNOT HELD: " + "\nNOT HELD: ".join(failures), file=sys.stderr)
        print(f"(the logs of both programs: {folder})", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


async def play(folder: Path) -> Sequence[str]:
    """What did not hold. No process is left, however this ends."""
    EmulatorProcess.shows_log_on_failure = False  # it would bury the words
    GatewayProcess.shows_log_on_failure = False
    emulator = EmulatorProcess(folder, *EMULATOR)
    gateway: GatewayProcess | None = None
    failures: list[str] = []
    try:
        async with emulator:
            limits = {name: {"max_sessions": CAPACITY} for name in emulator.urls}
            quick: dict[str, object] = {"router__health_check__interval_seconds": 0.5}
            gateway = GatewayProcess(folder, emulator.settings(**limits), settings=quick, cwd=ROOT)
            introduce(emulator, gateway)
            undisturbed = await stream_directly(emulator)
            async with gateway:
                await show(Stage(emulator, gateway, undisturbed))
    except* (NotHeldError, AssertionError) as group:
        failures = [str(failure) for failure in leaves(group)]
    finally:
        emulator.kill_group()
        if gateway is not None:
            gateway.kill_group()
    return failures


async def show(stage: Stage) -> None:
    """The demonstration itself, once the replicas and the gateway run."""
    emulator, gateway = stage.emulator, stage.gateway
    for url in emulator.urls.values():
        await gateway.until_status(url, "healthy")
    await show_flaky(stage)
    await show_kill(stage)
    await show_others(stage)
    await show_return(stage)
    await gateway.until_no_sessions()
    print(
        "\nAll held: every client got all that it asked for on its first connection, byte for byte what an"
        "\nundisturbed run gives, and no session is left behind."
        '\nTo try it by hand, see "Break a replica on purpose" in README.md.'
    )


async def show_flaky(stage: Stage) -> None:
    step(1, f"The same {CLIENTS} clients stream through the gateway, all at the same time.")
    crowd = Crowd(stage, "flaky", FEW)
    await crowd.stream()
    told(f"{crowd.all_identical()} {came_to(await crowd.places())} A session that b broke is counted twice.")
    resumes = crowd.resumes()
    ways = await broken_by_flaky(stage.emulator)
    if not ways:
        told("Replica b happened to break none of its sessions.")
        return
    held(len(resumes) <= len(ways), "sessions go on elsewhere only where b broke them")
    told(f"Replica b broke {len(ways)} of its sessions ({', '.join(ways)}): {went_on(resumes, len(ways))}")
    told("No client saw an error, or had to connect again.")


async def show_kill(stage: Stage) -> None:
    emulator = stage.emulator
    # What follows is to have one cause. And a prompt that meets two losses in a row is not tried again.
    await emulator.lift("b", "flaky")
    await stage.gateway.until_status(emulator.urls["b"], "healthy")
    step(2, "Replica a is killed by SIGKILL while its sessions are in the middle of a segment.")
    told("(From here on b behaves, so that what you see has one cause.)")
    crowd = Crowd(stage, "kill", len(SCENES))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(crowd.stream())
        victims = await crowd.in_mid_segment_on("a")
        segments = {client: crowd.stories[client].completed for client in victims}
        await emulator.kill("a")
    identical = crowd.all_identical()
    places = await crowd.places()
    for client in victims:
        resumes = crowd.stories[client].resumed
        held(len(resumes) == 1, f"client {client + 1} was on a, and is told once that it goes on elsewhere")
        last = places[crowd.request_id(client)][-1]
        held(resumes[0]["replica"] == last != "a", f"client {client + 1} is told where it goes on")
    went_on_at = [crowd.stories[client].resumed[0]["segment_idx"] for client in victims]
    interrupted = sum(at == segments[client] for at, client in zip(went_on_at, victims, strict=True))
    held(interrupted > 0, "a session is interrupted in the middle of a segment")
    others = [story for client, story in enumerate(crowd.stories) if client not in victims]
    held(not any(story.resumed for story in others), "a session that is on another replica stays there")

    where = counted(crowd.stories[client].resumed[0]["replica"] for client in victims)
    all_of_them = f"{len(victims)} of {len(victims)} sessions that were on `a` went on at {where}"
    told(f"{all_of_them}; their media is identical to an undisturbed run.")
    told(f"It struck {interrupted} of them in mid-segment. The other {len(others)} sessions noticed nothing.")
    told(f"What client {victims[0] + 1} saw: {around_the_move(crowd.stories[victims[0]])}.")
    told(identical)


async def show_others(stage: Stage) -> None:
    step(3, f"{CLIENTS} more clients come while a is dead.")
    crowd = Crowd(stage, "others", FEW)
    await crowd.stream()
    places = await crowd.places()
    held(not any("a" in names for names in places.values()), "a dead replica serves nobody")
    told(f"{crowd.all_identical()} {came_to(places)}")
    await stage.gateway.until_status(stage.emulator.urls["a"], "unhealthy")
    told("The gateway's /status says that a is unhealthy.")


async def show_return(stage: Stage) -> None:
    step(4, "Replica a is started again.")
    await stage.emulator.restart("a")
    await stage.gateway.until_status(stage.emulator.urls["a"], "healthy")
    crowd = Crowd(stage, "return", FEW)
    await crowd.stream()
    places = await crowd.places()
    held(any("a" in names for names in places.values()), "the replica that came back serves again")
    told(f"It is healthy again, and serves. {crowd.all_identical()}")
    told(came_to(places))


class Crowd:
    """All clients at once, each with a session through the gateway."""

    def __init__(self, stage: Stage, name: str, segments: int) -> None:
        self._stage = stage
        self._name = name
        self._segments = segments
        self._sessions = [
            LongSession(
                stage.gateway.ws,
                prompts(client)[:segments],
                headers={"X-Request-Id": self.request_id(client)},
            )
            for client in range(CLIENTS)
        ]

    @property
    def stories(self) -> Sequence[Story]:
        """What each client saw."""
        return [session.story for session in self._sessions]

    def request_id(self, client: int) -> str:
        """Under which the gateway logs the client's session and asks replicas for it."""
        return f"demo-{self._name}-{client + 1}"

    async def stream(self) -> None:
        """Every session is over."""
        async with asyncio.TaskGroup() as tasks:
            for session in self._sessions:
                tasks.create_task(session.run())

    async def places(self) -> Places:
        """Which replicas its sessions came to."""
        ids = {self.request_id(client) for client in range(CLIENTS)}
        found: dict[str, list[tuple[int, str]]] = {request_id: [] for request_id in ids}
        for name in self._stage.emulator.urls:
            for event in await self._stage.emulator.events(name):
                headers = dict(event["detail"].get("headers", ()))
                if event["kind"] == "upgrade_received" and headers.get("X-Request-Id") in ids:
                    found[headers["X-Request-Id"]].append((event["seq"], name))
        return {request_id: [name for _, name in sorted(seen)] for request_id, seen in found.items()}

    async def in_mid_segment_on(self, name: str) -> Sequence[int]:
        """The clients on this replica, at a moment when all of them are in the middle of a segment."""
        await eventually(lambda: all(s.completed for s in self.stories), "every session has a segment")
        places = await self.places()
        there = [c for c in range(CLIENTS) if places[self.request_id(c)][-1:] == [name]]
        held(len(there) >= 2, f"replica {name} has its share of the sessions")
        what = f"the sessions on {name} are in the middle of a segment"
        await eventually(lambda: all(is_midway(self.stories[c]) for c in there), what, every=0.005)
        return there

    def all_identical(self) -> str:
        """Words for it that every client got what it would have got undisturbed. Raises where one did not."""
        for client, story in enumerate(self.stories):
            who = f"client {client + 1}"
            held(story.finished, f"{who} gets every segment on its first connection; it got: {story}")
            held(not story.errors, f"{who} sees no error; it saw: {story.errors}")
            held(not story.problems, f"{who} sees the protocol kept; it saw: {story.problems}")
            same = story.hashes == self._stage.undisturbed[client][: self._segments]
            held(same, f"the media of {who} is that of the undisturbed run")
        return (
            f"{CLIENTS} of {CLIENTS} clients got all of their {self._segments} segments, identical to the "
            "undisturbed run."
        )

    def resumes(self) -> Sequence[str]:
        """Where sessions went on after they had begun."""
        return [told["replica"] for story in self.stories for told in story.resumed]


def prompts(client: int) -> Sequence[Prompt]:
    """What a client asks for, always the same."""
    return [Prompt(f"{scene}, by client {client + 1}", seed=n) for n, scene in enumerate(SCENES)]


async def stream_directly(emulator: EmulatorProcess) -> Sequence[Sequence[str]]:
    """For each client, the hashes of its media when it streams straight from a replica without faults."""
    sound = [emulator.urls[name].replace("http", "ws", 1) + "/v1/stream" for name in ("a", "c")]
    pairs = zip(range(CLIENTS), itertools.cycle(sound), strict=False)
    sessions = [LongSession(url, prompts(client)) for client, url in pairs]
    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(session.run())
    for session in sessions:
        held(session.story.finished and not session.story.problems, f"undisturbed: {session.story}")
    return [session.story.hashes for session in sessions]


async def broken_by_flaky(emulator: EmulatorProcess) -> Sequence[str]:
    """In which ways b broke sessions so far, in order."""
    events = [event for event in await emulator.events("b") if event["kind"] == "fault_struck"]
    ways = [str(event["detail"]["way"]) for event in events if "way" in event["detail"]]
    return [way for way in ways if way not in ("slow", "healthy")]


def is_midway(story: Story) -> bool:
    """Whether a segment is running, with some of its steps done and some to come."""
    segment: Segment | None = story.segments[-1] if story.segments else None
    return segment is not None and not segment.complete and 1 <= segment.steps < segment.total_steps


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    """The exceptions in a group, and in the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def held(condition: bool, promise: str) -> None:
    if not condition:
        raise NotHeldError(promise)


# Words


def introduce(emulator: EmulatorProcess, gateway: GatewayProcess) -> None:
    print("Three emulated GPU replicas and one gateway run on this machine, each as a process of its own:")
    for name, url in emulator.urls.items():
        print(f"    replica {name}   {url}{FLAKY if name == 'b' else ''}")
    print(f"    gateway     {gateway.http}")
    print(f"\nFirst, without the gateway: {CLIENTS} clients stream {len(SCENES)} segments each from a and c.")
    print("The hashes of their media are what all that follows is compared with.", flush=True)


def step(number: int, text: str) -> None:
    print(f"\n{number}. {text}", flush=True)


def told(text: str) -> None:
    print(textwrap.fill(text, 100, initial_indent="   ", subsequent_indent="   "), flush=True)


def came_to(places: Places) -> str:
    """Where the sessions have been; one that went on elsewhere counts twice."""
    return f"They came to {counted(name for names in places.values() for name in names)}."


def went_on(resumes: Sequence[str], broken: int) -> str:
    before = broken - len(resumes)
    parts = []
    if resumes:
        parts.append(f"{len(resumes)} in mid-session, which went on at {counted(resumes)}")
    if before:
        parts.append(f"{before} before a client had seen anything, which began elsewhere")
    return "; ".join(parts) + "."


def counted(names: Iterable[str]) -> str:
    """As in `b` (1) and `c` (2)."""
    each = [f"`{name}` ({count})" for name, count in sorted(collections.Counter(names).items())]
    return " and ".join([", ".join(each[:-1]), each[-1]] if len(each) > 1 else each)


def around_the_move(story: Story) -> str:
    """The types of the messages from the segment before the move to the end of the one after, in short."""
    at = story.types.index("session_resumed")
    first = at - story.types[:at][::-1].index("ltx2_segment_start") - 1
    last = at + story.types[at:].index("ltx2_segment_complete") + 1
    runs = [(kind, len(list(same))) for kind, same in itertools.groupby(story.types[first:last])]
    told_so = story.resumed[0]
    said = f"session_resumed (segment_idx {told_so['segment_idx']}, replica {told_so['replica']})"
    names = [said if kind == "session_resumed" else f"{kind} x{n}" if n > 1 else kind for kind, n in runs]
    return ", ".join(names)


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
