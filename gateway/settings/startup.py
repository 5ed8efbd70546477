"""How a process starts or refuses to: the settings, then the runtime mode, then the address where it serves
itself; each refusal in lines on stderr.

Used by everything that starts the gateway, so that a refusal reads the same under Granian and under
`python -m gateway`: `gateway: ` and what is wrong, exit status 1, no traceback.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway.errors import RuntimeRefused, SettingsInvalid
from gateway.logs import escape
from gateway.runtime import LongRunningStep, Resolved, refuse_unsupported, resolve
from gateway.settings.loading import load
from gateway.settings.settings import Settings

_MOST_TOLD = 50


def load_or_exit(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """The settings, or SystemExit(1) after a line for each problem.

    The process's own environment and working directory, unless told otherwise.
    """
    try:
        return load(
            os.environ if environ is None else environ, Path.cwd() if directory is None else directory
        )
    except SettingsInvalid as invalid:
        complain(first_of([str(problem) for problem in invalid.problems]))
        raise SystemExit(1) from None


def runtime_or_exit(settings: Settings, environ: Mapping[str, str] | None = None) -> Resolved:
    """The runtime mode with its warnings, for the caller to tell, or SystemExit(1) after a line with the
    reason.
    """
    resolved = resolve_runtime(settings, environ)
    try:
        refuse_unsupported(resolved, long_running_steps(settings))
    except RuntimeRefused as refused:
        complain([str(refused)])
        raise SystemExit(1) from None
    return resolved


def bindable_or_exit(settings: Settings) -> str:
    """The IP address of router.host, on which router.port was free a moment ago, or SystemExit(1) after a
    line with the reason.

    Granian takes no host names, and tells of a port that is taken by a traceback.
    """
    host, port = settings.router.host, settings.router.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name such as localhost may have both; clients that know only one kind know the older.
        family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        why = error.strerror or str(error)
    except ValueError:  # a label of more than 63 characters, an empty one, a null character
        why = "is not a host name"
    else:
        return str(address[0])
    complain([f"router.host {host}, router.port {port}: {why}"])
    raise SystemExit(1)


def resolve_runtime(settings: Settings, environ: Mapping[str, str] | None = None) -> Resolved:
    """The runtime mode of `settings` on this host."""
    host = os.environ if environ is None else environ
    return resolve(settings.runtime.mode, host, fleet_backend=settings.fleet.backend)


def long_running_steps(settings: Settings) -> tuple[LongRunningStep, ...]:
    """What `settings` make this gateway do that needs a process which keeps running."""
    always = (LongRunningStep.HEALTH_LOOP, LongRunningStep.WEBSOCKET_BRIDGE)
    return (*always, LongRunningStep.FLEET_MEMBERSHIP) if settings.joins_fleet else always


def first_of(messages: Sequence[str]) -> list[str]:
    """As many of `messages` as somebody reads, and how many more there are."""
    left = len(messages) - _MOST_TOLD
    return [*messages[:_MOST_TOLD], f"... and {left} more"] if left > 0 else list(messages)


def complain(messages: Iterable[str]) -> None:
    """Print each message on stderr behind `gateway: `; the further lines of a message are left as they
    are.
    """
    for message in messages:
        sys.stderr.write("\n".join(map(escape, f"gateway: {message}".split("\n"))) + "\n")
    sys.stderr.flush()
