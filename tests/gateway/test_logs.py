"""Log lines: one an event, whatever a peer put into the values, and printed once beside the server's own
logging.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import granian.log
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.logs import ROOT, LogfmtFormatter, configure, escape, log_line


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """`configure` changes what is global to the process; nothing of it stays."""
    loggers = [logging.getLogger(name) for name in (ROOT, "_granian", "granian.access", None)]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


def formatted(message: str, **extra: object) -> str:
    record = logging.LogRecord(ROOT, logging.WARNING, __file__, 1, message, None, None)
    vars(record).update(extra)
    return LogfmtFormatter().format(record)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a", "a"),
        ("a b", '"a b"'),
        ("", '""'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("x=1", '"x=1"'),
        ("one\ntwo", '"one\\ntwo"'),
        ("\x1b[31mred", '"\\x1b[31mred"'),
        ("right\u202eleft", '"right\\u202eleft"'),
        ("line\u2028separator", '"line\\u2028separator"'),
        ("straße", "straße"),
        (True, "true"),
        (3, "3"),
        (2.0, "2"),
        (0.12345, "0.123"),
        (b"raw\xff", '"raw\\\\xff"'),
        (SecretStr("hush"), "**********"),
        ("http://user:hush@host/x", "http://***@host/x"),
    ],
)
def test_a_value_is_told_on_one_line(value: object, told: str) -> None:
    assert log_line("event", key=value) == f"event key={told}"


def test_fields_keep_their_order_and_none_is_left_out() -> None:
    assert (
        log_line("session_ended", replica="a", code=None, bytes_up=3) == "session_ended replica=a bytes_up=3"
    )


@pytest.mark.parametrize(
    "name", ["token", "authorization", "cookie", "set_cookie", "password", "api_key", "tokens"]
)
def test_a_field_named_like_a_secret_is_hidden(name: str) -> None:
    assert log_line("event", **{name: "hush"}) == f"event {name}=***"


@settings(deadline=None)
@given(st.text())
def test_no_value_ends_a_line_or_adds_a_field(text: str) -> None:
    line = log_line("event", key=text, last=1)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r'event key=([^\s"=\\]+|"([^"\\]|\\.)*") last=1', line)


@settings(deadline=None)
@given(st.text())
def test_escaped_text_is_printable(text: str) -> None:
    assert escape(text).isprintable()


def test_a_line_begins_with_time_and_level() -> None:
    line = formatted("event", created=0.25, msecs=250.0)
    assert line == "1970-01-01T00:00:00.250Z warning event"


def test_a_message_that_somebody_else_wrote_is_one_line_too() -> None:
    assert formatted("first\n2026-01-01T00:00:00Z info forged").count("\n") == 0


def test_a_traceback_follows_behind_a_bar_so_that_nothing_in_it_passes_for_an_event() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    try:
        raise ValueError("bad\n2026-01-01T00:00:00Z info forged\x1b[0m")
    except ValueError:
        logging.getLogger("streamhold.test").exception(log_line("defect"))
    first, *others = stream.getvalue().splitlines()
    assert first.endswith("error defect")
    assert others
    assert all(line.startswith("    | ") and line.isprintable() for line in others)
    assert any("forged" in line for line in others)


def test_each_event_is_printed_once_however_often_it_is_configured() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(stream=first)
    configure("debug", second)
    logging.getLogger("streamhold.replicas").debug(log_line("probed"))
    assert first.getvalue() == ""
    assert second.getvalue().count("probed") == 1


@pytest.mark.parametrize("server_first", [True, False])
def test_each_event_is_printed_once_beside_granian(
    server_first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    root = {"root": {"handlers": ["console"], "level": "DEBUG"}}
    stream = io.StringIO()
    if not server_first:
        configure(stream=stream)
    granian.log.configure_logging(granian.log.LogLevels.info, root)
    if server_first:
        configure(stream=stream)
    logging.getLogger("streamhold.session").info(log_line("session_opened"))
    logging.getLogger("_granian").info("Started worker-1")
    captured = capsys.readouterr()
    assert stream.getvalue().count("session_opened") == 1
    assert "session_opened" not in captured.out + captured.err
    assert captured.out.count("Started worker-1") == 1


def test_events_below_the_level_are_not_printed() -> None:
    stream = io.StringIO()
    configure(logging.WARNING, stream)
    logging.getLogger("streamhold.session").info(log_line("session_opened"))
    assert stream.getvalue() == ""
