"""PURE. Which port the control API has beside those of the replicas."""

from __future__ import annotations

from emulator.replica.spec import MAX_PORT

DEFAULT_CONTROL_PORT = 9190


class PortOfAReplica(ValueError):
    """The control API cannot have it; the text says what would be right."""


def control_port(asked: int | None, *, first: int, replicas: int) -> int:
    """The port as asked for, or the default one; where so many replicas from `first` on take that, the one
    after theirs. 0 stands for any free one, as `first` and as `asked`.

    Raises PortOfAReplica. It is told before a port is opened: what would fail then is a replica, whose port
    is not the one to change.
    """
    last = first + replicas - 1
    if asked is None:
        if not first or not first <= DEFAULT_CONTROL_PORT <= last:
            return DEFAULT_CONTROL_PORT
        return last + 1 if last < MAX_PORT else first - 1
    if first and first <= asked <= last:
        raise PortOfAReplica(
            f"port {asked} of the control API is one of the replicas' ({first} to {last}): "
            "choose another with --control-port"
        )
    return asked
