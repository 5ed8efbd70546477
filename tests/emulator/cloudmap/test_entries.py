"""What Cloud Map has of a replica, as a function of its lives."""

from __future__ import annotations

import pytest

from emulator.cloudmap.entries import (
    Fate,
    Instance,
    Life,
    Notice,
    attributes_of,
    instance_of,
    next_notice,
)

SOON = Notice(after_seconds=5)
SAID = {"name": "a"}


def lived(*turns: tuple[Fate, float]) -> Life:
    life = Life("a")
    for fate, at in turns:
        life = life.turned(fate, at)
    return life


@pytest.mark.parametrize(
    ("turns", "now", "listed"),
    [
        ([], 0, None),
        ([("running", 1)], 1, ("a-1", True)),
        ([("running", 1), ("killed", 10)], 14.9, ("a-1", True)),
        ([("running", 1), ("killed", 10)], 15, None),
        ([("running", 1), ("paused", 10)], 14.9, ("a-1", True)),
        ([("running", 1), ("paused", 10)], 15, None),
        ([("running", 1), ("paused", 10), ("killed", 12)], 16.9, ("a-1", True)),
        ([("running", 1), ("paused", 10), ("running", 20)], 20, ("a-1", True)),
        ([("running", 1), ("killed", 10), ("running", 11)], 11, ("a-2", True)),
        ([("running", 1), ("running", 2)], 2, ("a-1", True)),
        ([("running", 1), ("gone", 10)], 10, None),
        ([("running", 1), ("gone", 10), ("running", 11)], 11, ("a-2", True)),
    ],
)
def test_a_replica_is_listed_from_its_start_until_its_end_is_noticed(
    turns: list[tuple[Fate, float]], now: float, listed: tuple[str, bool] | None
) -> None:
    instance = instance_of(lived(*turns), SAID, SOON, now)
    assert (instance and (instance.id, instance.healthy)) == listed


@pytest.mark.parametrize(("now", "healthy"), [(14.9, True), (15, False), (900, False)])
def test_one_that_is_silent_may_be_unhealthy_instead(now: float, healthy: bool) -> None:
    life = lived(("running", 1), ("killed", 10))
    found = instance_of(life, SAID, Notice(5, "unhealthy"), now)
    assert found == Instance("a-1", SAID, healthy)


def test_without_a_delay_it_is_noticed_at_once() -> None:
    assert instance_of(lived(("running", 1), ("killed", 10)), SAID, Notice(0), 10) is None


def test_the_next_one_to_notice_is_the_one_that_fell_silent_first() -> None:
    lives = [Life("a", 1, "killed", 10), Life("b", 1, "paused", 8), Life("c", 1, "running", 1)]
    assert next_notice(lives, SOON, 12) == 13
    assert next_notice(lives, SOON, 13) == 15
    assert next_notice(lives, SOON, 15) is None


def test_attributes_are_what_a_gateway_reads() -> None:
    given = {"primary": "true", "capacity": "9"}
    assert attributes_of("a", "127.0.0.1", 9101, capacity=4, cold_start=True, given=given) == {
        "AWS_INSTANCE_IPV4": "127.0.0.1",
        "AWS_INSTANCE_PORT": "9101",
        "name": "a",
        "capacity": "9",
        "cold_start": "true",
        "primary": "true",
    }
    other = attributes_of("a", "::1", 9101, capacity=4, cold_start=False, given={})
    assert other["AWS_INSTANCE_IPV6"] == "::1"
    assert "cold_start" not in other
    assert "AWS_INSTANCE_IPV4" not in other
    named = attributes_of("a", "gpu-a.local", 9101, capacity=4, cold_start=False, given={})
    assert named["AWS_INSTANCE_CNAME"] == "gpu-a.local"
