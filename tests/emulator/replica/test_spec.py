from __future__ import annotations

import pytest

from emulator.replica.spec import ReplicaSpec, names_of, unknown_among


def test_names_go_on_beyond_z() -> None:
    names = names_of(800)
    assert (names[0], names[25], names[26], names[27], names[52], names[702]) == (
        "a",
        "z",
        "aa",
        "ab",
        "ba",
        "aaa",
    )
    assert len(set(names)) == 800


def test_unknown_names_are_found() -> None:
    assert unknown_among(["a", "q"], names_of(3)) == ["q"]


@pytest.mark.parametrize("fields", [{"capacity": 0}, {"port": -1}, {"port": 65536}])
def test_an_impossible_replica_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ReplicaSpec("a", **fields)  # type: ignore[arg-type]
