from __future__ import annotations

import pytest

from tests.support.outside import Outside


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """A project that has only the package."""
    return Outside(tmp_path_factory.mktemp("outside"))
