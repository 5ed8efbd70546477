"""Replicas to break: one farm in this process, and one whose replicas are processes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from emulator.farm import Farm, Isolation
from emulator.replica.replica import Replica


@pytest.fixture(params=["none", "process"])
async def isolated(request: pytest.FixtureRequest) -> AsyncIterator[Farm]:
    """Two replicas, under each isolation."""
    isolation: Isolation = request.param
    async with Farm(2, isolate=isolation) as running:
        yield running


@pytest.fixture
async def replica(isolated: Farm) -> Replica:
    """One of them."""
    return isolated.replicas["a"]
