from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.rendezvous import ranking
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.model import Candidate, ReplicaHealth, ReplicaStatus
from gateway.replicas.outlier import OutlierRecord
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, Choice, Chosen, NoneHealthy, Policy, choose
from tests.support.manual_clock import ManualClock


def candidate(
    name: str,
    *,
    primary: bool = False,
    weight: float = 1.0,
    healthy: bool = True,
    draining: bool = False,
    sessions: int = 0,
    max_sessions: int | None = None,
    refusing: bool = False,
    ejected: bool = False,
    ramp: float = 1.0,
    sleeping: bool = False,
) -> Candidate:
    return Candidate(
        f"http://{name}",
        name,
        primary,
        weight,
        healthy,
        draining,
        sessions,
        max_sessions,
        refusing,
        ejected,
        ramp,
        sleeping,
    )


def chosen(
    policy: Policy,
    candidates: Sequence[Candidate],
    ticket: int = 0,
    *,
    draw: float = 0.0,
    key: str | None = None,
) -> str:
    choice = choose(policy, candidates, ticket=ticket, draw=draw, key=key)
    assert isinstance(choice, Chosen)
    return choice.candidate.name


weights = st.just(1.0) | st.just(0.0) | st.floats(0, allow_infinity=False, allow_nan=False)


@st.composite
def replica_sets(draw: st.DrawFn) -> list[Candidate]:
    return [
        candidate(
            f"r{index}",
            primary=draw(st.booleans()),
            weight=draw(weights),
            healthy=draw(st.booleans()),
            draining=draw(st.booleans()),
            sessions=draw(st.integers(0, 4)),
            max_sessions=draw(st.none() | st.integers(1, 4)),
            refusing=draw(st.booleans()),
            ejected=draw(st.booleans()),
            ramp=draw(st.just(1.0) | st.floats(0.1, 1.0)),
        )
        for index in range(draw(st.integers(0, 6)))
    ]


policies = st.sampled_from(Policy)
by_weight = [Policy.LEAST_SESSIONS, Policy.WEIGHTED, Policy.P2C, Policy.RENDEZVOUS]
tickets = st.integers(0, 10**12)
draws = st.floats(0, 1, exclude_max=True)
keys = st.none() | st.text(max_size=8)


@given(policies, replica_sets(), tickets, draws, keys)
def test_only_a_usable_replica_with_room_is_chosen_and_why_there_is_none_is_true(
    policy: Policy, candidates: list[Candidate], ticket: int, draw: float, key: str | None
) -> None:
    usable = [one for one in candidates if one.healthy and not one.draining]
    trusted = [one for one in usable if not one.ejected] or usable
    match choose(policy, candidates, ticket=ticket, draw=draw, key=key):
        case Chosen(one):
            assert one in trusted
            assert one.has_room
        case AllFull():
            assert trusted
            assert not any(one.has_room for one in trusted)
        case NoneHealthy():
            assert not usable


@given(policies, replica_sets(), tickets, draws, keys)
def test_a_primary_with_room_goes_before_all_others(
    policy: Policy, candidates: list[Candidate], ticket: int, draw: float, key: str | None
) -> None:
    candidates = [replace(one, weight=one.weight or 1.0, ejected=False) for one in candidates]
    arguments = {"ticket": ticket, "draw": draw}
    among_primaries = choose(policy, [one for one in candidates if one.primary], **arguments, key=key)  # type: ignore[arg-type]
    if isinstance(among_primaries, Chosen):
        assert choose(policy, candidates, **arguments, key=key) == among_primaries  # type: ignore[arg-type]


@given(st.sampled_from(by_weight), replica_sets(), tickets, draws, keys)
def test_weight_0_takes_no_share_unless_nothing_else_is_left(
    policy: Policy, candidates: list[Candidate], ticket: int, draw: float, key: str | None
) -> None:
    match choose(policy, candidates, ticket=ticket, draw=draw, key=key):
        case Chosen(one) if one.weight == 0:
            rivals = [other for other in candidates if other.usable and other.ejected is one.ejected]
            assert not any(other.weight > 0 and other.has_room for other in rivals)
        case _:
            pass


@given(replica_sets(), tickets)
def test_priority_is_what_the_registry_selects(candidates: list[Candidate], ticket: int) -> None:
    assume(candidates)
    registry = ReplicaRegistry(
        [ReplicaEndpoint(one.url, primary=one.primary, max_sessions=one.max_sessions) for one in candidates],
        clock=ManualClock(),
    )
    for one, replica in zip(candidates, registry.all(), strict=True):
        replica.health = ReplicaHealth(ReplicaStatus.HEALTHY if one.healthy else ReplicaStatus.UNHEALTHY)
        replica.draining, replica.sessions = one.draining, one.sessions
        replica.refusing_until = 1.0 if one.refusing else None
        replica.outlier = OutlierRecord(ejected_until=1.0 if one.ejected else None)
    selected = registry.select()
    choice = choose(Policy.PRIORITY, registry.candidates(), ticket=ticket, draw=0.5)
    assert (choice.candidate.url if isinstance(choice, Chosen) else None) == (selected and selected.url)


@given(st.integers(1, 6), tickets)
def test_round_robin_gives_each_its_turn(count: int, start: int) -> None:
    fair = [candidate(f"r{index}") for index in range(count)]
    turns = Counter(chosen(Policy.ROUND_ROBIN, fair, start + ticket) for ticket in range(3 * count))
    assert set(turns.values()) == {3}
    assert len(turns) == count


@given(replica_sets())
def test_least_sessions_has_nobody_with_fewer_in_its_tier(candidates: list[Candidate]) -> None:
    plain = [replace(one, weight=1.0, ramp=1.0, ejected=False) for one in candidates]
    match choose(Policy.LEAST_SESSIONS, plain, ticket=0, draw=0.0):
        case Chosen(one):
            rivals = [
                other for other in plain if other.usable and other.has_room and other.primary == one.primary
            ]
            assert one.sessions == min(other.sessions for other in rivals)
            assert one == next(other for other in rivals if other.sessions == one.sessions)
        case AllFull() | NoneHealthy():
            pass


async def test_least_sessions_fills_a_newcomer() -> None:
    # Case 15 of the transparency cases: 2, 2, then a third replica, then two more sessions.
    endpoints = [ReplicaEndpoint(f"http://{name}") for name in "abc"]
    registry = ReplicaRegistry(endpoints[:2])

    async def open_two(count: int) -> None:
        for replica in registry.all():
            await registry.record_success(replica, recovery_threshold=1, latency_ms=1)
        for ticket in range(count):
            choice = choose(Policy.LEAST_SESSIONS, registry.candidates(), ticket=ticket, draw=0.0)
            assert isinstance(choice, Chosen)
            registry.lease(choice.candidate.url).opened()

    await open_two(4)
    assert [replica.sessions for replica in registry.all()] == [2, 2]
    registry.reconcile(endpoints)
    await open_two(2)
    assert [replica.sessions for replica in registry.all()] == [2, 2, 2]


def placed(policy: Policy, candidates: Sequence[Candidate], count: int, seed: int = 1) -> Counter[str]:
    """Where `count` sessions end up that all stay."""
    rng, left = random.Random(seed), {one.name: one for one in candidates}
    for ticket in range(count):
        name = chosen(policy, list(left.values()), ticket, draw=rng.random())
        left[name] = replace(left[name], sessions=left[name].sessions + 1)
    return Counter({name: one.sessions for name, one in left.items()})


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_least_sessions_fills_to_the_shares_of_the_weights(shares: list[int]) -> None:
    candidates = [candidate(f"r{index}", weight=float(share)) for index, share in enumerate(shares)]
    assert list(placed(Policy.LEAST_SESSIONS, candidates, 3 * sum(shares)).values()) == [
        3 * share for share in shares
    ]


@given(st.lists(st.floats(0.05, 20), min_size=1, max_size=6), tickets)
def test_weighted_gives_each_its_share_to_within_a_few_whatever_the_first_ticket(
    shares: list[float], start: int
) -> None:
    count = 600
    candidates = [candidate(f"r{index}", weight=share) for index, share in enumerate(shares)]
    got = Counter(chosen(Policy.WEIGHTED, candidates, start + offset) for offset in range(count))
    for one in candidates:
        assert abs(got[one.name] - count * one.weight / sum(shares)) < 6


def test_weighted_spreads_the_sessions_of_one_replica_out() -> None:
    candidates = [candidate("a", weight=3.0), candidate("b")]
    turns = "".join(chosen(Policy.WEIGHTED, candidates, ticket) for ticket in range(40))
    assert "bb" not in turns
    assert "aaaaaa" not in turns


def test_weighted_shares_a_tier_of_spares_evenly() -> None:
    spares = [candidate(name, weight=0.0) for name in "abc"]
    got = Counter(chosen(Policy.WEIGHTED, spares, ticket) for ticket in range(300))
    assert max(got.values()) - min(got.values()) < 6


@given(st.integers(2, 7))
def test_each_pair_of_p2c_has_the_same_part_of_the_draws(count: int) -> None:
    pairs = Counter[frozenset[int]]()
    parts = count * (count - 1)
    for part in range(parts):
        # The two that a draw compares are those that win it when all others have far more sessions.
        pair = set()
        for favourite in range(count):
            loads = [candidate(f"r{i}", sessions=0 if i == favourite else 9) for i in range(count)]
            if chosen(Policy.P2C, loads, draw=(part + 0.5) / parts) == f"r{favourite}":
                pair.add(favourite)
        pairs[frozenset(pair)] += 1
    assert len(pairs) == parts // 2
    assert all(len(pair) == 2 for pair in pairs)
    assert set(pairs.values()) == {2}


@given(st.integers(2, 5), draws)
def test_p2c_never_takes_the_fullest(count: int, draw: float) -> None:
    candidates = [candidate(f"r{index}", sessions=index) for index in range(count)]
    assert chosen(Policy.P2C, candidates, draw=draw) != f"r{count - 1}"


def test_p2c_keeps_loads_close() -> None:
    got = placed(Policy.P2C, [candidate(f"r{index}") for index in range(10)], 1000)
    assert max(got.values()) - min(got.values()) <= 8


def test_p2c_fills_towards_the_shares_of_the_weights() -> None:
    got = placed(Policy.P2C, [candidate("a", weight=1.0), candidate("b", weight=3.0)], 400)
    assert got["b"] == pytest.approx(300, abs=4)


@given(policies, st.text(max_size=8), replica_sets(), tickets, draws)
def test_a_key_goes_to_the_first_in_its_rank_whatever_the_policy(
    policy: Policy, key: str, candidates: list[Candidate], ticket: int, draw: float
) -> None:
    plain = [replace(one, primary=False, ejected=False, weight=one.weight or 1.0) for one in candidates]
    taking = [one for one in ranking(key, plain) if one.usable and one.has_room]
    choice = choose(policy, plain, ticket=ticket, draw=draw, key=key)
    assert (choice.candidate if isinstance(choice, Chosen) else None) == next(iter(taking), None)


@pytest.mark.parametrize(
    "away",
    [
        {"sessions": 1, "max_sessions": 1},
        {"draining": True},
        {"healthy": False},
        {"refusing": True},
        {"ejected": True},
    ],
    ids=["full", "draining", "unhealthy", "refusing", "ejected"],
)
def test_a_key_falls_to_the_next_in_rank_and_comes_back(away: dict[str, int]) -> None:
    candidates = [candidate(name) for name in "abcd"]
    first, second = (one.name for one in ranking("room-7", candidates)[:2])
    assert chosen(Policy.PRIORITY, candidates, key="room-7") == first
    without = [candidate(one.name, **away) if one.name == first else one for one in candidates]  # type: ignore[arg-type]
    assert chosen(Policy.PRIORITY, without, key="room-7") == second
    others = [f"k{number}" for number in range(50)]
    stay = [key for key in others if ranking(key, candidates)[0].name != first]
    assert stay
    for key in stay:
        assert chosen(Policy.PRIORITY, without, key=key) == chosen(Policy.PRIORITY, candidates, key=key)


def test_rendezvous_without_a_key_shares_by_weight() -> None:
    candidates = [candidate("a", weight=3.0), candidate("b")]
    assert [chosen(Policy.RENDEZVOUS, candidates, ticket) for ticket in range(20)] == [
        chosen(Policy.WEIGHTED, candidates, ticket) for ticket in range(20)
    ]


@pytest.mark.parametrize("policy", [Policy.ROUND_ROBIN, Policy.WEIGHTED])
@pytest.mark.parametrize("ramp", [0.1, 0.5, 0.9])
def test_a_slow_start_takes_its_part_of_the_new_sessions(policy: Policy, ramp: float) -> None:
    candidates = [candidate("a"), candidate("b"), candidate("c", ramp=ramp)]
    rng, count = random.Random(1), 3000
    got = Counter(chosen(policy, candidates, ticket, draw=rng.random()) for ticket in range(count))
    share = ramp / 3 if policy is Policy.ROUND_ROBIN else ramp / (2 + ramp)
    assert got["c"] / count == pytest.approx(share, abs=4 * math.sqrt(share / count))


@pytest.mark.parametrize("policy", [Policy.LEAST_SESSIONS, Policy.P2C])
def test_a_slow_start_is_not_flooded_for_having_the_fewest_sessions(policy: Policy) -> None:
    busy = [candidate("a", sessions=10), candidate("b", sessions=10)]
    got = placed(policy, [*busy, candidate("c", ramp=0.2)], 20)
    assert 1 <= got["c"] <= 4
    assert placed(policy, [*busy, candidate("c", ramp=1.0)], 20)["c"] >= 10


@given(st.integers(1, 5), tickets, draws)
def test_all_starting_slowly_is_as_if_none_were(count: int, ticket: int, draw: float) -> None:
    full = [candidate(f"r{index}", sessions=index) for index in range(count)]
    slow = [replace(one, ramp=0.1) for one in full]
    for policy in Policy:
        assert chosen(policy, slow, ticket, draw=draw) == chosen(policy, full, ticket, draw=draw)


def test_a_full_tier_spills_over_to_the_next() -> None:
    full_primary = candidate("p", primary=True, sessions=4, max_sessions=4)
    assert chosen(Policy.PRIORITY, [full_primary, candidate("a"), candidate("b")]) == "a"


def test_an_unhealthy_primary_is_replaced_by_the_first_healthy_other() -> None:
    candidates = [candidate("a", healthy=False), candidate("p", primary=True, healthy=False), candidate("b")]
    assert chosen(Policy.PRIORITY, candidates) == "b"


@pytest.mark.parametrize("policy", Policy)
def test_an_ejected_replica_is_used_only_where_no_other_is_usable(policy: Policy) -> None:
    out = candidate("a", ejected=True)

    def alone_with(other: Candidate) -> Choice:
        return choose(policy, [out, other], ticket=0, draw=0.0)

    assert alone_with(candidate("b")) == Chosen(candidate("b"))
    assert alone_with(candidate("b", sessions=1, max_sessions=1)) == AllFull()
    assert alone_with(candidate("b", healthy=False)) == Chosen(out)
    assert alone_with(candidate("b", draining=True)) == Chosen(out)


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("key", [None, "room-7"])
def test_full_and_unhealthy_are_told_apart(policy: Policy, key: str | None) -> None:
    def among(*candidates: Candidate) -> Choice:
        return choose(policy, candidates, ticket=0, draw=0.0, key=key)

    full = candidate("a", sessions=1, max_sessions=1)
    assert among(full, candidate("b", healthy=False)) == AllFull()
    assert among(candidate("a", refusing=True)) == AllFull()
    assert among(candidate("a", healthy=False)) == NoneHealthy()
    assert among(candidate("a", draining=True)) == NoneHealthy()
    assert among() == NoneHealthy()


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("key", [None, "a-key"])
def test_one_that_sleeps_is_woken_only_where_none_that_is_awake_has_room(
    policy: Policy, key: str | None
) -> None:
    asleep = candidate("asleep", primary=True, healthy=False, sleeping=True)
    spare = candidate("spare", weight=0.0, max_sessions=1)
    assert chosen(policy, [asleep, spare], key=key) == "spare"
    assert chosen(policy, [asleep, replace(spare, sessions=1)], key=key) == "asleep"
    assert chosen(policy, [asleep, replace(spare, ejected=True)], key=key) == "asleep"


@pytest.mark.parametrize("policy", Policy)
def test_one_that_is_being_woken_is_filled_before_another_is_woken(policy: Policy) -> None:
    waking = candidate("waking", healthy=False, sleeping=True, sessions=1, max_sessions=2)
    asleep = candidate("asleep", primary=True, healthy=False, sleeping=True, max_sessions=2)
    assert chosen(policy, [asleep, waking]) == "waking"
    assert chosen(policy, [asleep, replace(waking, sessions=2)]) == "asleep"


def test_a_draining_one_that_sleeps_is_never_woken() -> None:
    asleep = candidate("asleep", healthy=False, sleeping=True, draining=True)
    assert choose(Policy.PRIORITY, [asleep], ticket=0, draw=0.0) == NoneHealthy()
