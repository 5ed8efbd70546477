"""What end-to-end tests share by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support import gateway_process
from tests.support.standing_gateway import StandingGateway


@pytest.fixture(scope="module", params=["streaming", "passthrough"])
def each_protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    """The module's gateways run under one protocol, and then all over again under the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(gateway_process.QUICK, "session__protocol", request.param)
        yield request.param


@pytest.fixture(scope="module")
def standing(each_protocol: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingGateway]:
    """The module's gateway under one protocol."""
    gateway = StandingGateway(tmp_path_factory.mktemp(f"standing-{each_protocol}"))
    try:
        yield gateway
    finally:
        asyncio.run(gateway.stop())
