from __future__ import annotations

from datetime import timedelta

import pytest

from gateway.errors import FleetRefused
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.spec import Cadence, FleetSpec, OnStop

TEN = timedelta(seconds=10)


@pytest.mark.parametrize(("every", "deadline"), [(3, 7 / 3), (4.999, 5.001 / 3), (1, 3), (0.001, 9.999 / 3)])
def test_a_beat_may_take_a_third_of_what_is_left_of_the_ttl(every: float, deadline: float) -> None:
    allowed = Cadence(every=timedelta(seconds=every)).beat_deadline(FleetSpec("gateways", TEN))
    assert allowed.total_seconds() == pytest.approx(deadline, abs=1e-6)
    assert timedelta(seconds=every) + 2 * allowed < TEN  # slow answer, wait, slow write: with room to spare


@pytest.mark.parametrize("every", [5, 5.0001, 7, 100])
def test_every_must_be_below_half_of_the_ttl(every: float) -> None:
    with pytest.raises(FleetRefused, match=r"should be below half of ttl \(10 s\)"):
        Cadence(every=timedelta(seconds=every)).beat_deadline(FleetSpec("gateways", TEN))


@pytest.mark.parametrize("every", [0, -3])
def test_every_must_be_above_0(every: float) -> None:
    with pytest.raises(FleetRefused, match="above 0"):
        Cadence(every=timedelta(seconds=every)).beat_deadline(FleetSpec("gateways", TEN))


@pytest.mark.parametrize(
    ("on_stop", "linger_for", "said"),
    [("stay", None, "leave or linger, not 'stay'"), ("linger", timedelta(0), "linger_for should be")],
)
def test_a_way_to_go_that_is_none_is_refused(
    on_stop: OnStop, linger_for: timedelta | None, said: str
) -> None:
    cadence = Cadence(every=timedelta(seconds=3), on_stop=on_stop, linger_for=linger_for)
    with pytest.raises(FleetRefused, match=said):
        cadence.beat_deadline(FleetSpec("gateways", TEN))


@pytest.mark.parametrize(
    ("name", "ttl", "most", "said"),
    [
        ("", TEN, 100, "at least one character"),
        ("a:b", TEN, 100, "no colon"),
        ("a}", TEN, 100, "no brace"),
        ("a\tb", TEN, 100, "no tab"),
        ("gateways", timedelta(0), 100, "at least a millisecond"),
        ("gateways", TEN, 1, "report_max_bytes should be at least 2"),
    ],
)
def test_a_spec_that_breaks_a_rule_is_refused(name: str, ttl: timedelta, most: int, said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        FleetSpec(name, ttl, most)


def test_the_two_keys_are_under_one_hash_tag() -> None:
    keys = RedisFleetConfig(namespace="app").keys(FleetSpec(name="gateways", ttl=TEN))
    assert keys == ("{fleet:app:gateways}:z", "{fleet:app:gateways}:h")


def test_no_two_fleets_have_the_same_keys() -> None:
    one = RedisFleetConfig("app:blue").keys(FleetSpec("gateways", TEN))
    assert one != RedisFleetConfig("app").keys(FleetSpec("blue", TEN))
    with pytest.raises(FleetRefused, match="no colon"):
        FleetSpec("blue:gateways", TEN)


@pytest.mark.parametrize("namespace", ["", "a{b", "a\nb"])
def test_a_namespace_that_breaks_a_rule_is_refused(namespace: str) -> None:
    with pytest.raises(FleetRefused, match="namespace"):
        RedisFleetConfig(namespace)
