"""One WebSocket session on a replica: the shell around `script.Session`, and the place where session faults
strike.

Three tasks share a session. One reads the socket and fills the script's queue, one performs what the script
answers, one pings. The first to end ends the others. Frames are made and parsed by the `websockets` library
without I/O; when a byte leaves is decided here, so that a fault can cut a frame in two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import InvalidState
from websockets.frames import Close as CloseFrame
from websockets.frames import Frame, Opcode
from websockets.protocol import SEND_EOF, State

from emulator.faults import Abort, CloseSession, Latency, Reset, Stall
from emulator.faults.fault import Fault, Point
from emulator.faults import GpuError, Kill, Poison, Reject
from emulator.faults.protocol import snapshot_under
from emulator.media import Segment
from emulator.protocol import actions, script
from emulator.protocol.messages import MediaInit, ServerMessage, client_id_in, encode, type_in, type_of
from emulator.replica import studio
from emulator.replica.board import Encounter
from emulator.replica.frames import Assembly, ReplicaProtocol, begun_frame
from emulator.replica.premises import Premises
from emulator.replica.wire import Wire

CLOSE_SECONDS = 5.0
"""How long the client may take to answer a close frame."""
MAKING_SECONDS = 60.0
"""How long a segment's video may take; a defect is behind whatever takes longer."""


class _Over(Exception):
    """The session's connection has been ended; there is nothing left to say."""


class Conversation:
    """A session from the handshake's answer to the end of its connection."""

    def __init__(
        self,
        premises: Premises,
        wire: Wire,
        protocol: ReplicaProtocol,
        encounter: Encounter,
        *,
        connection: int,
        session: int,
    ) -> None:
        self._premises = premises
        self._wire = wire
        self._protocol = protocol
        self._encounter = encounter
        self._connection = connection
        self._session = session
        spec = premises.spec
        self._talk = script.Session(spec.generation, f"{spec.name}:{session}", spec.name)
        self._making: asyncio.Future[Segment] | None = None
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._heard_at = premises.now()
        self._spoke_at = premises.now()
        self._assembly = Assembly()
        self._is_garbled = False
        self._noted: set[str] = set()
        self._reached: tuple[Fault, ...] = ()
        protocol.answers_ping = lambda: not self._struck(Point.PING)

    async def run(self, early: bytes = b"") -> None:
        """The session is over and its place free again. `early` is what came glued to the upgrade request.

        Cancelling it leaves the socket to the caller.
        """
        counters = self._premises.counters
        admitted = counters.sessions < self._premises.spec.capacity
        self._premises.ears.add(self._wake)
        if admitted:
            counters.sessions += 1
            self._record("session_opened", {})
        else:
            self._record("session_rejected", {"capacity": self._premises.spec.capacity})
        try:
            await self._run_tasks(admitted, early)
        finally:
            if self._making is not None:
                self._making.cancel()
            self._premises.ears.discard(self._wake)
            if admitted:
                counters.sessions -= 1
            received = self._protocol.close_rcvd
            self._record("session_closed", {"code": received.code if received else None})

    async def _run_tasks(self, admitted: bool, early: bytes) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = {
                group.create_task(self._read(early)),
                group.create_task(self._perform(admitted)),
                group.create_task(self._ping()),
            }
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    # Reading

    async def _read(self, early: bytes) -> None:
        while True:
            while self._talk.is_full and not self._talk.ended:
                self._room.clear()
                await self._room.wait()
            received = early or await self._wire.read()
            early = b""
            if received:
                self._protocol.receive_data(received)
            else:
                self._protocol.receive_eof()
            for frame in self._protocol.events_received():
                self._take(frame)
            await self._flush()
            if not received or (self._protocol.close_expected() and self._protocol.close_rcvd is not None):
                return
            if self._protocol.parser_exc is not None or self._is_garbled:
                # The connection was failed: the close frame has been sent, nothing is read any more.
                sent = self._protocol.close_sent
                if sent is not None:
                    self._record("close_sent", {"code": sent.code, "reason": sent.reason})
                await self._let_the_client_finish()
                return

    async def _let_the_client_finish(self) -> None:
        """Bytes that came and were never read would turn our end of the connection into a reset, which takes
        the close frame from a client that is still sending: so read on, and throw away."""
        self._wire.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self._wire.read():
                    pass

    def _take(self, frame: object) -> None:
        if not isinstance(frame, Frame):
            return
        self._heard_at = self._premises.now()
        if frame.opcode is Opcode.CLOSE:
            received = self._protocol.close_rcvd or CloseFrame(1005, "")
            self._record("close_received", {"code": received.code, "reason": received.reason})
            return
        if (whole := self._assembly.add(frame)) is not None:
            self._spoke_at = self._heard_at
            self._receive(*whole)

    def _receive(self, is_text: bool, data: bytes) -> None:
        if not is_text:
            self._record("binary_received", {"size_bytes": len(data)})
            message: str | bytes = data
        else:
            detail = {"type": type_in(data), "size_bytes": len(data)}
            if detail["type"] == "session_init_v2" and (client_id := client_id_in(data)) is not None:
                detail["client_id"] = client_id
            self._record("message_received", detail)
            try:
                message = data.decode()
            except UnicodeDecodeError:
                self._is_garbled = True
                self._protocol.fail(1007, "not UTF-8")
                return
        if not self._talk.ended:
            self._talk.receive(message)
            self._wake.set()

    # Performing

    async def _perform(self, admitted: bool) -> None:
        with contextlib.suppress(_Over):
            await self._strike(Point.OPEN)
            if not admitted:
                await self._do_all(iter(script.rejection(self._premises.spec.capacity)))
                return
            while not self._talk.ended:
                if self._premises.closing:
                    await self._close(1001, "going_away")
                if self._talk.init is None and self._talk.backlog:
                    await self._strike(Point.INIT)
                await self._do_all(self._talk.answers())
                self._room.set()
                if not self._talk.ended:
                    await self._idle()

    async def _do_all(self, todo: Iterator[actions.Action]) -> None:
        for action in todo:
            await self._do(action)
            self._room.set()
            if self._premises.closing and self._protocol.state is State.OPEN:
                await self._close(1001, "going_away")

    async def _do(self, action: actions.Action) -> None:
        match action:
            case actions.Reach(point=point, segment_idx=number, prompt=prompt):
                self._reached = await self._strike(Point(point), number, prompt)
            case actions.Send(message=message):
                await self._strike(Point.SEND)
                await self._send(snapshot_under(self._reached, message))
            case actions.SendMedia(data=data, segment_idx=number):
                await self._strike(Point.SEND)
                await self._still_open()
                self._protocol.send_binary(data)
                await self._flush()
                self._record("binary_sent", {"size_bytes": len(data), "segment_idx": number})
            case actions.BeginMedia() | actions.AwaitMedia():
                await self._make(action)
            case actions.Wait(seconds=seconds):
                await self._pass_time(seconds)
            case actions.WaitUntilReady():
                while self._premises.is_warming and not self._premises.closing:
                    await self._listen(self._premises.board.next_change(self._premises.now()))
            case actions.Close(code=code, reason=reason):
                await self._close(code, reason)
            case actions.Drop():
                await self._wire.finish()
                raise _Over

    async def _make(self, action: actions.BeginMedia | actions.AwaitMedia) -> None:
        """Real video is under way, or delivered."""
        if isinstance(action, actions.BeginMedia):
            self._making = studio.begin(action.order)
            return
        assert self._making is not None, "video is begun before it is awaited"
        async with asyncio.timeout(MAKING_SECONDS):
            self._talk.deliver(await self._making)
        self._making = None
        await self._wire.wait_while_paused()

    async def _idle(self) -> None:
        """Return when there may be something to do: a message, a fault, the end. Ends a silent session."""
        limit = self._premises.spec.generation.session_timeout_seconds
        deadline = self._spoke_at + limit
        await self._listen(deadline)
        await self._strike(Point.NOW)
        if not self._talk.backlog and self._premises.now() >= self._spoke_at + limit:
            await self._do_all(self._talk.time_out())

    async def _pass_time(self, seconds: float) -> None:
        """The GPU works; only a stop of the server cuts it short."""
        # Others have their turn also when no time passes: a session may go on by itself for ever.
        await asyncio.sleep(0)
        end = self._premises.now() + seconds
        while self._premises.now() < end and not self._premises.closing:
            await self._listen(end)
        await self._wire.wait_while_paused()

    async def _listen(self, until: float | None) -> None:
        """Return at a change, a message, or the monotonic time `until`."""
        wait = None if until is None else max(0.0, until - self._premises.now())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        self._wake.clear()
        await self._wire.wait_while_paused()

    async def _send(self, message: ServerMessage) -> None:
        data = encode(message)
        await self._still_open()
        self._protocol.send_text(data)
        await self._flush()
        detail: dict[str, Any] = {"type": type_of(message), "size_bytes": len(data)}
        if (number := getattr(message, "segment_idx", None)) is not None:
            detail["segment_idx"] = number
        if isinstance(message, MediaInit):
            detail["stream_id"] = message.stream_id
        self._record("message_sent", detail)

    async def _close(self, code: int, reason: str) -> None:
        """Close frame sent, and its answer or the deadline waited for."""
        with contextlib.suppress(InvalidState):
            self._protocol.send_close(code, reason)
            self._record("close_sent", {"code": code, "reason": reason})
        self._talk.ended = True
        self._room.set()
        await self._flush()
        # The reader sees the answer, ends, and with it this task; else the deadline does.
        await asyncio.sleep(CLOSE_SECONDS)
        raise _Over

    async def _still_open(self) -> None:
        """Return while messages may be sent. Once the client has said goodbye, the reader ends this task."""
        if self._protocol.state is not State.OPEN:
            await asyncio.sleep(CLOSE_SECONDS)
            raise _Over

    async def _flush(self) -> None:
        """What the protocol has to say is written; its parts stay together."""
        await self._wire.wait_while_paused()
        parts = [part for part in self._protocol.data_to_send() if part != SEND_EOF]
        if parts:
            self._wire.push(parts)
        await self._wire.drain()

    # Faults

    async def _strike(self, point: Point, segment: int | None = None, prompt: str = "") -> tuple[Fault, ...]:
        """The faults that struck here have been suffered, once nobody holds the replica at this point."""
        await self._premises.pass_by(point, self._connection, self._session)
        struck = self._struck(point, segment, prompt)
        for fault in struck:
            await self._suffer(fault)
        return struck

    def _struck(self, point: Point, segment: int | None = None, prompt: str = "") -> tuple[Fault, ...]:
        struck = self._encounter.strike(point, self._premises.now(), segment, prompt)
        for fault in struck:
            if fault.name not in self._noted:
                self._noted.add(fault.name)
                self._premises.strike_counted(fault.name, self._connection, self._session)
        return struck

    async def _suffer(self, fault: Fault) -> None:
        match fault:
            case Latency(seconds=seconds, jitter_seconds=jitter):
                await self._pass_time(seconds + (jitter * self._encounter.draw() if jitter else 0.0))
            case Stall(seconds=seconds, then=then):
                await self._stall(fault, seconds)
                if then == "reset":
                    self._wire.reset()
                    raise _Over
            case Abort(declared_bytes=declared, sent_bytes=sent):
                await self._wire.write(begun_frame(declared, sent))
                self._wire.reset()
                raise _Over
            case Reset():
                self._wire.reset()
                raise _Over
            case CloseSession(code=code, reason=reason):
                await self._close(code, reason)
            case Reject(code=code):
                refused = code == "session_rejected"
                capacity = self._premises.spec.capacity
                await self._do_all(iter(script.rejection(capacity) if refused else script.unavailability()))
            case GpuError(retryable=retryable):
                await self._send(script.failure(retryable=retryable).message)
                await self._say_nothing_more()
            case Kill() | Poison():
                self._premises.crash()
                await self._say_nothing_more()
            case _:
                pass

    async def _say_nothing_more(self) -> None:
        """Until the client leaves, or the server ends; what is said meanwhile is read and thrown away."""
        self._talk.ended = True
        self._room.set()
        while not self._premises.closing:
            await self._listen(None)
        await self._close(1001, "going_away")

    async def _stall(self, fault: Fault, seconds: float | None) -> None:
        """Quiet for `seconds`; a fault that was armed on the replica also ends by being lifted."""
        board = self._premises.board
        on_board = fault in (entry.fault for entry in board.armed.values())
        end = None if seconds is None else self._premises.now() + seconds
        while not self._premises.closing:
            if end is not None and self._premises.now() >= end:
                return
            if on_board and fault not in (entry.fault for entry in board.armed.values()):
                return
            await self._listen(end)

    # Keeping alive

    async def _ping(self) -> None:
        spec = self._premises.spec
        while True:
            await asyncio.sleep(spec.ping_interval_seconds)
            if self._protocol.state is not State.OPEN:
                continue
            await self._wire.wait_while_paused()
            asked_at = self._premises.now()
            with contextlib.suppress(InvalidState):
                self._protocol.send_ping(b"")
            self._wire.push(self._protocol.data_to_send())
            await asyncio.sleep(spec.ping_timeout_seconds)
            # A socket that we do not read by our own choice proves nothing by its silence.
            if self._heard_at < asked_at and self._premises.running.is_set() and not self._talk.is_full:
                self._record("close_sent", {"code": 1011, "reason": "keepalive ping timeout"})
                self._protocol.fail(1011, "keepalive ping timeout")
                self._wire.push([part for part in self._protocol.data_to_send() if part != SEND_EOF])
                return

    def _record(self, kind: str, detail: dict[str, Any]) -> None:
        self._premises.record(kind, connection=self._connection, session=self._session, detail=detail)
