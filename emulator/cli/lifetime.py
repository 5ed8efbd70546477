"""How a command that serves ends: by the first signal in order, by the second at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator

BOTH = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def ended_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM sets `stop`; a second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in BOTH:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in BOTH:
        loop.add_signal_handler(number, on_signal)
    yield


def say(line: str) -> None:
    """The line is on stdout. A reader that went away (`| head`) ends nothing; from then on nobody is told
    anything."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
