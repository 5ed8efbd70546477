"""Which event loop a test module's tests run on: each of the module's `LOOPS`, or asyncio's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """One run of each test a loop; the name shows in the test's id where there are several."""
    loops: Mapping[str, LoopFactory] | None = getattr(getattr(item, "module", None), "LOOPS", None)
    return loops or {"asyncio": asyncio.new_event_loop}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The log lines of an event, in order."""
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)
    caplog.set_level(logging.INFO, logger="streamhold")

    def of(event: str) -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if message.split(" ")[0] == event]

    return of


@pytest.fixture
def tracebacks(
    caplog: pytest.LogCaptureFixture, lines: Callable[[str], list[str]]
) -> Callable[[], list[type[BaseException] | None]]:
    """The exceptions whose tracebacks were logged, in order."""

    def of() -> list[type[BaseException] | None]:
        return [record.exc_info[0] for record in caplog.records if record.exc_info is not None]

    return of
