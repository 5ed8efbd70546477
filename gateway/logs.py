"""One logfmt line an event, on one handler of the `streamhold` logger.

    2026-01-02T03:04:05.678Z info session_opened replica=a request_id=6f1c client=192.0.2.7

A value can be anything that a peer sent, so nothing in a value may end a line, move a terminal's cursor or
look like a further field: it is quoted, and control characters are escaped. A traceback follows its line,
each line of it behind a bar, so that text inside an exception cannot pass for an event either.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import traceback
from functools import lru_cache
from typing import TextIO

ROOT = "streamhold"
"""Every logger of the gateway is this one or lies below it: `logging.getLogger("streamhold.replicas")`."""

HIDDEN = "***"

_SECRET_NAME = re.compile(r"(token|authorization|cookie|password|passwd|secret|api_?key)s?$", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/@?#]+@")
_BARE = re.compile(r"[^\s\"'=\\]+")
_MARK = "_streamhold_handler"


def escape(text: str) -> str:
    """`text` on one line: whatever is not printable becomes an escape such as `\\n`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or char.encode("unicode_escape").decode("ascii")


def hide_passwords(text: str) -> str:
    """`text` without the `user:password@` of any URL in it."""
    return text if "@" not in text else _URL_PASSWORD.sub(f"{HIDDEN}@", text)


def log_line(event: str, /, **fields: object) -> str:
    """`event` followed by `key=value` for each field, in the order given.

    None is left out, booleans are `true` and `false`, floats have at most three decimals. A field whose
    name ends in token, cookie, authorization, password, secret or api_key shows `***` whatever it holds.
    """
    shown = (f"{key}={_value(key, value)}" for key, value in fields.items() if value is not None)
    return " ".join((escape(event), *shown))


@lru_cache(maxsize=256)
def _is_secret(key: str) -> bool:
    return _SECRET_NAME.search(key) is not None


def _value(key: str, value: object) -> str:
    if _is_secret(key):
        return HIDDEN
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case bytes():
            text = value.decode(errors="backslashreplace")
        case _:
            text = str(value)
    text = hide_passwords(text)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(quoted)}"'


class LogfmtFormatter(logging.Formatter):
    """Puts time (UTC) and level before the message, and holds the message to one line whoever wrote it."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = escape(hide_passwords(record.getMessage()))
        line = f"{stamp}.{int(record.msecs):03d}Z {record.levelname.lower()} {message}"
        if record.exc_info and record.exc_info[0] is not None:
            told = "".join(traceback.format_exception(*record.exc_info))
            line += "".join(f"\n    | {escape(hide_passwords(part))}" for part in told.splitlines())
        return line


def configure(level: int | str = logging.INFO, stream: TextIO | None = None) -> None:
    """Afterwards everything at or above `level` under `streamhold` is printed once on `stream` (stderr by
    default).

    Safe to call again: the last call holds. The root logger and those of the server are left as they are:
    the server may configure its own before or after (Granian does so in each worker before it imports the
    application), and `streamhold` does not propagate, so a handler on the root logger prints no line a
    second time.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(LogfmtFormatter())
    setattr(handler, _MARK, True)
    logger = logging.getLogger(ROOT)
    for old in [found for found in logger.handlers if hasattr(found, _MARK)]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    logger.propagate = False
