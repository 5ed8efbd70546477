"""PURE. What a replica does in a session, step by step: decided by the script, done by the shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from emulator.media import Order
from emulator.protocol.messages import ServerMessage


@dataclass(frozen=True, slots=True)
class Send:
    """Send a text message."""

    message: ServerMessage


@dataclass(frozen=True, slots=True)
class BeginMedia:
    """Begin to make a segment's real video, beside everything that is done meanwhile."""

    order: Order


@dataclass(frozen=True, slots=True)
class AwaitMedia:
    """Let time pass until the video that was begun is made, and deliver it."""


@dataclass(frozen=True, slots=True)
class SendMedia:
    """Send a binary message."""

    data: bytes
    segment_idx: int
    chunk: int
    """-1 is the initialisation part, then counted from 0."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this much time pass: the GPU is at work."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitUntilReady:
    """Let time pass until the replica has warmed up."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the session with this code and reason."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """End the TCP connection without a close frame."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Come to a place at which a fault may strike."""

    point: Literal["segment_start", "segment", "segment_end", "snapshot"]
    segment_idx: int
    """Of the segment, or of the next one."""
    prompt: str = ""
    """Of the segment that starts."""


Action = Send | BeginMedia | AwaitMedia | SendMedia | Wait | WaitUntilReady | Close | Drop | Reach
