"""What leaves by an ASGI server's `send`: in order, counted until the client has taken it.

`InStep` awaits each send before it begins the next, which every server allows. Each such await is a trip to
Granian's thread and back, and the trips are most of what a message costs there. `Ahead` makes them rare: it
calls `send`, which begins at once, and looks for the outcome when it next has something to do. It is woken
for one only where the session is paused or `flushed` is awaited. Either way the same bound holds for what
waits: above `HIGH_WATER_BYTES` the session is told to stop, and at `LOW_WATER_BYTES` to go on.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.session.downstream import DownstreamListener

HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 64 * 1024

MAX_UNWATCHED_BYTES = 4 * 1024 * 1024
"""What may be sent while no receive is pending, since a client that vanished then goes unnoticed."""

Frame = dict[str, Any]
"""An ASGI message: `websocket.send` or `websocket.close`."""


class Sending(Protocol):
    """A send that has begun, the part of `asyncio.Future` that Granian's own futures have."""

    def done(self) -> bool: ...

    def result(self) -> object: ...

    def cancel(self) -> object: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Granian's keep one callback: the last."""


class Writer(ABC):
    """One client's way out. `run` must be running from `start` to the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener: DownstreamListener | None = None
        self._queue: deque[tuple[Frame, int]] = deque()
        """What has not been given to the server."""
        self._waiting_bytes = 0
        """What the client has not taken, in the queue or with the server."""
        self._paused = False
        self._allowance: float = math.inf
        """What may still be given to the server while no receive is pending; one frame may overdraw it."""
        self._progress_at = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        """Cleared while somebody waits for it."""
        self._gone = False

    def start(self, listener: DownstreamListener) -> None:
        """Frames are sent from now on; `listener` is told when to pause."""
        self._listener = listener

    @abstractmethod
    async def run(self) -> None:
        """Send until cancelled, and forget the rest then. Raises what a send has raised."""

    def push(self, frame: Frame, size_bytes: int) -> None:
        """Send `frame` after what is waiting; nothing once the client is gone."""
        if self._gone:
            return
        if not self._has_unsent():
            self._progress_at = self._loop.time()
        self._queue.append((frame, size_bytes))
        self._waiting_bytes += size_bytes
        self._send_on()
        if self._waiting_bytes > HIGH_WATER_BYTES and not self._paused and self._listener is not None:
            self._paused = True
            self._listener.downstream_paused()
            self._somebody_waits()

    def drop_unsent(self) -> None:
        """Forget the messages that the client has not taken, but not a close that waits behind them."""
        kept = [entry for entry in self._queue if _is_close(entry[0])]
        self._waiting_bytes -= sum(size for _, size in self._queue) - sum(size for _, size in kept)
        self._queue.clear()
        self._queue.extend(kept)

    def unwatched(self) -> None:
        """No receive is pending from now on."""
        self._allowance = MAX_UNWATCHED_BYTES

    def watched(self) -> None:
        """A receive is pending again."""
        self._allowance = math.inf
        if self._queue:
            self._send_on()

    def left(self) -> None:
        """`receive` has told of the end: the client is gone. Not so where the close alone is under way: the
        server tells of the end when it begins that, and it may still have to wait for the client.
        """
        if not self._is_closing():
            self.end()

    def end(self) -> None:
        """The client is gone: nothing is sent any more, and nobody waits for it."""
        self._gone = True
        self._queue.clear()
        self._idle.set()

    @property
    def has_ended(self) -> bool:
        """The client is gone."""
        return self._gone

    @property
    def stalled_since(self) -> float | None:
        """Loop time since which the client is known to take nothing although something waits for it; None if
        nothing waits. It is never before the last frame that was taken, but may be after it until somebody
        has asked.
        """
        return None if self._gone or not self._has_unsent() else self._progress_at

    async def flushed(self) -> None:
        """Return once nothing waits any more, or the client is gone. Cancel-safe."""
        while not self._gone and self._has_unsent():
            self._idle.clear()
            self._somebody_waits()
            await self._idle.wait()

    @abstractmethod
    def _has_unsent(self) -> bool:
        """Whether something waits for the client, by what is known of the sends now."""

    @abstractmethod
    def _is_closing(self) -> bool:
        """Whether the close is with the server, and all before it has been taken."""

    @abstractmethod
    def _send_on(self) -> None:
        """Something was queued, or may leave now."""

    @abstractmethod
    def _somebody_waits(self) -> None:
        """When the client takes something, `_tell` must be called: the session is paused, or `flushed` is
        awaited.
        """

    def _taken(self, size_bytes: int) -> None:
        """The client has taken a frame."""
        self._progress_at = self._loop.time()
        self._waiting_bytes -= size_bytes

    def _tell(self) -> None:
        """Let go on whoever waits for no more than the client has taken."""
        if self._paused and self._waiting_bytes <= LOW_WATER_BYTES:
            self._paused = False
            if self._listener is not None:
                self._listener.downstream_resumed()
        if not self._idle.is_set() and not self._has_unsent():
            self._idle.set()


class InStep(Writer):
    """Awaits each send before it begins the next."""

    def __init__(self, send: Callable[[Frame], Awaitable[object]]) -> None:
        super().__init__()
        self._send = send
        self._work = asyncio.Event()
        self._sending: Frame | None = None

    async def run(self) -> None:
        while True:
            while self._queue and self._allowance >= 0:
                frame, size_bytes = self._queue.popleft()
                self._allowance -= size_bytes
                self._sending = frame
                await self._send(frame)
                self._sending = None
                self._taken(size_bytes)
                self._tell()
            self._work.clear()
            await self._work.wait()

    def _has_unsent(self) -> bool:
        return self._sending is not None or bool(self._queue)

    def _is_closing(self) -> bool:
        return self._sending is not None and _is_close(self._sending)

    def _send_on(self) -> None:
        self._work.set()

    def _somebody_waits(self) -> None:
        """`run` tells of each frame."""


@dataclass(frozen=True, slots=True, eq=False)
class _UnderWay:
    sending: Sending
    size_bytes: int
    is_close: bool


class Ahead(Writer):
    """Begins a send without awaiting the one before.

    For a server whose `send` begins at once and returns a `Sending`, and whose sends leave in the order in
    which they began. What the client has taken is looked up when there is another reason to look.
    """

    def __init__(self, send: Callable[[Frame], Sending]) -> None:
        super().__init__()
        self._send = send
        self._under_way: deque[_UnderWay] = deque()
        self._watched: set[Sending] = set()
        """The sends at whose end this looks again."""
        self._failed: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        try:
            await self._failed
        finally:
            self.end()

    def drop_unsent(self) -> None:
        """As ever, and the first of those under way stays as well: it may be on its way in part."""
        super().drop_unsent()
        self._look_up()
        dropped = [one for one in list(self._under_way)[1:] if not one.is_close]
        for one in dropped:
            self._under_way.remove(one)
            self._waiting_bytes -= one.size_bytes
            one.sending.cancel()

    def end(self) -> None:
        super().end()
        # A send that is left would hold the connection, and with it the server's own end of the session.
        for one in self._under_way:
            one.sending.cancel()
        self._under_way.clear()

    @property
    def stalled_since(self) -> float | None:
        since = super().stalled_since
        if since is not None and self._under_way:
            self._watch(self._under_way[0].sending)  # who asks will ask again, so that its time matters
        return since

    def _has_unsent(self) -> bool:
        self._look_up()
        return bool(self._under_way or self._queue)

    def _is_closing(self) -> bool:
        self._look_up()
        return bool(self._under_way) and self._under_way[0].is_close

    def _send_on(self) -> None:
        while self._queue and self._allowance >= 0 and not self._failed.done():
            frame, size_bytes = self._queue.popleft()
            self._allowance -= size_bytes
            try:
                sending = self._send(frame)
            except Exception as error:  # noqa: BLE001  # whatever it is, `run` raises it
                self._fail(error)
            else:
                if not hasattr(sending, "done"):
                    # Granian's answer for a connection that it knows to be gone, before `receive` tells.
                    self.end()
                    return
                self._under_way.append(_UnderWay(sending, size_bytes, _is_close(frame)))
        if not self._watched:
            self._look_again()

    def _look_up(self) -> None:
        """Note which sends have ended; they do so in order."""
        under_way = self._under_way
        while under_way and under_way[0].sending.done():
            ended = under_way.popleft()
            try:
                ended.sending.result()
            except Exception as error:  # noqa: BLE001  # whatever it is, `run` raises it
                self._fail(error)
            self._taken(ended.size_bytes)

    def _somebody_waits(self) -> None:
        if self._under_way:
            self._watch(self._next_due())

    def _look_again(self) -> None:
        if self._paused or not self._idle.is_set():
            self._somebody_waits()

    def _watch(self, sending: Sending) -> None:
        if sending not in self._watched:
            self._watched.add(sending)
            sending.add_done_callback(self._woken)

    def _woken(self, sending: Sending) -> None:
        self._watched.discard(sending)
        self._look_up()
        self._tell()
        self._look_again()

    def _next_due(self) -> Sending:
        """The send at whose end a paused session may go on, else the last one."""
        left = sum(size for _, size in self._queue)
        due = self._under_way[-1]
        if self._paused:
            for one in reversed(self._under_way):
                due = one
                left += one.size_bytes
                if left > LOW_WATER_BYTES:
                    break
        return self._under_way[0].sending if due.sending.done() else due.sending

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


def _is_close(frame: Frame) -> bool:
    return bool(frame["type"] == "websocket.close")
