from __future__ import annotations

import pytest

from emulator.replica.health import body_of
from emulator.replica.spec import HEALTH_PATHS


@pytest.mark.parametrize("path", HEALTH_PATHS)
def test_a_warming_replica_answers_with_the_same_keys(path: str) -> None:
    ready, warming = (body_of(path, warming=warm, sessions=1, capacity=4, at="t") for warm in (False, True))
    assert ready.keys() == warming.keys()


def test_a_full_replica_is_ready_and_not_available() -> None:
    body = body_of("/readyz", warming=False, sessions=4, capacity=4, at="t")
    assert (body["status"], body["available_gpus"]) == ("ready", 0)
