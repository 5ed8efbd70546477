"""What the tasks of one session share: the way to its client, its script, and its meeting with the faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

from websockets.exceptions import InvalidState
from websockets.frames import Opcode
from websockets.protocol import State

from emulator.faults import Bandwidth, CorruptMedia, FragmentStorm, IgnoreClose
from emulator.faults.fault import Point
from emulator.protocol import script
from emulator.protocol.messages import MediaInit, ServerMessage, encode, type_of
from emulator.replica.board import Armed, Encounter
from emulator.replica.exchange import Exchange, time_left
from emulator.replica.frames import ReplicaProtocol, fragments
from emulator.replica.outlet import Outlet

CLOSE_SECONDS = 5.0
"""How long the client may take to answer a close frame."""


class Over(Exception):
    """The session's connection has been ended; there is nothing left to say."""


class Link:
    """One session. All that waits here wakes up when a fault comes or goes."""

    def __init__(
        self, exchange: Exchange, protocol: ReplicaProtocol, encounter: Encounter, session: int
    ) -> None:
        self.exchange = exchange
        self.premises = exchange.premises
        self.wire = exchange.wire
        self.protocol = protocol
        self.encounter = encounter
        self.session = session
        spec = self.premises.spec
        self.talk = script.Session(spec.generation, f"{spec.name}:{session}", spec.name)
        self.outlet = Outlet(self.wire, self._limit, self.outlast)
        self.wake = asyncio.Event()
        """Something has changed for whoever performs: a message, a fault, the end."""
        self.room = asyncio.Event()
        """The script has answered something: there may be room for another message."""
        self.heard_at = self.spoke_at = self.premises.now()
        """When a frame, and when a message of the client came last."""
        self.deaf: tuple[Armed, float | None] | None = None
        """The fault because of which nothing is read, and until when."""
        self.ignoring_close: Armed | None = None
        """The fault because of which the client's close frame was not answered."""
        self._noted: set[Armed] = set()
        protocol.answers_ping = lambda: not self.struck(Point.PING)
        protocol.answers_close = self._answers_close

    def record(self, kind: str, detail: dict[str, Any]) -> None:
        """The event log has it."""
        self.premises.record(kind, connection=self.exchange.number, session=self.session, detail=detail)

    # Faults

    def struck(self, point: Point, segment: int | None = None) -> tuple[Armed, ...]:
        """The faults that strike here, all at once."""
        struck = self.encounter.strike(point, self.premises.now(), segment)
        for entry in struck:
            self._note(entry)
        return struck

    def next_struck(
        self, point: Point, segment: int | None, prompt: str, met: Collection[Armed]
    ) -> Armed | None:
        """The next fault that strikes here, after those that were `met`."""
        entry = self.encounter.next_strike(point, self.premises.now(), segment, prompt, met=met)
        if entry is not None:
            self._note(entry)
        return entry

    def _note(self, entry: Armed) -> None:
        """The log has each fault of a session once."""
        if entry not in self._noted:
            self._noted.add(entry)
            self.premises.strike_counted(entry.fault.name, self.exchange.number, self.session)

    def stands(self, entry: Armed) -> bool:
        """Whether it has been neither lifted nor replaced, and its time is not over."""
        return self.premises.board.stands(entry, self.premises.now())

    def _answers_close(self) -> bool:
        ignoring = [entry for entry in self.struck(Point.CLOSE) if isinstance(entry.fault, IgnoreClose)]
        self.ignoring_close = ignoring[-1] if ignoring else None
        return self.ignoring_close is None

    def _limit(self) -> Armed | None:
        """The narrowest bandwidth that holds now."""
        narrow = [entry for entry in self.struck(Point.BYTES) if isinstance(entry.fault, Bandwidth)]
        return min(narrow, key=lambda entry: getattr(entry.fault, "bytes_per_second", 0), default=None)

    # Time

    async def listen(self, until: float | None) -> None:
        """Return at a change, a message, or the monotonic time `until`."""
        wait = None if until is None else max(0.0, until - self.premises.now())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.wake.wait()
        self.wake.clear()
        await self.wire.wait_while_paused()

    async def pass_time(self, seconds: float) -> None:
        """The GPU works; only a stop of the server cuts it short."""
        # Others have their turn also when no time passes: a session may go on by itself for ever.
        await asyncio.sleep(0)
        end = self.premises.now() + seconds
        while self.premises.now() < end and not self.premises.closing:
            await self.listen(end)
        await self.wire.wait_while_paused()

    async def outlast(self, entry: Armed, seconds: float | None) -> None:
        """So much time has passed (None: without an end), or the fault stands no longer."""
        premises = self.premises
        end = None if seconds is None else premises.now() + seconds
        while not premises.closing and (left := time_left(premises, entry, end)) != 0:
            await self.listen(None if left is None else premises.now() + left)

    # Saying

    async def send(self, message: ServerMessage) -> None:
        """The text message is with the kernel, or in a buffer of bounded size."""
        data = encode(message)
        await self.still_open()
        await self._transmit(Opcode.TEXT, data)
        detail: dict[str, Any] = {"type": type_of(message), "size_bytes": len(data)}
        if (number := getattr(message, "segment_idx", None)) is not None:
            detail["segment_idx"] = number
        if isinstance(message, MediaInit):
            detail["stream_id"] = message.stream_id
        self.record("message_sent", detail)

    async def send_media(self, data: bytes, segment_idx: int) -> None:
        """The binary message is with the kernel, or in a buffer of bounded size."""
        await self.still_open()
        for entry in self.struck(Point.MEDIA, segment_idx):
            if isinstance(entry.fault, CorruptMedia):
                data = entry.fault.broken(data)
        await self._transmit(Opcode.BINARY, data)
        self.record("binary_sent", {"size_bytes": len(data), "segment_idx": segment_idx})

    async def _transmit(self, opcode: Opcode, data: bytes) -> None:
        for entry in self.struck(Point.BYTES):
            match entry.fault:
                case FragmentStorm(fragment_bytes=size, ping_every=ping_every):
                    await self.outlet.send(fragments(opcode, data, size, ping_every))
                    return
                case _:
                    pass
        if opcode is Opcode.TEXT:
            self.protocol.send_text(data)
        else:
            self.protocol.send_binary(data)
        await self.outlet.send(self.protocol.parts_to_send())

    async def flush(self) -> None:
        """What the protocol has to say of itself is written; its parts stay together."""
        await self.wire.wait_while_paused()
        if parts := self.protocol.parts_to_send():
            self.outlet.push(parts)
        await self.wire.drain()

    async def still_open(self) -> None:
        """Return while messages may be sent. Once the client has said goodbye, the reader ends this task."""
        if self.protocol.state is not State.OPEN:
            await asyncio.Event().wait()

    async def close(self, code: int, reason: str) -> None:
        """Close frame sent, and its answer or the deadline waited for: raises Over."""
        with contextlib.suppress(InvalidState):
            self.protocol.send_close(code, reason)
            self.record("close_sent", {"code": code, "reason": reason})
        self.talk.ended = True
        self.room.set()
        await self.flush()
        # The reader sees the answer, ends, and with it this task; else the deadline does.
        await asyncio.sleep(CLOSE_SECONDS)
        raise Over

    async def reset(self) -> None:
        """The client has what was sent before, and the connection is reset: raises Over."""
        await self.premises.until_sent(lambda: self.wire.unsent_bytes)
        self.wire.reset()
        raise Over

    async def say_nothing_more(self) -> None:
        """Until the client leaves, or the server ends; what is said meanwhile is read and thrown away."""
        self.talk.ended = True
        self.room.set()
        while not self.premises.closing:
            await self.listen(None)
        await self.close(1001, "going_away")
