"""A play on its stage: sessions open and steps are done when they are due, and all is written down.

A step that waits for a point of a session's way is done while the replica stands still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

from emulator.events import Event
from emulator.farm import Farm
from emulator.replica.watches import Watch
from emulator.running.account import event_in_words
from emulator.running.actions import Actions, NotDone
from emulator.running.client import DrivenSession
from emulator.running.gateways import Gateway
from emulator.running.judge_sessions import served_by
from emulator.running.minding import Minder
from emulator.running.seen import Played, SessionSeen, StatusSeen, owners
from emulator.running.timeline import (
    LOGGED,
    AtClient,
    AtReplica,
    AtStatus,
    Planned,
    Timeline,
    point_of,
)
from emulator.running.words import step_in_words, trigger_in_words
from emulator.scenario import OF_NO_SESSION, ClientWhen, ReplicaWhen, Sessions, matching

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
        self._minder = Minder(played, gateway, self._now)
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
                    for each in (
                        self._keep_time(),
                        self._minder.mind(),
                        self._minder.ask(lambda: self._timeline.wants_status, self._hear_status),
                        self._open_all(tasks),
                    )
                ]
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
                    looking.create_task(self._minder.check(check, seen))
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
                    looking.create_task(self._minder.check(check, seen))

    async def _finish(self) -> None:
        """No session is left."""
        self._others.set()
        for driven in self._driven.values():
            if self._played.overran and not driven.waits_for_others:
                # It waits for something that does not come.
                driven.cut_off()
            else:
                driven.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while not all(driven.seen.over for driven in self._driven.values()):
                    await self._wake(0.05)
        for driven in self._driven.values():
            driven.cut_off()
        if any(driven.seen.was_cut for driven in self._driven.values()):
            # The gateway's end may be behind that, which is known a moment after that of its connections.
            await self._minder.settle()
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
        if self._minder.died:
            return everyone_is_gone
        if self._somebody_opens():
            return False
        if self._now() < self._scenario.lasts or self._busy or self._minder.may_still_end:
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
        comes_anyway = isinstance(when, ReplicaWhen) and when.event in OF_NO_SESSION
        if comes_anyway or self._timeline.is_timed(entry.key):
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
        attempt = self._played.sessions[session].last
        if attempt is not None and (said := event_in_words(attempt, event, kind)) is not None:
            self._played.tell(now, session, said)
        self._woken.set()

    def _hear_status(self, said: dict[str, str]) -> None:
        self._do_all(self._timeline.notice(AtStatus(said), self._now()))

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
        self._minder.note_signals(steps[key])
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
