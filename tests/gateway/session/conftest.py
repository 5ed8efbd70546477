"""Which event loop a test module's tests run on: each of the module's `LOOPS`, or asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """One run of each test a loop; the name shows in the test's id where there are several."""
    loops: Mapping[str, LoopFactory] | None = getattr(getattr(item, "module", None), "LOOPS", None)
    return loops or {"asyncio": asyncio.new_event_loop}
