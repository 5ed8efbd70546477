"""Writes a recording while it happens: each line is with the kernel before the next thing happens, so that an
interrupted recording is a readable one.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emulator.recording.format import (
    MAX_LINES,
    VERSION,
    Answer,
    Binary,
    Closed,
    Side,
    Step,
    Text,
    line_of,
    step_fields,
)
from emulator.recording.masking import masked_headers, masked_query, masked_subprotocols

DEFAULT_LIMIT_BYTES = 512 * 1024 * 1024
MOST_BODY_CHARACTERS = 4096
"""Kept of the body of a refused upgrade."""


class Recorder:
    """A file that grows, up to a limit of bytes and lines; leaving the context closes it.

    Above half of the limit media is written by length and hash alone; at the limit nothing more is.
    """

    def __init__(
        self,
        path: Path,
        of: str,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        most_lines: int = MAX_LINES,
        on_limit: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises FileExistsError, or another OSError. `on_limit` hears what is left out from then on."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._limit_bytes = limit_bytes
        self._most_lines = most_lines
        self._on_limit = on_limit
        self._written = 0
        self._lines = 0
        self._is_full = False
        self._has_media = True
        self._numbers = itertools.count(1)
        self._began_at = time.monotonic()
        self._write({"recording": VERSION, "of": of})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._file)
        self._is_full = True

    def begin(
        self, path: str, headers: Sequence[tuple[str, str]], subprotocols: Sequence[str]
    ) -> SessionRecorder:
        """A session has begun with this request."""
        return SessionRecorder(self, next(self._numbers), path, headers, subprotocols)

    def http(self, method: str, path: str, status: int, body: Any) -> None:
        """A plain request was answered."""
        place, question, query = path.partition("?")
        shown = f"{place}?{masked_query(query)}" if question else place
        self._write({"http": f"{method} {shown}", "status": status, "body": body})

    def elapsed(self) -> float:
        """Seconds since the recording began."""
        return time.monotonic() - self._began_at

    def take(self, number: int, step: Step) -> None:
        """The step belongs to session `number`."""
        fields = step_fields(step, media=self._keeps_media())
        self._write({"session": number, **fields})

    def note(self, fields: Mapping[str, Any]) -> None:
        """A line that is no step."""
        self._write(fields)

    def _keeps_media(self) -> bool:
        if self._has_media and self._written > self._limit_bytes // 2:
            self._has_media = False
            self._on_limit("half of its limit is used: from now on media is recorded by length and hash")
        return self._has_media

    def _write(self, fields: Mapping[str, Any]) -> None:
        if self._is_full:
            return
        line = line_of(fields)
        self._lines += 1
        if self._written + len(line) > self._limit_bytes or self._lines > self._most_lines:
            self._is_full = True
            line = line_of({"full": f"{self._written} bytes, {self._lines - 1} lines"})
            self._on_limit("its limit is reached: nothing more is recorded")
        self._written += len(line)
        while line:
            line = line[os.write(self._file, line) :]


class SessionRecorder:
    """One session's lines."""

    def __init__(
        self,
        recorder: Recorder,
        number: int,
        path: str,
        headers: Sequence[tuple[str, str]],
        subprotocols: Sequence[str],
    ) -> None:
        self.number = number
        self._recorder = recorder
        self._began_at = recorder.elapsed()
        self._offered = tuple(subprotocols)
        place, _, query = path.partition("?")
        self._opening: dict[str, Any] = {
            "conversation": f"session {number}",
            "session": number,
            "begins_at": round(self._began_at, 6),
            "upgrade": {
                "path": place,
                "query": masked_query(query),
                "headers": [list(pair) for pair in masked_headers(headers)],
            },
        }

    def answered(self, answer: Answer) -> None:
        """The upgrade was answered so; before that the session is not in the file, since only now is known
        which of the offered subprotocols is a name."""
        offered = masked_subprotocols(self._offered, answer.subprotocol)
        self._opening["upgrade"]["subprotocols"] = list(offered)
        fields: dict[str, Any] = {
            "status": answer.status,
            "subprotocol": answer.subprotocol,
            "headers": [list(pair) for pair in masked_headers(answer.headers)],
        }
        if answer.body:
            fields["body"] = answer.body[:MOST_BODY_CHARACTERS]
        self._recorder.note(self._opening)
        self._recorder.note({"session": self.number, "at": self._elapsed(), "answer": fields})

    def passed(self, side: Side, message: str | bytes) -> None:
        """`side` said this."""
        said = Text(message) if isinstance(message, str) else Binary.of(message)
        self._recorder.take(self.number, Step(side, said, self._elapsed()))

    def closed(self, side: Side, how: Closed) -> None:
        """`side` ended the connection so."""
        self._recorder.take(self.number, Step(side, how, self._elapsed()))

    def _elapsed(self) -> float:
        return round(self._recorder.elapsed() - self._began_at, 6)
