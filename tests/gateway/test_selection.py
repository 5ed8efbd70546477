from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.replicas.model import Candidate, ReplicaEndpoint, ReplicaHealth, ReplicaStatus
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, Chosen, NoneHealthy, Policy, choose


def candidate(
    name: str,
    *,
    primary: bool = False,
    healthy: bool = True,
    draining: bool = False,
    sessions: int = 0,
    max_sessions: int | None = None,
) -> Candidate:
    return Candidate(f"http://{name}", name, primary, 1.0, healthy, draining, sessions, max_sessions)


def chosen(policy: Policy, candidates: list[Candidate], ticket: int = 0) -> str:
    choice = choose(policy, candidates, ticket=ticket, draw=0.0)
    assert isinstance(choice, Chosen)
    return choice.candidate.name


@st.composite
def replica_sets(draw: st.DrawFn) -> list[Candidate]:
    return [
        candidate(
            f"r{index}",
            primary=draw(st.booleans()),
            healthy=draw(st.booleans()),
            draining=draw(st.booleans()),
            sessions=draw(st.integers(0, 4)),
            max_sessions=draw(st.none() | st.integers(1, 4)),
        )
        for index in range(draw(st.integers(0, 6)))
    ]


policies = st.sampled_from(Policy)


@given(policies, replica_sets(), st.integers(0, 1000))
def test_an_unhealthy_draining_or_full_replica_is_never_chosen(
    policy: Policy, candidates: list[Candidate], ticket: int
) -> None:
    usable = [one for one in candidates if one.healthy and not one.draining]
    match choose(policy, candidates, ticket=ticket, draw=0.0):
        case Chosen(one):
            assert one in usable
            assert one.max_sessions is None or one.sessions < one.max_sessions
        case AllFull():
            assert usable
            assert all(one.max_sessions is not None and one.sessions >= one.max_sessions for one in usable)
        case NoneHealthy():
            assert not usable


@given(policies, replica_sets(), st.integers(0, 1000))
def test_a_primary_with_room_goes_before_all_others(
    policy: Policy, candidates: list[Candidate], ticket: int
) -> None:
    primaries = [one for one in candidates if one.primary]
    among_primaries = choose(policy, primaries, ticket=ticket, draw=0.0)
    if isinstance(among_primaries, Chosen):
        assert choose(policy, candidates, ticket=ticket, draw=0.0) == among_primaries


@given(replica_sets())
def test_priority_is_what_the_registry_selects(candidates: list[Candidate]) -> None:
    if not candidates:
        return
    registry = ReplicaRegistry(
        [ReplicaEndpoint(one.url, primary=one.primary, max_sessions=one.max_sessions) for one in candidates]
    )
    for one, replica in zip(candidates, registry.all(), strict=True):
        replica.health = ReplicaHealth(ReplicaStatus.HEALTHY if one.healthy else ReplicaStatus.UNHEALTHY)
        replica.draining, replica.sessions = one.draining, one.sessions
    selected = registry.select()
    choice = choose(Policy.PRIORITY, registry.candidates(), ticket=0, draw=0.0)
    assert (choice.candidate.url if isinstance(choice, Chosen) else None) == (selected and selected.url)


@given(replica_sets(), st.integers(0, 1000))
def test_round_robin_gives_each_its_turn(candidates: list[Candidate], start: int) -> None:
    fair = [candidate(one.name) for one in candidates]
    turns = Counter(chosen(Policy.ROUND_ROBIN, fair, start + ticket) for ticket in range(3 * len(fair)))
    assert set(turns.values()) <= {3}
    assert len(turns) == len(fair)


@given(replica_sets())
def test_least_sessions_has_nobody_with_fewer_in_its_tier(candidates: list[Candidate]) -> None:
    match choose(Policy.LEAST_SESSIONS, candidates, ticket=0, draw=0.0):
        case Chosen(one):
            rivals = [
                other
                for other in candidates
                if other.healthy and not other.draining and other.primary == one.primary
                if other.max_sessions is None or other.sessions < other.max_sessions
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


def test_a_full_tier_spills_over_to_the_next() -> None:
    full_primary = candidate("p", primary=True, sessions=4, max_sessions=4)
    assert chosen(Policy.PRIORITY, [full_primary, candidate("a"), candidate("b")]) == "a"


def test_an_unhealthy_primary_is_replaced_by_the_first_healthy_other() -> None:
    candidates = [candidate("a", healthy=False), candidate("p", primary=True, healthy=False), candidate("b")]
    assert chosen(Policy.PRIORITY, candidates) == "b"


@pytest.mark.parametrize("policy", Policy)
def test_full_and_unhealthy_are_told_apart(policy: Policy) -> None:
    full = candidate("a", sessions=1, max_sessions=1)
    assert choose(policy, [full, candidate("b", healthy=False)], ticket=0, draw=0.0) == AllFull()
    assert choose(policy, [candidate("a", healthy=False)], ticket=0, draw=0.0) == NoneHealthy()
    assert choose(policy, [candidate("a", draining=True)], ticket=0, draw=0.0) == NoneHealthy()
    assert choose(policy, [], ticket=0, draw=0.0) == NoneHealthy()
