"""When a replica that scales to zero wakes and sleeps, as a function of what comes."""

from __future__ import annotations

import pytest

from emulator.replica.scaling import Power, ScaleToZero, Scaling

TRAITS = ScaleToZero(idle_seconds=10, wake_seconds=3)


def awake(at: float) -> Scaling:
    """One that is warm from then on."""
    scaling = Scaling(TRAITS)
    assert scaling.touch(at - TRAITS.wake_seconds)
    assert scaling.turn(at) is Power.AWAKE
    return scaling


def test_it_sleeps_until_something_comes_and_takes_its_time_to_wake() -> None:
    scaling = Scaling(TRAITS)
    assert scaling.turn(1e9) is None
    assert scaling.touch(5)
    assert scaling.power is Power.WAKING
    assert scaling.turn(7.9) is None
    assert scaling.turn(8) is Power.AWAKE


def test_what_comes_while_it_wakes_neither_wakes_it_again_nor_delays_it() -> None:
    scaling = Scaling(TRAITS)
    assert [scaling.touch(at) for at in (5, 6, 7)] == [True, False, False]
    assert scaling.turn(8) is Power.AWAKE


def test_it_sleeps_again_once_nothing_has_come_for_a_while() -> None:
    scaling = awake(at=8)
    assert scaling.turn(17.9) is None
    assert not scaling.touch(17.9)
    assert scaling.turn(27.8) is None
    assert scaling.turn(28) is Power.ASLEEP
    assert scaling.turns_at is None
    assert scaling.touch(30)


def test_it_does_not_sleep_while_something_is_under_way() -> None:
    scaling = awake(at=8)
    scaling.begin()
    scaling.begin()
    scaling.touch(9)
    assert scaling.turn(1000) is None
    scaling.end(1000)
    assert scaling.turn(1010) is None
    scaling.end(1020)
    assert scaling.turn(1029.9) is None
    assert scaling.turn(1030) is Power.ASLEEP


def test_what_is_under_way_when_it_gets_warm_keeps_it_awake() -> None:
    scaling = Scaling(TRAITS)
    scaling.begin()
    scaling.touch(0)
    assert scaling.turn(3) is Power.AWAKE
    assert scaling.turn(1000) is None
    scaling.end(1000)
    assert scaling.turn(1010) is Power.ASLEEP


def test_whoever_left_before_it_was_warm_does_not_stop_it_from_waking() -> None:
    scaling = Scaling(TRAITS)
    scaling.begin()
    scaling.touch(0)
    scaling.end(1)
    assert scaling.turn(3) is Power.AWAKE
    assert scaling.turn(13) is Power.ASLEEP


@pytest.mark.parametrize("field", ["idle_seconds", "wake_seconds"])
@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
def test_its_times_are_finite_and_not_negative(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be 0 or more"):
        ScaleToZero(**{field: value})
