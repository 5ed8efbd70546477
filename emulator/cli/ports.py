"""PURE. Which ports the control API and AWS's API have beside those of the replicas."""

from __future__ import annotations

from emulator.replica.spec import MAX_PORT

DEFAULT_CONTROL_PORT = 9190
DEFAULT_AWS_PORT = 9199


class PortOfAReplica(ValueError):
    """Nobody else can have it; the text says what would be right."""


def control_port(asked: int | None, *, first: int, replicas: int) -> int:
    """The port as asked for, or the default one; where so many replicas from `first` on take that, the one
    after theirs. 0 stands for any free one, as `first` and as `asked`.

    Raises PortOfAReplica. It is told before a port is opened: what would fail then is a replica, whose port
    is not the one to change.
    """
    return _beside("the control API", "--control-port", asked, DEFAULT_CONTROL_PORT, first, replicas)


def aws_port(asked: int | None, *, first: int, replicas: int, control: int) -> int:
    """The same for AWS's API, which makes way for the control API too."""
    port = _beside("AWS's API", "--cloudmap-port", asked, DEFAULT_AWS_PORT, first, replicas)
    if port and port == control:
        if asked is not None:
            raise PortOfAReplica(
                f"port {port} of AWS's API is the control API's: choose another with --cloudmap-port"
            )
        return port + 1 if port < MAX_PORT else first - 1
    return port


def _beside(whose: str, flag: str, asked: int | None, default: int, first: int, replicas: int) -> int:
    last = first + replicas - 1
    if asked is None:
        if not first or not first <= default <= last:
            return default
        return last + 1 if last < MAX_PORT else first - 1
    if first and first <= asked <= last:
        raise PortOfAReplica(
            f"port {asked} of {whose} is one of the replicas' ({first} to {last}): choose another with {flag}"
        )
    return asked
