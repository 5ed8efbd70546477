from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from emulator.limits import TooFewFiles, files_needed, make_room

Limits = Callable[[int, int], list[tuple[int, int]]]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Sets what the system says its limits are, and returns what it is asked for."""

    def set_to(soft: int, hard: int) -> list[tuple[int, int]]:
        asked: list[tuple[int, int]] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair))
        return asked

    return set_to


@pytest.mark.parametrize(
    ("soft", "hard", "needed", "asked", "now"),
    [
        (1024, 20_000, 1000, [], 1024),
        (1024, 20_000, 5000, [(20_000, 20_000)], 20_000),
        (1024, resource.RLIM_INFINITY, 5000, [(5000, resource.RLIM_INFINITY)], 5000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 5000, [], 5000),
    ],
)
def test_the_soft_limit_goes_up_to_the_hard_one_only_where_it_must(
    limits: Limits, soft: int, hard: int, needed: int, asked: list[tuple[int, int]], now: int
) -> None:
    calls = limits(soft, hard)
    assert make_room(needed) == now
    assert calls == asked


def test_too_few_files_are_told_with_a_way_out(limits: Limits) -> None:
    limits(1024, 4096)
    with pytest.raises(
        TooFewFiles, match=r"5000 open files are needed and this process may have 4096: start fewer"
    ):
        make_room(5000)


def test_what_is_needed_at_the_least_decides_whether_it_goes(limits: Limits) -> None:
    calls = limits(1024, 4096)
    assert make_room(5000, at_least=2000) == 4096
    assert calls == [(4096, 4096)]
    with pytest.raises(TooFewFiles):
        make_room(9000, at_least=5000)


@pytest.mark.parametrize("soft", [1024, 3000])
def test_a_kernel_that_refuses_is_believed(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, 100_000))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    if soft < 2000:
        with pytest.raises(TooFewFiles, match="may have 1024"):
            make_room(5000, at_least=2000)
    else:
        assert make_room(5000, at_least=2000) == soft


def test_isolated_replicas_hold_their_sessions_themselves() -> None:
    assert files_needed(500, sessions=2000) > files_needed(500) > 1000
    assert files_needed(500, sessions=2000, isolated=True) == files_needed(500, isolated=True)
