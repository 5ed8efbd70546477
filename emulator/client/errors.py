"""PURE. What can go wrong with a client of the control API.

EmulatorError
├── Unreachable          nobody answers there
├── BadAnswer            somebody else answers there
├── RequestRefused       the emulator says no, and what would be right
│   ├── UnknownReplica
│   ├── UnknownFault
│   ├── BadRequest       a field, a value or a parameter is not as it should be
│   ├── Conflict         the replica is in no state for that; a name or a port is taken
│   └── TooManyWaiting   every place to wait for events is taken
└── NotSeen              no such event within the deadline (a TimeoutError too)
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.control.answers import Problem


class EmulatorError(Exception):
    """Any of them."""


class Unreachable(EmulatorError):
    """No emulator answers there."""


class BadAnswer(EmulatorError):
    """What answers there is no emulator, or one of another version."""


class RequestRefused(EmulatorError):
    """The emulator says no."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class UnknownReplica(RequestRefused):
    pass


class UnknownFault(RequestRefused):
    pass


class BadRequest(RequestRefused):
    pass


class Conflict(RequestRefused):
    pass


class TooManyWaiting(RequestRefused):
    pass


class NotSeen(EmulatorError, TimeoutError):
    """No such event within the deadline."""


_KINDS: Mapping[str, type[RequestRefused]] = {
    "unknown_replica": UnknownReplica,
    "unknown_fault": UnknownFault,
    "bad_body": BadRequest,
    "bad_query": BadRequest,
    "wrong_state": Conflict,
    "name_taken": Conflict,
    "port_busy": Conflict,
    "too_many_waiting": TooManyWaiting,
}


def refused(problem: Problem) -> RequestRefused:
    """The error that stands for what the emulator answered."""
    return _KINDS.get(problem.error, RequestRefused)(problem)
