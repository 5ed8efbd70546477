"""One WebSocket session on a replica: the shell around `script.Session`.

Three tasks share a session. One reads the socket and fills the script's queue, one performs what the script
answers and suffers the faults, one pings. The first to end ends the others. Frames are made and parsed by the
`websockets` library without I/O; when a byte leaves is decided here, so that a fault can cut a frame in two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from websockets.exceptions import InvalidState
from websockets.protocol import State

from emulator.faults import Capacity
from emulator.faults.fault import Fault, Point
from emulator.faults.protocol import snapshot_under
from emulator.media import Segment
from emulator.protocol import actions, script
from emulator.replica import studio
from emulator.replica.board import Encounter
from emulator.replica.effects import strike
from emulator.replica.exchange import Exchange
from emulator.replica.frames import ReplicaProtocol
from emulator.replica.hearing import Hearing
from emulator.replica.link import Link, Over

MAKING_SECONDS = 60.0
"""How long a segment's video may take; a defect is behind whatever takes longer."""


class Conversation:
    """A session from the handshake's answer to the end of its connection."""

    def __init__(
        self, exchange: Exchange, protocol: ReplicaProtocol, encounter: Encounter, *, session: int
    ) -> None:
        """`session` is the replica's count of upgrade requests."""
        self._link = Link(exchange, protocol, encounter, session)
        self._talk = self._link.talk
        self._premises = exchange.premises
        self._making: asyncio.Future[Segment] | None = None
        self._reached: list[Fault] = []
        """The faults that struck at the last point of the script."""

    async def run(self, early: bytes = b"") -> None:
        """The session is over and its place free again. `early` is what came glued to the upgrade request.

        Cancelling it leaves the socket to the caller.
        """
        link, premises = self._link, self._premises
        capacity = self._capacity()
        admitted = premises.counters.sessions < capacity
        premises.ears.add(link.wake)
        if admitted:
            premises.counters.sessions += 1
            link.record("session_opened", {})
        else:
            link.record("session_rejected", {"capacity": capacity})
        try:
            await self._run_tasks(None if admitted else script.rejection(capacity), early)
        finally:
            if self._making is not None:
                self._making.cancel()
            premises.ears.discard(link.wake)
            if admitted:
                premises.counters.sessions -= 1
            received = link.protocol.close_rcvd
            link.record("session_closed", {"code": received.code if received else None})

    def _capacity(self) -> int:
        faults = [entry.fault for entry in self._link.struck(Point.ADMIT)]
        changed = [fault.sessions for fault in faults if isinstance(fault, Capacity)]
        return changed[-1] if changed else self._premises.spec.capacity

    async def _run_tasks(self, rejection: tuple[actions.Action, ...] | None, early: bytes) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = {
                group.create_task(Hearing(self._link).run(early)),
                group.create_task(self._perform(rejection)),
                group.create_task(self._ping()),
            }
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    # Performing

    async def _perform(self, rejection: tuple[actions.Action, ...] | None) -> None:
        link = self._link
        with contextlib.suppress(Over):
            await strike(link, Point.OPEN)
            if rejection is not None:
                await self._do_all(iter(rejection))
                return
            while not self._talk.ended:
                if self._premises.closing:
                    await link.close(1001, "going_away")
                if self._talk.init is None and self._talk.backlog:
                    await strike(link, Point.INIT)
                await self._do_all(self._talk.answers())
                link.room.set()
                if not self._talk.ended:
                    await self._idle()

    async def _do_all(self, todo: Iterator[actions.Action]) -> None:
        for action in todo:
            await self._do(action)
            self._link.room.set()
            if self._premises.closing and self._link.protocol.state is State.OPEN:
                await self._link.close(1001, "going_away")

    async def _do(self, action: actions.Action) -> None:
        link = self._link
        match action:
            case actions.Reach(point=point, segment_idx=number, prompt=prompt):
                self._reached = await strike(link, Point(point), number, prompt)
            case actions.Send(message=message):
                await strike(link, Point.SEND)
                await link.send(snapshot_under(self._reached, message))
            case actions.SendMedia(data=data, segment_idx=number):
                await strike(link, Point.SEND)
                await link.send_media(data, number)
            case actions.BeginMedia() | actions.AwaitMedia():
                await self._make(action)
            case actions.Wait(seconds=seconds):
                await link.pass_time(seconds)
            case actions.WaitUntilReady():
                await self._wait_for_gpu()
            case actions.Close(code=code, reason=reason):
                await link.close(code, reason)
            case actions.Drop():
                await link.wire.finish()
                raise Over

    async def _wait_for_gpu(self) -> None:
        await strike(self._link, Point.GPU)
        while self._premises.is_warming and not self._premises.closing:
            await self._link.listen(self._premises.board.next_change(self._premises.now()))

    async def _make(self, action: actions.BeginMedia | actions.AwaitMedia) -> None:
        """Real video is under way, or delivered."""
        if isinstance(action, actions.BeginMedia):
            self._making = studio.begin(action.order)
            return
        assert self._making is not None, "video is begun before it is awaited"
        async with asyncio.timeout(MAKING_SECONDS):
            self._talk.deliver(await self._making)
        self._making = None
        await self._link.wire.wait_while_paused()

    async def _idle(self) -> None:
        """Return when there may be something to do: a message, a fault, the end. Ends a silent session."""
        link = self._link
        limit = self._premises.spec.generation.session_timeout_seconds
        # A client that we do not listen to by our own choice is not silent.
        await link.listen(link.spoke_at + limit if link.deaf is None else None)
        await strike(link, Point.NOW)
        silent = link.deaf is None and self._premises.now() >= link.spoke_at + limit
        if silent and not self._talk.backlog:
            await self._do_all(self._talk.time_out())

    # Keeping alive

    async def _ping(self) -> None:
        link, spec = self._link, self._premises.spec
        while True:
            await asyncio.sleep(spec.ping_interval_seconds)
            if link.protocol.state is not State.OPEN:
                continue
            await link.wire.wait_while_paused()
            asked_at = self._premises.now()
            with contextlib.suppress(InvalidState):
                link.protocol.send_ping(b"")
            link.outlet.push(link.protocol.parts_to_send())
            await asyncio.sleep(spec.ping_timeout_seconds)
            # A socket that we do not read by our own choice proves nothing by its silence.
            listens = self._premises.running.is_set() and not self._talk.is_full and link.deaf is None
            if listens and link.heard_at < asked_at:
                link.record("close_sent", {"code": 1011, "reason": "keepalive ping timeout"})
                link.protocol.fail(1011, "keepalive ping timeout")
                link.outlet.push(link.protocol.parts_to_send())
                return
