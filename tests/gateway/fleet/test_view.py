from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.member import FleetMember, ReportValue
from gateway.fleet.view import FleetView, _digest
from gateway.rendezvous import digest as digest_of_replicas
from tests.gateway.fleet.views import at, member, seconds, view

names = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="{}"), min_size=1)
states = st.sampled_from(["starting", "serving", "draining"])
members = st.lists(
    st.builds(member, names, states, st.floats(0, 900), load=st.integers(-3, 50) | st.floats(0, 50)),
    max_size=8,
    unique_by=lambda each: each.id,
)
keys = st.text(st.characters(), max_size=12)
SETTLE = seconds(30)


@pytest.mark.parametrize(
    ("member_id", "key", "hashed"),
    [
        # Each is what `printf 'ID\0KEY' | b2sum -l 64` prints.
        ("gw-1:17:c0ffee", "room-1", 0xE4684762FF284C2A),
        ("gw-1:17:c0ffee", "", 0xD4D93BF5A1AC7E0C),
        ("a", "tenant-42", 0x05B632966DAEC7EB),
        ("größe", "raum-ü", 0x09262E1BE8EC3173),
    ],
)
def test_the_hash_is_the_published_one(member_id: str, key: str, hashed: int) -> None:
    assert _digest(member_id, key) == hashed


def test_members_are_hashed_as_replicas_are() -> None:
    assert _digest("http://a:8000", "room-1") == digest_of_replicas("http://a:8000", "room-1")


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("room-1", "bdca"),
        ("room-2", "cdab"),
        ("room-3", "acdb"),
        ("client-7", "adcb"),
        ("", "bdca"),
        ("ü", "dbca"),
    ],
)
def test_the_order_is_the_same_in_every_process(key: str, order: str) -> None:
    assert "".join(each.id for each in view("a", "b", "c", "d").rank(key)) == order


def test_members_are_sorted_by_id_whatever_the_order_of_reading() -> None:
    assert [each.id for each in view("b", "a", "B", "é", "z").members] == ["B", "a", "b", "z", "é"]


def test_one_id_is_one_member() -> None:
    with pytest.raises(ValueError, match="same id"):
        view("a", "a")


@given(members, keys, st.randoms())
def test_the_order_of_reading_does_not_count(these: list[FleetMember], key: str, rng: random.Random) -> None:
    shuffled = rng.sample(these, len(these))
    one, other = view(*these), view(*shuffled)
    assert one == other
    assert one.hash == other.hash
    assert one.rank(key) == other.rank(key)


@given(members, keys)
def test_a_member_that_goes_moves_only_what_it_owned(these: list[FleetMember], key: str) -> None:
    before = view(*these).rank(key)
    for gone in before:
        after = view(*(each for each in these if each is not gone)).rank(key)
        assert after == tuple(each for each in before if each is not gone)


def test_only_serving_members_are_candidates_unless_states_says_otherwise() -> None:
    fleet = view(member("a"), member("b", "starting"), member("c", "draining"), member("d"))
    assert {each.id for each in fleet.rank("k")} == {"a", "d"}
    assert {each.id for each in fleet.rank("k", states=("serving", "starting"))} == {"a", "b", "d"}
    assert fleet.rank("k", states=()) == ()
    with pytest.raises(ValueError, match="asleep"):
        fleet.rank("k", states=("asleep",))


def test_keys_are_spread_evenly() -> None:
    fleet, count = view(*"abcd"), 4000
    owned = Counter(fleet.rank(f"room-{number}")[0].id for number in range(count))
    for name in "abcd":
        assert owned[name] / count == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / count))


@pytest.mark.parametrize(
    ("total", "shares"),
    [
        (0, [0, 0, 0]),
        (1, [1, 0, 0]),
        (2, [1, 1, 0]),
        (3, [1, 1, 1]),
        (1000, [334, 333, 333]),
        (10**30 + 1, [(10**30 - 1) // 3 + 1, (10**30 - 1) // 3 + 1, (10**30 - 1) // 3]),
    ],
)
def test_what_does_not_divide_goes_to_the_lowest_ids(total: int, shares: list[int]) -> None:
    fleet = view("c", "a", "b", member("0", "starting"), member("z", "draining"))
    assert [fleet.share(total, name) for name in "abc"] == shares


@pytest.mark.parametrize("me", ["starting", "draining", "nobody"])
def test_who_is_not_serving_has_no_share(me: str) -> None:
    fleet = view("a", member("starting", "starting"), member("draining", "draining"))
    assert fleet.share(10, me) == 0
    assert fleet.share(10, "a") == 10


def test_a_negative_total_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        view("a").share(-1, "a")


@given(members, st.integers(0, 10**18))
def test_the_shares_of_the_serving_add_up(these: list[FleetMember], total: int) -> None:
    fleet = view(*these)
    shares = [fleet.share(total, each.id) for each in these]
    assert sum(shares) == (total if fleet.serving() else 0)
    if fleet.serving():
        own = [fleet.share(total, each.id) for each in fleet.serving()]
        assert max(own) - min(own) <= 1


@pytest.mark.parametrize(
    ("others", "settled"),
    [
        ([], True),
        ([member("b", since=970)], True),
        ([member("b", since=970.000001)], False),
        ([member("b", "starting", since=999)], True),
        ([member("b", "draining", since=999)], True),
        ([member("b", since=1001)], False),
    ],
)
def test_a_fleet_is_settled_when_no_serving_member_is_young(others: list[FleetMember], settled: bool) -> None:
    assert view("a", *others).settled(SETTLE) is settled
    assert view(*others).settled(SETTLE) is settled


CALM = [member("a", load=20), member("b", load=10), member("c", load=0)]


@pytest.mark.parametrize(
    ("fleet", "options", "excess"),
    [
        pytest.param(CALM, {}, 10, id="load - mean"),
        pytest.param([member("a", load=21), member("b", load=10)], {}, 6, id="rounded up"),
        pytest.param(
            [member("a", load=13), member("b", load=7)], {"tolerance": 0.3}, 0, id="at the tolerance"
        ),
        pytest.param(
            [member("a", load=13), member("b", load=7)], {"tolerance": 0.29}, 3, id="above the tolerance"
        ),
        pytest.param([member("a", load=10), member("b", load=10)], {}, 0, id="at the mean"),
        pytest.param([member("a", load=5), member("b", load=10)], {}, 0, id="below the mean"),
        pytest.param([member("a", load=20)], {}, 0, id="alone"),
        pytest.param([member("a", load=20), member("b")], {}, 0, id="the only one that reports"),
        pytest.param([member("a", load=20), member("b", load=-5)], {}, 0, id="a negative load is none"),
        pytest.param([member("a", load=20), member("b", load="0")], {}, 0, id="nor is a text"),
        pytest.param(
            [member("a", load=20), member("b", "draining", load=0)], {}, 0, id="draining counts not"
        ),
        pytest.param(
            [member("a", load=20), member("b", "starting", load=0)], {}, 0, id="starting counts not"
        ),
        pytest.param([member("a", load=-20), member("b", load=0)], {}, 0, id="my own negative load"),
        pytest.param([member("a"), member("b", load=0)], {}, 0, id="no load of my own"),
        pytest.param([member("a", "draining", load=20), member("b", load=0)], {}, 0, id="not serving"),
        pytest.param([member("b", load=20), member("c", load=0)], {}, 0, id="not there"),
        pytest.param([*CALM, member("d", since=980, load=0)], {}, 0, id="not settled"),
        pytest.param([*CALM, member("d", "starting", since=980)], {}, 10, id="one that starts unsettles not"),
        pytest.param(CALM, {"movable": "movable"}, 0, id="nothing movable is reported"),
        pytest.param(
            [member("a", load=20, movable=4.9), *CALM[1:]], {"movable": "movable"}, 4, id="the floor"
        ),
        pytest.param([member("a", load=20, movable=99), *CALM[1:]], {"movable": "movable"}, 10, id="no more"),
        pytest.param([member("a", load=20, movable=-1), *CALM[1:]], {"movable": "movable"}, 0, id="negative"),
        pytest.param([member("a", load=20, movable="9"), *CALM[1:]], {"movable": "movable"}, 0, id="text"),
        pytest.param([member("a", load=20, movable=4), *CALM[1:]], {}, 10, id="movable is not asked for"),
        pytest.param(CALM, {"smallest": 10}, 10, id="the smallest"),
        pytest.param(CALM, {"smallest": 11}, 0, id="below the smallest"),
        pytest.param(
            [member("a", load=20, movable=4), *CALM[1:]],
            {"movable": "movable", "smallest": 5},
            0,
            id="capped below the smallest",
        ),
        pytest.param([member("a", load=2.5), member("b", load=0.2)], {}, 2, id="floats"),
        pytest.param([member("a", load=2**60 + 2), member("b", load=2**60)], {}, 1, id="large numbers"),
        pytest.param(CALM, {"tolerance": math.inf}, 0, id="any load is tolerated"),
    ],
)
def test_excess(fleet: list[FleetMember], options: dict[str, ReportValue], excess: int) -> None:
    asked = {"tolerance": 0.0, **options}
    assert view(*fleet).excess("a", settle=SETTLE, **asked) == excess  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [-0.1, math.nan])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        view(*CALM).excess("a", tolerance, SETTLE)


@given(members, st.floats(0, 2))
def test_what_all_hand_over_never_takes_anyone_below_the_mean_by_one(
    these: list[FleetMember], tolerance: float
) -> None:
    fleet = view(*these)
    loads = [each.report["load"] for each in fleet.serving()]
    counted = [float(load) for load in loads if float(load) >= 0]
    for each in fleet.serving():
        excess = fleet.excess(each.id, tolerance, seconds(0))
        assert excess >= 0
        if excess:
            mean = sum(counted) / len(counted)
            assert float(each.report["load"]) - excess > mean - 1 - 1e-6


def test_views_with_the_same_members_have_the_same_hash() -> None:
    fleet = view(member("a", load=1), member("b"))
    same = view(member("b", load=7), member("a"), now=2000)
    assert fleet.hash == same.hash
    assert len(fleet.hash) == 16
    others = [
        view("a"),
        view("a", "b", "c"),
        view("a", member("b", "draining")),
        view("a", member("b", since=1)),
        FleetView(at(0)),
    ]
    assert len({fleet.hash, *(other.hash for other in others)}) == 6


def test_a_member_is_found_by_its_id() -> None:
    fleet = view("a", "b")
    assert fleet.member("b") == fleet.members[1]
    assert fleet.member("c") is None


def test_a_report_cannot_be_changed_from_outside() -> None:
    said: dict[str, ReportValue] = {"load": 1}
    one = replace(member("a"), report=said)
    said["load"] = 2
    assert one.report == {"load": 1}
    with pytest.raises(TypeError):
        one.report["load"] = 3  # type: ignore[index]
