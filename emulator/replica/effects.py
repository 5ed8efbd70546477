"""What a session suffers: for each fault that takes time, speaks or ends something, what is done.

Faults that change what is sent or answered without more ado have no effect here; the link asks for them.
"""

from __future__ import annotations

import math
from functools import singledispatch

from websockets.frames import Opcode

from emulator.faults import (
    Abort,
    CloseSession,
    ColdStart,
    GpuError,
    Kill,
    Latency,
    Oversized,
    Pause,
    Poison,
    ProcessFault,
    Reject,
    Reset,
    Restart,
    Stall,
    StopReading,
)
from emulator.faults.fault import Fault, Point
from emulator.protocol import actions, script
from emulator.protocol.messages import QueueStatus
from emulator.replica.board import Armed
from emulator.replica.frames import begun_frame, blank_frame
from emulator.replica.link import Link


async def strike(link: Link, point: Point, segment: int | None = None, prompt: str = "") -> list[Fault]:
    """The faults that struck here have been suffered, one after the other in the order of arming; those too
    that were armed or changed meanwhile. Before that, whoever watches the point has done what he wants."""
    await link.premises.pass_by(point, link.exchange.number, link.session)
    met: list[Armed] = []
    while (entry := link.next_struck(point, segment, prompt, met)) is not None:
        met.append(entry)
        await suffer(entry.fault, entry, link)
    return [entry.fault for entry in met]


@singledispatch
async def suffer(fault: Fault, entry: Armed, link: Link) -> None:
    """The session has suffered the fault, which is armed as `entry`. Raises Over where it ended of it."""


@suffer.register
async def _(fault: Latency, entry: Armed, link: Link) -> None:
    jitter = fault.jitter_seconds * link.encounter.draw() if fault.jitter_seconds else 0.0
    await link.outlast(entry, fault.seconds + jitter)


@suffer.register
async def _(fault: Stall, entry: Armed, link: Link) -> None:
    await link.outlast(entry, fault.seconds)
    if fault.then == "reset" and link.stands(entry):
        await link.reset()


@suffer.register
async def _(fault: StopReading, entry: Armed, link: Link) -> None:
    end = None if fault.seconds is None else link.premises.now() + fault.seconds
    link.deaf = (entry, end)


@suffer.register
async def _(fault: ColdStart, entry: Armed, link: Link) -> None:
    end = link.premises.now() + fault.seconds
    while link.stands(entry) and not link.premises.closing and (left := end - link.premises.now()) > 0:
        place = math.ceil(left / fault.every_seconds)
        await link.send(QueueStatus(position=place, queue_depth=place))
        await link.outlast(entry, min(left, fault.every_seconds))


@suffer.register
async def _(fault: Abort, _entry: Armed, link: Link) -> None:
    await link.wire.write(begun_frame(fault.declared_bytes, fault.sent_bytes))
    await link.reset()


@suffer.register
async def _(_fault: Reset, _entry: Armed, link: Link) -> None:
    await link.reset()


@suffer.register
async def _(fault: CloseSession, _entry: Armed, link: Link) -> None:
    await link.close(fault.code, fault.reason)


@suffer.register
async def _(fault: Reject, _entry: Armed, link: Link) -> None:
    rejected = fault.code == "session_rejected"
    for action in script.rejection(link.premises.capacity) if rejected else script.unavailability():
        match action:
            case actions.Send(message=message):
                await link.send(message)
            case actions.Close(code=code, reason=reason):
                await link.close(code, reason)
            case _:
                pass


@suffer.register
async def _(fault: GpuError, _entry: Armed, link: Link) -> None:
    await link.send(script.failure(retryable=fault.retryable).message)
    await link.say_nothing_more()


@suffer.register
async def _(fault: Oversized, _entry: Armed, link: Link) -> None:
    await link.still_open()
    await link.outlet.send(blank_frame(Opcode.BINARY if fault.binary else Opcode.TEXT, fault.size_bytes))
    if fault.binary:
        link.record("binary_sent", {"size_bytes": fault.size_bytes})
    else:
        link.record("message_sent", {"type": None, "size_bytes": fault.size_bytes})


@suffer.register(Kill)
@suffer.register(Pause)
@suffer.register(Restart)
@suffer.register(Poison)
async def _(fault: ProcessFault, _entry: Armed, link: Link) -> None:
    await link.premises.carry_out(fault)
