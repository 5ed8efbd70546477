"""Which event loop a test module's tests run on, and the log lines of an event."""

from __future__ import annotations

from tests.gateway.session.conftest import lines, pytest_asyncio_loop_factories, tracebacks

__all__ = ["lines", "pytest_asyncio_loop_factories", "tracebacks"]
