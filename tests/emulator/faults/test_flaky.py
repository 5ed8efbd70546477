from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from emulator.faults import Flaky, Stall
from emulator.faults.flaky import LONGEST_STALL_SECONDS, MIX, SLOW_SHARE, health_fault, session_plan

MANY = 4000
BROKEN = {way for way, _ in MIX}


def ways(flaky: Flaky, seed: int = 0) -> Counter[str]:
    """How many of MANY sessions meet each way, drawn as a replica draws them."""
    return Counter(session_plan(flaky, random.Random(f"{seed}:b:{n}").random).way for n in range(MANY))


def test_the_same_draws_give_the_same_plan() -> None:
    for number in range(200):
        one, other = (session_plan(Flaky(), random.Random(f"7:b:{number}").random) for _ in range(2))
        assert one == other


def test_about_half_of_the_sessions_are_broken_in_every_way_of_the_mix() -> None:
    found = ways(Flaky())
    assert 0.45 < sum(found[way] for way in BROKEN) / MANY < 0.55
    for way, share in MIX:
        assert abs(found[way] / MANY - share / 2) < 0.03
    assert abs(found["slow"] / MANY - SLOW_SHARE / 2) < 0.03


def test_another_seed_breaks_other_sessions() -> None:
    plans = [
        [session_plan(Flaky(), random.Random(f"{seed}:b:{n}").random).way for n in range(20)]
        for seed in (0, 1)
    ]
    assert plans[0] != plans[1]


def test_the_shares_can_be_set_to_none_and_all() -> None:
    assert not BROKEN & set(ways(Flaky(sessions=0)))
    assert set(ways(Flaky(sessions=1))) == BROKEN


def test_health_fails_so_seldom_that_three_in_a_row_are_rare() -> None:
    failed = [health_fault(Flaky(), random.Random(f"0:b:health:{n}").random) is not None for n in range(MANY)]
    assert 0.05 < sum(failed) / MANY < 0.15
    rows = sum(all(failed[at : at + 3]) for at in range(MANY - 2))
    assert rows / MANY < 0.005


@given(st.integers())
def test_a_stall_is_bounded_and_ends_in_a_reset(seed: int) -> None:
    plan = session_plan(Flaky(sessions=1), random.Random(seed).random)
    for fault in plan.faults:
        if isinstance(fault, Stall):
            assert fault.seconds is not None
            assert 0 < fault.seconds <= LONGEST_STALL_SECONDS
            assert fault.then == "reset"
