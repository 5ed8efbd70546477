"""The live view on a terminal: a picture a few times a second, and the terminal as it was at the end.

Pictures are drawn in a thread, so that a terminal that takes nothing (Ctrl-S) stops the view and not the
replicas; nothing is drawn while nothing changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emulator.farm import Farm
from emulator.live.frame import Frame, Section, Size, frame_of, size
from emulator.live.watch import Watch

REFRESH_SECONDS = 0.25
DEFAULT = Size(80, 24)
MOST_WARNINGS = 200
"""Kept for stderr while the view has the terminal."""

_STYLES: Mapping[str, str] = {"": "", "good": "green", "busy": "yellow", "bad": "red", "dim": "dim"}
NUMBERS = ("sessions", "segments", "segment", "sent/s", "sent", "received", "connects", "port", "age")
"""Headings of columns that are numbers."""


class Screen:
    """Shows a farm on `stream`."""

    def __init__(self, farm: Farm, stream: TextIO | None = None, *, note: str = "") -> None:
        """`note` stands below the first line."""
        self._farm = farm
        self._stream = stream or sys.stdout
        self._note = note
        self._watch = Watch()
        self._drawn: tuple[Frame, Size] | None = None
        if hasattr(self._stream, "reconfigure"):
            # A client's id may hold what this terminal's encoding has not.
            self._stream.reconfigure(errors="replace")
        self._console = Console(file=self._stream, force_terminal=True, highlight=False)

    async def run(self, stop: asyncio.Event) -> None:
        """Return once `stop` is set: the terminal is as before, with what was warned of on stderr."""
        for event in self._farm.log.page(0, limit=sys.maxsize).events:
            self._watch.hear(event)
        self._watch.tail.clear()
        unsubscribe = self._farm.log.subscribe(self._watch.hear)
        try:
            with self._warnings_kept(), contextlib.suppress(OSError):
                # A terminal that went away (EIO) ends the view, not the replicas.
                await self._draw(stop)
        finally:
            unsubscribe()

    @property
    def summary(self) -> str:
        """One line on all that was seen."""
        watch = self._watch
        return (
            f"{watch.opened_total} sessions, {watch.segments_total} segments, "
            f"{size(watch.sent.total)} sent, {watch.strikes_total} faults struck"
        )

    async def _draw(self, stop: asyncio.Event) -> None:
        live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with live, self._suspendable(live):
            while not stop.is_set():
                screen = self._size()
                frame = self._frame(screen)
                if (frame, screen) != self._drawn:
                    self._drawn = (frame, screen)
                    await asyncio.to_thread(self._show, live, frame, screen)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_SECONDS):
                        await stop.wait()

    def _frame(self, screen: Size) -> Frame:
        replicas = self._farm.replicas
        return frame_of(
            self._watch,
            {name: str(replica.state) for name, replica in replicas.items()},
            lambda name: replicas[name].status(),
            time.time(),
            screen,
            self._note,
        )

    def _size(self) -> Size:
        """As it is now. Asked of the terminal each time: COLUMNS and LINES do not follow it."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except OSError:
            columns, lines = 0, 0
        # A terminal that nobody told its size says 0.
        return Size(columns or DEFAULT.columns, lines or DEFAULT.lines)

    def _show(self, live: Live, frame: Frame, screen: Size) -> None:
        self._console.size = (screen.columns, screen.lines)
        live.update(picture(frame), refresh=True)

    @contextlib.contextmanager
    def _suspendable(self, live: Live) -> Iterator[None]:
        """Ctrl-Z gives the terminal back before the process stops, and takes it again afterwards."""
        loop = asyncio.get_running_loop()

        def suspend() -> None:
            live.stop()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._drawn = None
            live.start()

        loop.add_signal_handler(signal.SIGTSTP, suspend)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)

    @contextlib.contextmanager
    def _warnings_kept(self) -> Iterator[None]:
        """Log records go into the tail, and to stderr only once the terminal is a plain one again."""
        root = logging.getLogger()
        before = list(root.handlers)
        kept = _Kept(self._watch)
        kept.setFormatter(before[0].formatter if before else None)
        root.handlers[:] = [kept]
        try:
            yield
        finally:
            root.handlers[:] = before
            for line in kept.lines:
                print(line, file=sys.stderr)  # noqa: T201


class _Kept(logging.Handler):
    """Keeps the newest records, and shows their first lines in the tail."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=MOST_WARNINGS)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.lines.append(text)
        self._watch.say(text.partition("\n")[0], record.created)


def picture(frame: Frame) -> RenderableType:
    """The frame as rich draws it; every line of it takes one line."""
    parts: list[RenderableType] = [_line(text, "bold") for text in frame.head]
    for section in (frame.replicas, frame.sessions):
        if section is not None:
            parts.append(_table(section))
            parts.extend([_line(section.rest, "dim")] if section.rest else [])
    parts.extend(_line(text, "dim") for text in frame.tail)
    return Group(*parts)


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    for heading in section.headings:
        table.add_column(
            heading, no_wrap=True, overflow="ellipsis", justify="right" if heading in NUMBERS else "left"
        )
    for row in section.rows:
        table.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    return table
