"""What end-to-end tests share by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import gateway_process


@pytest.fixture(scope="module", params=["streaming", "passthrough"])
def each_protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    """The module's gateways run under one protocol, and then all over again under the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(gateway_process.QUICK, "session__protocol", request.param)
        yield request.param
