"""A play on its stage: sessions open and steps are done when they are due, and all is written down.

A step that waits for a point of a session's way is done while the replica stands still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal

from emulator.events import Event
from emulator.farm import Farm
from emulator.replica.watches import Watch
from emulator.running.actions import Actions, NotDone
from emulator.running.client import DrivenSession
from emulator.running.gateways import ENDING, Gateway, StartedGateway
from emulator.running.judge_sessions import served_by
from emulator.running.seen import Attempt, Played, SessionSeen, StatusSeen, owners
from emulator.running.statuses import statuses_in
from emulator.running.timeline import (
    LOGGED,
    AtClient,
    AtReplica,
    AtStatus,
    Planned,
    Timeline,
    point_of,
    says,
)
from emulator.running.words import step_in_words, trigger_in_words
from emulator.scenario import ClientWhen, ReplicaWhen, Sessions, Signal, StatusCheck, Step, matching

STATUS_SECONDS = 0.1
"""Between two looks at the gateway's /status, while somebody waits for what it says."""
END_SECONDS = 10.0
"""How long sessions may take to end, once the play is over."""


class Stage:
    """One play. `run` it once; what was seen is in `played`."""

    def __init__(self, played: Played, farm: Farm, gateway: Gateway) -> None:
        self._played = played
        self._scenario = played.scenario
        self._farm = farm
        self._gateway = gateway
        self._began_at = 0.0
        self._woken = asyncio.Event()
        self._others = asyncio.Event()
        self._driven: dict[str, DrivenSession] = {}
        self._openings = [asyncio.Event() for _ in self._scenario.sessions]
        steps = len(self._scenario.timeline)
        planned = [Planned(key, step.at, step.when) for key, step in enumerate(self._scenario.timeline)]
        planned += [
            Planned(steps + key, entry.at if entry.when is None else None, entry.when)
            for key, entry in enumerate(self._scenario.sessions)
            if entry.at is not None or entry.when is not None
        ]
        self._timeline = Timeline.of(planned)
        self._unopened = set(range(len(self._scenario.sessions)))
        self._busy = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._actions: Actions | None = None

    async def run(self) -> None:
        """The play is over, and all its sessions with it."""
        self._began_at = asyncio.get_running_loop().time()
        self._played.statuses = [StatusSeen() for _ in self._scenario.expect.status]
        unsubscribe = self._farm.log.subscribe(self._hear)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._actions = Actions(self._farm, self._gateway, self._driven, tasks)
                self._set_watches()
                running = [
                    tasks.create_task(each)
                    for each in (self._keep_time(), self._ask_status(), self._mind_gateway())
                ]
                running.append(tasks.create_task(self._open_all(tasks)))
                await self._play()
                await self._finish()
                for task in running:
                    task.cancel()
        finally:
            unsubscribe()
            for key in range(len(self._scenario.timeline) + len(self._scenario.sessions)):
                self._release(key)

    async def _play(self) -> None:
        """Sessions and steps are through, or the time is; and the gateway's /status has been looked at."""
        checks = list(zip(self._scenario.expect.status, self._played.statuses, strict=True))
        async with asyncio.TaskGroup() as looking:
            for check, seen in checks:
                if check.at is not None:
                    looking.create_task(self._check(check, seen))
            try:
                async with asyncio.timeout(self._scenario.deadline):
                    while not self._is_through():
                        await self._wake(None)
            except TimeoutError:
                self._played.overran = True
            steps = len(self._scenario.timeline)
            self._played.waiting = [self._in_words(entry) for entry in self._timeline.waiting]
            self._played.waiting_steps = [
                entry.key + 1 for entry in self._timeline.waiting if entry.key < steps
            ]
            for check, seen in checks:
                if check.at is None:
                    looking.create_task(self._check(check, seen))

    async def _finish(self) -> None:
        """No session is left."""
        self._others.set()
        for driven in self._driven.values():
            driven.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while not all(driven.seen.over for driven in self._driven.values()):
                    await self._wake(0.05)
        for driven in self._driven.values():
            driven.seen.cut_off = not driven.seen.over
            driven.cut_off()
        self._played.ended_at = self._now()

    # Time

    def _now(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time() - self._began_at

    async def _wake(self, seconds: float | None) -> None:
        """Return when something has changed, or after so long."""
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def _keep_time(self) -> None:
        """What is due by the time is done then, and the end is looked for now and then."""
        while True:
            now = self._now()
            self._do_all(self._timeline.due(now))
            self._woken.set()
            next_at = self._timeline.next_at()
            await asyncio.sleep(0.02 if next_at is None else max(0.0, min(0.02, next_at - now)))

    def _is_through(self) -> bool:
        """Nothing more is to come: of sessions, of steps, of the gateway's end."""
        everyone_is_gone = all(driven.seen.over for driven in self._driven.values())
        if self._gateway_died:
            return everyone_is_gone
        if self._somebody_opens():
            return False
        if self._now() < self._scenario.lasts or self._busy or self._gateway_may_still_end:
            return False
        if not all(driven.waits_for_others for driven in self._driven.values()):
            return False
        waiting = self._timeline.waiting
        if any(self._may_come(entry, everyone_is_gone) for entry in waiting):
            return False
        # Where an opening never comes, those after it do not come either.
        return not self._unopened or everyone_is_gone

    def _somebody_opens(self) -> bool:
        """A session is about to open: it waits for nothing, nor does one before it in line."""
        waiting = {entry.key - len(self._scenario.timeline) for entry in self._timeline.waiting}
        in_line = [index for index in sorted(self._unopened) if not self._scenario.sessions[index].together]
        first = [*in_line[:1], *(self._unopened - set(in_line))]
        return any(index not in waiting for index in first)

    def _may_come(self, entry: Planned[int], everyone_is_gone: bool) -> bool:
        when = entry.when
        if when is None or not isinstance(when, ReplicaWhen | ClientWhen):
            return True
        if self._timeline.is_timed(entry.key) or (isinstance(when, ReplicaWhen) and when.event == "health"):
            return True
        return not everyone_is_gone

    # Steps

    def _set_watches(self) -> None:
        for entry in self._timeline.waiting:
            if (point := point_of(entry.when)) is not None:
                assert isinstance(entry.when, ReplicaWhen)
                watch = Watch(entry.key, point, entry.when.session, entry.when.n)
                for name in matching([entry.when.replica], self._farm.replicas):
                    self._farm.replicas[name].watch(dataclasses.replace(watch))

    def _hear(self, event: Event) -> None:
        """Called from inside a replica, at once."""
        now = self._now()
        self._played.events.append(dataclasses.replace(event, at=now))
        if event.kind == "point_reached":
            key = event.detail["watch"]
            place = AtReplica(event.replica, "point_reached", event.session)
            self._do_all(self._timeline.reach(key, place, now), release=key)
        elif (name := LOGGED.get(event.kind)) is not None:
            self._do_all(self._timeline.notice(AtReplica(event.replica, name, event.session), now))

    def _notice(self, session: str, event: str, kind: str | None) -> None:
        """Called from inside a client, at once."""
        now = self._now()
        self._do_all(self._timeline.notice(AtClient(session, event, kind), now))
        if (said := self._said(session, event, kind)) is not None:
            self._played.tell(now, session, said)
        self._woken.set()

    def _said(self, session: str, event: str, kind: str | None) -> str | None:
        attempt = self._played.sessions[session].last
        return None if attempt is None else in_the_account(attempt, event, kind)

    def _do_all(self, keys: list[int], *, release: int | None = None) -> None:
        if not keys and release is None:
            return
        assert self._tasks is not None
        self._busy += 1
        self._tasks.create_task(self._do_in_order(keys, release))

    async def _do_in_order(self, keys: list[int], release: int | None) -> None:
        try:
            for key in keys:
                await self._do(key)
        finally:
            if release is not None:
                self._release(release)
            self._busy -= 1
            self._woken.set()

    async def _do(self, key: int) -> None:
        steps = self._scenario.timeline
        if key >= len(steps):
            self._openings[key - len(steps)].set()
            return
        assert self._actions is not None
        self._played.tell(self._now(), "step", step_in_words(steps[key]))
        self._note_signals(steps[key])
        for action in steps[key].actions:
            try:
                await self._actions.do(action, self._there(key))
            except NotDone as problem:
                self._played.not_done.append(f"step {key + 1} ({step_in_words(steps[key])}): {problem}")

    def _there(self, key: int) -> str | None:
        """The replica where it happened that the step waited for, or the last one of that session."""
        match self._timeline.cause_of(key):
            case AtReplica(replica=replica):
                return replica
            case AtClient(session=session):
                events = self._played.events
                return next(reversed(served_by(events, owners(events)).get(session, [])), None)
            case None:
                return None

    def _release(self, key: int) -> None:
        for replica in self._farm.replicas.values():
            replica.release(key)

    def _in_words(self, entry: Planned[int]) -> str:
        steps = self._scenario.timeline
        trigger = trigger_in_words(entry.at, entry.when)
        if entry.key < len(steps):
            return f"step {entry.key + 1} ({step_in_words(steps[entry.key])}) {trigger}"
        names = self._scenario.sessions[entry.key - len(steps)].names
        return f"the opening of {', '.join(names[:5])} {trigger}"

    # Sessions

    async def _open_all(self, tasks: asyncio.TaskGroup) -> None:
        """Every session has been opened, in the order of the scenario."""
        async with asyncio.TaskGroup() as together:
            for index, entry in enumerate(self._scenario.sessions):
                if entry.together:
                    together.create_task(self._open(index, entry, tasks))
                else:
                    await self._open(index, entry, tasks)

    async def _open(self, index: int, entry: Sessions, tasks: asyncio.TaskGroup) -> None:
        if entry.at is not None or entry.when is not None:
            await self._openings[index].wait()
        for name in entry.names:
            if self._others.is_set():
                break
            seen = self._played.sessions[name] = SessionSeen(name, entry)
            driven = DrivenSession(seen, self._gateway.ws, self._notice, self._now, self._others)
            self._driven[name] = driven
            driven.task = tasks.create_task(driven.run())
            if not entry.together:
                await driven.placed.wait()
        self._unopened.discard(index)
        self._woken.set()

    # The gateway

    async def _ask_status(self) -> None:
        """What the gateway says of its replicas is heard while a step waits for it."""
        while True:
            if self._timeline.wants_status and (said := await self._status()) is not None:
                self._do_all(self._timeline.notice(AtStatus(said), self._now()))
            await asyncio.sleep(STATUS_SECONDS)

    async def _status(self) -> dict[str, str] | None:
        answer = await self._gateway.get("/status")
        return None if answer is None else statuses_in(answer.content, self._played.urls)

    async def _check(self, check: StatusCheck, seen: StatusSeen) -> None:
        if check.at is not None:
            await asyncio.sleep(max(0.0, check.at - self._now()))
        deadline = self._now() + check.within
        while True:
            seen.last = await self._status() or seen.last
            seen.held = seen.last is not None and says(seen.last, check.replicas)
            if seen.held or self._now() >= deadline or self._gateway_died:
                return
            await asyncio.sleep(STATUS_SECONDS)

    async def _mind_gateway(self) -> None:
        if not isinstance(self._gateway, StartedGateway):
            return
        await self._gateway.until_ended()
        seen = self._played.gateway
        seen.ended_at, seen.returncode = self._now(), self._gateway.returncode
        self._played.tell(self._now(), "gateway", f"ended with status {seen.returncode}")
        self._woken.set()

    def _note_signals(self, step: Step) -> None:
        seen = self._played.gateway
        for action in step.actions:
            if isinstance(action, Signal) and seen.signalled_at is None:
                seen.signalled_at = self._now() if signal.Signals[action.signal] in ENDING else None

    @property
    def _gateway_died(self) -> bool:
        """By itself: what its sessions see of that comes at once or never."""
        seen = self._played.gateway
        return seen.ended_at is not None and seen.signalled_at is None

    @property
    def _gateway_may_still_end(self) -> bool:
        """It was told to, as the scenario expects, and its time is not up."""
        seen, expected = self._played.gateway, self._scenario.expect.gateway
        if seen.signalled_at is None or seen.ended_at is not None or expected.exit == "none":
            return False
        return self._now() < seen.signalled_at + expected.within


def in_the_account(attempt: Attempt, event: str, kind: str | None) -> str | None:
    """A line for what happened to a session; None for what is not worth one."""
    match event:
        case "opened":
            return "opened" if attempt.base == 0 else f"opened again, from segment {attempt.base} on"
        case "refused":
            return f"refused: HTTP {attempt.status}" if attempt.status else f"no session: {attempt.fault}"
        case "queued":
            # A replica greets by one of its own that says that nobody waits.
            place = attempt.story.queue[-1] if attempt.story.queue else (0, 0)
            return f"waits in the queue, at position {place[0]} of {place[1]}" if any(place) else None
        case "segment_end":
            return f"segment {attempt.base + attempt.story.completed - 1} complete"
        case "resumed":
            told = attempt.story.resumed[-1] if attempt.story.resumed else {}
            return f"moved: goes on at replica {told.get('replica')} from segment {told.get('segment_idx')}"
        case "error":
            return f"error {kind}"
        case "closed":
            return f"ended: {attempt.ending}"
        case _:
            return None
