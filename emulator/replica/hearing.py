"""The ear of a session: reads its socket, answers what the protocol itself answers, and fills the script's
queue.
"""

from __future__ import annotations

import asyncio
import contextlib

from websockets.frames import Close as CloseFrame
from websockets.frames import Frame, Opcode

from emulator.protocol.messages import client_id_in, type_in
from emulator.replica.exchange import time_left
from emulator.replica.frames import Assembly
from emulator.replica.link import CLOSE_SECONDS, Link


class Hearing:
    """Runs until the client has left, or has been told why it is not listened to any more."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._protocol = link.protocol
        self._assembly = Assembly()
        self._is_garbled = False

    async def run(self, early: bytes) -> None:
        """Return when nothing more is to be read. `early` is what came before this began."""
        link = self._link
        while True:
            await self._until_there_is_room()
            await self._while_deaf()
            received = early or await link.wire.read()
            early = b""
            # What was under way when the session turned deaf has not been heard either.
            await self._while_deaf()
            if received:
                self._protocol.receive_data(received)
            else:
                self._protocol.receive_eof()
            for frame in self._protocol.events_received():
                self._take(frame)
            await link.flush()
            if not received:
                return
            if self._protocol.close_rcvd is not None and self._protocol.close_expected():
                await self._say_goodbye()
                return
            if self._protocol.parser_exc is not None or self._is_garbled:
                # The connection was failed: the close frame has been sent, nothing is read any more.
                if (sent := self._protocol.close_sent) is not None:
                    link.record("close_sent", {"code": sent.code, "reason": sent.reason})
                await self._let_the_client_finish()
                return

    async def _until_there_is_room(self) -> None:
        talk, room = self._link.talk, self._link.room
        while talk.is_full and not talk.ended:
            room.clear()
            await room.wait()

    async def _while_deaf(self) -> None:
        if self._link.deaf is None:
            return
        premises = self._link.premises
        with premises.ear() as ear:
            while (deaf := self._link.deaf) is not None:
                left = time_left(premises, *deaf)
                if left == 0 or premises.closing:
                    # Its silence was of our making: it begins now.
                    self._link.deaf, self._link.spoke_at = None, premises.now()
                    self._link.wake.set()
                    return
                ear.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await ear.wait()

    async def _say_goodbye(self) -> None:
        """The client's close frame is answered, behind the message that is under way."""
        link = self._link
        if link.ignoring_close is not None and self._protocol.keeps_back_close:
            if not await link.exchange.outlast(link.ignoring_close, None):
                return
            self._protocol.answer_close()
            await link.flush()
        await link.outlet.settled(CLOSE_SECONDS)

    async def _let_the_client_finish(self) -> None:
        """Bytes that came and were never read would turn our end of the connection into a reset, which takes
        the close frame from a client that is still sending: so read on, and throw away."""
        await self._link.outlet.settled(CLOSE_SECONDS)
        self._link.wire.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self._link.wire.read():
                    pass

    def _take(self, frame: object) -> None:
        if not isinstance(frame, Frame):
            return
        link = self._link
        link.heard_at = link.premises.now()
        if frame.opcode is Opcode.CLOSE:
            received = self._protocol.close_rcvd or CloseFrame(1005, "")
            link.record("close_received", {"code": received.code, "reason": received.reason})
            return
        if (whole := self._assembly.add(frame)) is not None:
            link.spoke_at = link.heard_at
            self._receive(*whole)

    def _receive(self, is_text: bool, data: bytes) -> None:
        link = self._link
        if not is_text:
            link.record("binary_received", {"size_bytes": len(data)})
            message: str | bytes = data
        else:
            detail = {"type": type_in(data), "size_bytes": len(data)}
            if detail["type"] == "session_init_v2" and (client_id := client_id_in(data)) is not None:
                detail["client_id"] = client_id
            link.record("message_received", detail)
            try:
                message = data.decode()
            except UnicodeDecodeError:
                self._is_garbled = True
                self._protocol.fail(1007, "not UTF-8")
                return
        if not link.talk.ended:
            link.talk.receive(message)
            link.wake.set()
