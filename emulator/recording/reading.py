"""PURE. From the lines of a file to a recording, or to what is wrong with which line.

Whatever could not be sent to a client again is refused here: a replay that has begun can play it to its end.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from emulator.recording.format import (
    ABNORMAL,
    MAX_FILE_BYTES,
    MAX_LINES,
    MAX_MESSAGE_BYTES,
    NO_CODE,
    STYLES,
    VERSION,
    Answer,
    Binary,
    Closed,
    Conversation,
    Recording,
    Request,
    Said,
    Side,
    Step,
    Text,
    Upgrade,
    written,
)

_SIDES: tuple[Side, ...] = ("c", "s")
_FORMS = ("", "_text", "_bytes", "_close")
SAYINGS = tuple(f"{side}{form}" for side in _SIDES for form in _FORMS)
"""The keys of which a step has exactly one."""
ON_THE_WIRE = (*range(1000, 1004), *range(1007, 1015), *range(3000, 5000))
"""The codes that a close frame may have (RFC 6455, section 7.4)."""
MAX_REASON_BYTES = 123
_MIB = 1024 * 1024
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class BadRecording(ValueError):
    """The file is no recording; the text says where and what would be right."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line


class _File(Protocol):
    def readline(self, limit: int, /) -> bytes: ...


def lines_in(file: _File, most_bytes: int = MAX_FILE_BYTES) -> Iterator[bytes]:
    """The lines of a file that may have no end. Raises BadRecording where there are more bytes than that."""
    number, left = 0, most_bytes
    while line := file.readline(left + 1):
        number += 1
        left -= len(line)
        if left < 0:
            raise BadRecording(number, f"is beyond {most_bytes // _MIB} MiB, the most that can be replayed")
        yield line


@dataclass(slots=True)
class _Open:
    """A session whose steps come line by line."""

    name: str
    line: int
    upgrade: Upgrade | None
    answer: Answer = field(default_factory=Answer)
    steps: list[Step] = field(default_factory=list)

    def closed(self) -> Conversation:
        return Conversation(self.name, tuple(self.steps), self.upgrade, self.answer, self.line)


def read(lines: Iterable[bytes]) -> Recording:
    """The recording that the lines are. Raises BadRecording.

    A last line without its line feed, as an interrupted recording leaves it, may be broken.
    """
    reader = _Reader()
    is_cut = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_without_repeats)
        except _Repeated as error:
            raise BadRecording(number, f"has the key {error} twice in one object") from error
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n") and number > 1:
                is_cut = True
                break
            raise BadRecording(number, f"is no JSON ({error})") from error
        try:
            reader.take(_mapping(value, number, "a line"), number)
        except RecursionError as error:
            raise BadRecording(
                number, "has values in values in values, too deep to be written again"
            ) from error
    if not reader.sessions:
        raise BadRecording(0, 'holds no session: no line has "conversation"')
    return Recording(
        tuple(entry.closed() for entry in reader.sessions), tuple(reader.requests), is_cut=is_cut
    )


class _Repeated(Exception):
    """An object has a key twice: whoever wrote it meant two things."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(json.dumps(next(name for name in names if names.count(name) > 1)))
    return found


class _Reader:
    def __init__(self) -> None:
        self.sessions: list[_Open] = []
        self.requests: list[Request] = []
        self._by_number: dict[int, _Open] = {}
        self._taken = 0

    def take(self, fields: Mapping[str, Any], line: int) -> None:
        if "conversation" in fields:
            self._open(fields, line)
        elif "http" in fields:
            self.requests.append(_request(fields, line))
        elif "session" in fields:
            self._go_on(fields, line)
        elif "recording" in fields:
            if fields["recording"] != VERSION:
                raise BadRecording(
                    line, f"is of version {_short(fields['recording'])}; this program reads {VERSION}"
                )
        elif "full" not in fields:
            raise BadRecording(
                line, 'must have "conversation", "session" or "http", and has ' + _listed(fields)
            )

    def _open(self, fields: Mapping[str, Any], line: int) -> None:
        name = _text(fields["conversation"], line, '"conversation"')
        opened = _Open(name, line, _upgrade(fields["upgrade"], line) if "upgrade" in fields else None)
        if "answer" in fields:
            opened.answer = _answer(fields["answer"], line)
        for entry in _list(fields.get("steps", []), line, '"steps"'):
            opened.steps.append(self._step(_mapping(entry, line, "a step"), line))
        self.sessions.append(opened)
        if "session" in fields:
            self._by_number[_whole(fields["session"], line, '"session"')] = opened

    def _go_on(self, fields: Mapping[str, Any], line: int) -> None:
        number = _whole(fields["session"], line, '"session"')
        if (opened := self._by_number.get(number)) is None:
            raise BadRecording(line, f"belongs to session {_short(number)}, which no line before has opened")
        if "answer" in fields:
            opened.answer = _answer(fields["answer"], line)
        else:
            opened.steps.append(self._step(fields, line))

    def _step(self, fields: Mapping[str, Any], line: int) -> Step:
        self._taken += 1
        if self._taken > MAX_LINES:
            raise BadRecording(line, f"is beyond {MAX_LINES} steps, the most that can be replayed")
        return _step(fields, line)


def _step(fields: Mapping[str, Any], line: int) -> Step:
    found = [key for key in SAYINGS if key in fields]
    if len(found) != 1:
        raise BadRecording(line, f"a step must have one of {', '.join(SAYINGS)}, and has {_listed(fields)}")
    key = found[0]
    side: Side = "c" if key.startswith("c") else "s"
    at = fields.get("at")
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e12):
        raise BadRecording(line, f'"at" must be seconds since the session began, not {_short(at)}')
    return Step(side, _said(key, fields, line), at, line)


def _said(key: str, fields: Mapping[str, Any], line: int) -> Said:
    value = fields[key]
    match key[1:]:
        case "":
            style = fields.get("written", STYLES[0])
            if style not in STYLES:
                raise BadRecording(line, f'"written" must be one of {", ".join(STYLES)}, not {_short(style)}')
            return _message(written(_mapping(value, line, f'"{key}"'), style), key, line)
        case "_text":
            return Text(_text(value, line, f'"{key}"'))
        case "_bytes":
            return _binary(_whole(value, line, f'"{key}"'), fields, line)
        case _:
            pair = _list(value, line, f'"{key}"')
            if len(pair) != 2:
                raise BadRecording(line, f'"{key}" must be a code and a reason, such as [1000, ""]')
            return Closed(_close_code(pair[0], line), _reason(pair[1], line))


def _message(text: str, key: str, line: int) -> Text:
    """An object's text, which has its halves of surrogate pairs as they are, unless they are escaped."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRecording(
            line, f'"{key}" has {_half(error)}; with "written": "compact-ascii" it is said by an escape'
        ) from error
    return Text(text)


def _binary(size: int, fields: Mapping[str, Any], line: int) -> Binary:
    if size > MAX_MESSAGE_BYTES:
        raise BadRecording(
            line, f"has a message of {_short(size)} bytes; one can have {MAX_MESSAGE_BYTES} at most (256 MiB)"
        )
    digest = fields.get("sha256")
    if digest is not None:
        digest = _text(digest, line, '"sha256"')
    if "base64" not in fields:
        return Binary(size, digest)
    try:
        data = base64.b64decode(_text(fields["base64"], line, '"base64"'), validate=True)
    except binascii.Error as error:
        raise BadRecording(line, f'"base64" cannot be decoded ({error})') from error
    whole = Binary.of(data)
    if whole.size_bytes != size:
        raise BadRecording(line, f"is said to have {size} bytes, and has {whole.size_bytes}")
    if digest is not None and digest != whole.sha256:
        raise BadRecording(line, '"sha256" is not that of its bytes')
    return whole


def _upgrade(value: Any, line: int) -> Upgrade:
    fields = _mapping(value, line, '"upgrade"')
    return Upgrade(
        path=_text(fields.get("path", "/"), line, '"path"'),
        query=_text(fields.get("query", ""), line, '"query"'),
        headers=_headers(fields.get("headers", []), line),
        subprotocols=tuple(
            _text(name, line, "a subprotocol")
            for name in _list(fields.get("subprotocols", []), line, '"subprotocols"')
        ),
    )


def _answer(value: Any, line: int) -> Answer:
    fields = _mapping(value, line, '"answer"')
    subprotocol = fields.get("subprotocol")
    return Answer(
        status=_status(fields.get("status", 101), line, of_upgrade=True),
        subprotocol=None if subprotocol is None else _text(subprotocol, line, '"subprotocol"'),
        headers=_headers(fields.get("headers", []), line),
        body=_text(fields.get("body", ""), line, '"body"'),
    )


def _request(fields: Mapping[str, Any], line: int) -> Request:
    method, _, path = _text(fields["http"], line, '"http"').partition(" ")
    if not method or not path.startswith("/"):
        raise BadRecording(
            line, f'"http" must be a method and a path, such as "GET /health", not {_short(fields["http"])}'
        )
    body = fields.get("body")
    if isinstance(body, str):
        body = _text(body, line, '"body"')
    return Request(method, path, _status(fields.get("status"), line), body)


def _headers(value: Any, line: int) -> tuple[tuple[str, str], ...]:
    pairs = []
    for entry in _list(value, line, '"headers"'):
        pair = _list(entry, line, "a header")
        if len(pair) != 2:
            raise BadRecording(line, "a header must be a name and a value")
        name, said = _text(pair[0], line, "a header's name"), _text(pair[1], line, "a header's value")
        if not _TOKEN.fullmatch(name):
            raise BadRecording(line, f"has a header {name!r}, which is no name of one")
        if not _HEADER_VALUE.fullmatch(said):
            raise BadRecording(line, f"has the header {name} with characters that no header can have")
        pairs.append((name, said))
    return tuple(pairs)


def _mapping(value: Any, line: int, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadRecording(line, f"{what} must be a JSON object, not {_kind(value)}")
    return value


def _list(value: Any, line: int, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRecording(line, f"{what} must be a list, not {_kind(value)}")
    return value


def _text(value: Any, line: int, what: str) -> str:
    if not isinstance(value, str):
        raise BadRecording(line, f"{what} must be a text, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRecording(line, f"{what} has {_half(error)}") from error
    return value


def _half(error: UnicodeEncodeError) -> str:
    found = f"\\u{ord(error.object[error.start]):04x}"
    return f"{found}, half of a surrogate pair, which no text on the wire can have (UTF-8)"


def _whole(value: Any, line: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRecording(line, f"{what} must be a whole number of 0 or more, not {_short(value)}")
    return value


def _status(value: Any, line: int, *, of_upgrade: bool = False) -> int:
    number = _whole(value, line, '"status"')
    if not 200 <= number <= 599 and not (of_upgrade and number == 101):
        also = "101, or " if of_upgrade else ""
        raise BadRecording(
            line, f'"status" must be {also}an HTTP status from 200 to 599, not {_short(number)}'
        )
    return number


def _close_code(value: Any, line: int) -> int:
    number = _whole(value, line, "the close code")
    if number not in ON_THE_WIRE and number not in (NO_CODE, ABNORMAL):
        raise BadRecording(
            line, f"the close code must be 1000 to 1003, 1005 to 1014 or 3000 to 4999, not {_short(number)}"
        )
    return number


def _reason(value: Any, line: int) -> str:
    reason = _text(value, line, "the reason")
    if (size := len(reason.encode())) > MAX_REASON_BYTES:
        raise BadRecording(
            line, f"the reason of a close has {MAX_REASON_BYTES} bytes of UTF-8 at most, not {size}"
        )
    return reason


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def _short(value: Any) -> str:
    """Of a number as long as a book its beginning."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _listed(fields: Mapping[str, Any]) -> str:
    return ", ".join(f'"{key}"' for key in list(fields)[:8]) or "nothing"
