"""PURE. A recording as a value, and one step of it as JSON.

JSON lines. A session is one line (`{"conversation": NAME, "steps": [STEP, ...]}`), or, as they are written
while it lasts, a line that opens it and a line a step, all with its number in `session`:

    {"recording": 1, "of": "ws://127.0.0.1:9101"}
    {"conversation": "session 1", "session": 1, "begins_at": 0.52, "upgrade": {"path": "/v1/stream", ...}}
    {"session": 1, "at": 0.003, "answer": {"status": 101, "subprotocol": null, ...}}
    {"session": 1, "at": 0.004, "c": {"type": "session_init_v2"}}
    {"session": 1, "at": 0.106, "s": {"type": "queue_status", "position": 0, "queue_depth": 0}}
    {"session": 1, "at": 1.207, "s_bytes": 16384, "sha256": "...", "base64": "..."}
    {"session": 1, "at": 2.310, "c_close": [1000, ""]}
    {"http": "GET /readyz", "status": 200, "body": {"status": "ready"}}

A step says who spoke (`c` the client, `s` the server) and what: `c` a JSON object, `c_text` any other text,
`c_bytes` a binary message by its length, `c_close` a code and a reason (1006: the connection went without a
close frame, 1005: a close frame without a code). `at` is in seconds since the session began; it may be
missing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from emulator.recording.masking import masked_message

Side = Literal["c", "s"]
"""The client, or the server."""

VERSION = 1
ABNORMAL = 1006
NO_CODE = 1005
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Of one message: above every cap that a gateway or a replica has by default."""
MAX_FILE_BYTES = 1024 * 1024 * 1024
MAX_LINES = 2_000_000
"""And as many steps: each takes some hundred bytes of the memory of whoever reads them."""
PIECE_BYTES = 1024 * 1024
"""What stands in for unknown bytes is made so much at a time."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text message."""

    text: str


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary message; perhaps only its length is known."""

    size_bytes: int
    sha256: str | None = None
    data: bytes | None = None

    @classmethod
    def of(cls, data: bytes) -> Binary:
        return cls(len(data), hashlib.sha256(data).hexdigest(), data)

    def pieces(self) -> Iterator[bytes]:
        """The bytes; where only the length is known, always the same ones in their place, piece by piece."""
        if self.data is not None:
            yield self.data
            return
        for start in range(0, max(1, self.size_bytes), PIECE_BYTES):
            seed = f"{self.size_bytes}:{self.sha256}:{start}".encode()
            yield hashlib.shake_128(seed).digest(min(PIECE_BYTES, self.size_bytes - start))


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of the connection, by whoever the step belongs to."""

    code: int
    reason: str = ""


Said = Text | Binary | Closed


@dataclass(frozen=True, slots=True)
class Step:
    """Something that one side said."""

    side: Side
    said: Said
    at_seconds: float | None = None
    """Since the session began."""
    line: int = 0
    """In the file; 0 when it comes from none."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What the client asked for; secrets masked."""

    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    subprotocols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the upgrade was answered with."""

    status: int = 101
    subprotocol: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session."""

    name: str
    steps: tuple[Step, ...]
    upgrade: Upgrade | None = None
    answer: Answer = Answer()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A plain request, and its answer."""

    method: str
    path: str
    status: int
    body: Any = None
    """JSON value, or a text."""


@dataclass(frozen=True, slots=True)
class Recording:
    """All of a file."""

    conversations: tuple[Conversation, ...]
    requests: tuple[Request, ...] = ()
    is_cut: bool = False
    """The last line was only half there, and has been left out."""


# One text message as JSON, and back to the same characters

_STYLES: Mapping[str, tuple[tuple[str, str], bool]] = {
    "compact": ((",", ":"), False),
    "spaced": ((", ", ": "), False),
    "compact-ascii": ((",", ":"), True),
    "spaced-ascii": ((", ", ": "), True),
}
"""How programs write JSON: separators, and whether all is ASCII. By the value of `written`, the default
first."""

STYLES = tuple(_STYLES)


def written(value: Any, style: str = "compact") -> str:
    """The JSON text of `value` in that style."""
    separators, ascii_only = _STYLES[style]
    return json.dumps(value, separators=separators, ensure_ascii=ascii_only)


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is; None for any other text."""
    try:
        value = json.loads(text, parse_constant=_no_constants)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_fields(side: Side, text: str) -> dict[str, Any]:
    """The step's fields for a text message, secrets masked. An object whose text another program would write
    differently is kept as a text, so that nothing is lost."""
    value = object_in(text)
    if value is None:
        return {f"{side}_text": text}
    style = next((style for style in STYLES if written(value, style) == text), None)
    shown = masked_message(value)
    if style is None:
        return {f"{side}_text": text} if shown is value else {side: shown}
    return {side: shown} if style == STYLES[0] else {side: shown, "written": style}


def step_fields(step: Step, *, media: bool = True) -> dict[str, Any]:
    """The step as the fields of its line. `media`: with the bytes of binary messages."""
    side, said = step.side, step.said
    fields: dict[str, Any] = {} if step.at_seconds is None else {"at": round(step.at_seconds, 6)}
    match said:
        case Text(text=text):
            fields |= text_fields(side, text)
        case Binary():
            fields[f"{side}_bytes"] = said.size_bytes
            if said.sha256 is not None:
                fields["sha256"] = said.sha256
            if media and said.data is not None:
                fields["base64"] = base64.b64encode(said.data).decode("ascii")
        case Closed(code=code, reason=reason):
            fields[f"{side}_close"] = [code, reason]
    return fields


def line_of(fields: Mapping[str, Any]) -> bytes:
    """One line of the file."""
    try:
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON can say and UTF-8 cannot.
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
