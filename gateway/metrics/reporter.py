"""Writes the gateway's metrics into the log, a line at a time."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from typing import TextIO

from gateway.clock import Clock, SystemClock
from gateway.metrics.emf import emf_line
from gateway.metrics.measuring import Counters, Moment, metrics_of


class EmfReporter:
    """One line each interval on standard output, where nothing stands before it: the gateway's other lines go
    to standard error.
    """

    def __init__(
        self,
        look: Callable[[], Moment],
        *,
        full_at_sessions: int,
        interval_seconds: float,
        namespace: str,
        service: str,
        clock: Clock | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._look = look
        self._full_at_sessions = full_at_sessions
        self._interval_seconds = interval_seconds
        self._namespace, self._service = namespace, service
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._stream = stream
        self._told = Counters()
        self._worker = f"{socket.gethostname()}:{os.getpid()}"

    async def run(self) -> None:
        """Write for ever; a last line for what was left is written when this is cancelled."""
        try:
            while True:
                await self._clock.sleep(self._interval_seconds)
                self.write()
        finally:
            self.write()

    def write(self) -> None:
        """One line for this moment."""
        moment = self._look()
        values = metrics_of(moment, before=self._told, full_at_sessions=self._full_at_sessions)
        self._told = moment.counters
        line = emf_line(
            values,
            namespace=self._namespace,
            service=self._service,
            at_ms=int(self._clock.time() * 1000),
            worker=self._worker,
        )
        # In one piece: workers share the stream.
        stream = self._stream if self._stream is not None else sys.stdout
        stream.write(line + "\n")
        stream.flush()
