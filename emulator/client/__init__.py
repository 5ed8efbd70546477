"""A client of the control API, for tests and scripts: `Emulator`, and `AsyncEmulator` with its methods."""

from emulator.client.asynchronous import AsyncEmulator
from emulator.client.blocking import Emulator
from emulator.client.errors import (
    BadAnswer,
    BadRequest,
    Conflict,
    EmulatorError,
    NotSeen,
    RequestRefused,
    TooManyWaiting,
    UnknownFault,
    UnknownReplica,
    Unreachable,
)
from emulator.control.answers import EventPage, FarmStatus, FaultDescription, OpenSession, ReplicaStatus
from emulator.events import Event

__all__ = [
    "AsyncEmulator",
    "BadAnswer",
    "BadRequest",
    "Conflict",
    "Emulator",
    "EmulatorError",
    "Event",
    "EventPage",
    "FarmStatus",
    "FaultDescription",
    "NotSeen",
    "OpenSession",
    "ReplicaStatus",
    "RequestRefused",
    "TooManyWaiting",
    "UnknownFault",
    "UnknownReplica",
    "Unreachable",
]
