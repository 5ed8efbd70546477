"""Several scenarios, side by side where each has a gateway of its own, and their verdicts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from emulator.media import Order, Segment
from emulator.running.gateways import GatewayFailed
from emulator.running.judge import findings
from emulator.running.play import CannotPlay, Fresh, LacksStatus, Standing, Unfit, Venue, play
from emulator.running.results import Result, lacking
from emulator.running.seen import Played
from emulator.running.undisturbed import asked_of, segment_hashes
from emulator.scenario import Need, Prompt, Scenario, Signal, Wait, matching


class Suite:
    """What is to be played, and where. `run` it once."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        venue: Venue,
        *,
        jobs: int = 1,
        seed: int | None = None,
        without: Iterable[Need] = (),
        began: Callable[[Scenario], None] = lambda _: None,
        ended: Callable[[Result], None] = lambda _: None,
    ) -> None:
        """`seed` wins over the scenarios' own; `without` is what the gateway cannot do. `began` and `ended`
        are told of each as it goes."""
        self._scenarios = scenarios
        self._venue = venue
        self._jobs = jobs if isinstance(venue, Fresh) else 1
        self._seed = seed
        self._without = frozenset(without)
        self._began = began
        self._ended = ended

    async def run(self) -> list[Result]:
        """One result a scenario, in their order. Raises CannotPlay."""
        results: list[Result | None] = [None] * len(self._scenarios)
        todo = list(reversed(range(len(self._scenarios))))
        if self._jobs > 1:
            # One that takes long, begun last, would run on alone.
            todo.sort(key=lambda index: about_seconds(self._scenarios[index]))

        async def work() -> None:
            while todo:
                index = todo.pop()
                self._began(self._scenarios[index])
                result = results[index] = await self._result(self._scenarios[index])
                self._ended(result)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._jobs, len(todo))):
                    tasks.create_task(work())
        except* CannotPlay as group:
            raise group.exceptions[0] from None
        return [result for result in results if result is not None]

    async def _result(self, scenario: Scenario) -> Result:
        began = time.monotonic()
        if missing := [need for need in scenario.needs if need in self._without]:
            return Result(scenario, "cannot", 0.0, (lacking(missing),))
        if isinstance(self._venue, Standing) and _signals(scenario):
            return Result(
                scenario, "cannot", 0.0, ("cannot: only a gateway that was started here gets signals",)
            )
        try:
            played = await play(scenario, self._venue, seed=self._seed)
        except LacksStatus:
            return Result(scenario, "cannot", time.monotonic() - began, (lacking(["status"]),))
        except Unfit as why:
            text = f"cannot: the gateway runs already, and {why}"
            return Result(scenario, "cannot", time.monotonic() - began, (text,))
        except GatewayFailed as problem:
            return Result(scenario, "failed", time.monotonic() - began, (str(problem),))
        found = findings(played, await _undisturbed(played))
        seconds = time.monotonic() - began
        if found and played.open_settings:
            found = [f"cannot: {found[0]}, but the gateway runs already: {_unapplied(played)}", *found[1:]]
            return Result(scenario, "cannot", seconds, tuple(found), played, scenario.warnings)
        notes = (*scenario.warnings, *([_unapplied(played)] if played.open_settings else []))
        return Result(scenario, "failed" if found else "passed", seconds, tuple(found), played, notes)


def about_seconds(scenario: Scenario) -> float:
    """How long a play takes at least, as far as the scenario says so itself."""
    moments = [step.at for step in scenario.timeline] + [check.at for check in scenario.expect.status]
    found = [scenario.lasts, *(at for at in moments if at is not None)]
    segment = scenario.replicas.plan(scenario.replicas.names[0]).segment_seconds
    for entry in scenario.sessions:
        prompts = sum(isinstance(line, Prompt) for line in entry.prompts)
        waits = sum(line.wait for line in entry.prompts if isinstance(line, Wait))
        script = prompts * segment + max(0, prompts - 1) * entry.pause + waits
        since = entry.when.after if entry.when is not None else entry.at or 0.0
        found.append(since + script)
    return max(found)


def _signals(scenario: Scenario) -> bool:
    return any(isinstance(action, Signal) for step in scenario.timeline for action in step.actions)


def _unapplied(played: Played) -> str:
    """What a gateway that was not started here may lack, in words."""
    return f"it may not have {'; '.join(played.open_settings)}, which --start-gateway would give it"


async def _undisturbed(played: Played) -> dict[str, list[str]]:
    """The hashes of the media as they have to be, of the sessions whose media is looked at."""
    scenario = played.scenario
    patterns = [
        pattern for pattern, several in scenario.expect.sessions.items() if any(one.media for one in several)
    ]
    names = [name for name in matching(patterns, played.sessions) if played.sessions[name].segments]
    first = scenario.replicas.plan(scenario.replicas.names[0])
    generation = played.generation_of(first)
    known: dict[str, list[str]] = {}
    found: dict[str, list[str]] = {}
    for name in names:
        seen = played.sessions[name]
        init = {"type": "session_init_v2", **(seen.plan.init or {})}
        prompts = asked_of(seen)
        key = repr((init, prompts))
        if key not in known:
            known[key] = await asyncio.to_thread(segment_hashes, generation, init, prompts, _encode)
        found[name] = known[key]
    return found


def _encode(order: Order) -> Segment:
    # Only whoever wants real video needs the library that makes it.
    from emulator.media import mp4

    return mp4.encode(order)
