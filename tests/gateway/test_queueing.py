"""Who of those that wait gets a place: first come, first served, within what each replica takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.queueing import Assignment, Hopeless, Waiter, assign
from gateway.replicas.model import Candidate
from gateway.selection import AllFull, NoneHealthy, Policy, choose

URLS = ("http://a:1", "http://b:1", "http://c:1")
A, B, C = URLS


def replica(url: str, sessions: int = 0, limit: int | None = 1, **differing: object) -> Candidate:
    plain = Candidate(
        url=url,
        name=url,
        primary=False,
        weight=1.0,
        healthy=True,
        draining=False,
        sessions=sessions,
        max_sessions=limit,
    )
    return replace(plain, **differing)  # type: ignore[arg-type]


def line(*tried: str) -> list[Waiter]:
    """One waiter for each text, which names the replicas that it could not reach, as in "ab"."""
    return [
        Waiter(turn, frozenset(f"http://{letter}:1" for letter in letters))
        for turn, letters in enumerate(tried, start=1)
    ]


def decided(
    waiting: list[Waiter], *candidates: Candidate, policy: Policy = Policy.PRIORITY, ticket: int = 0
) -> dict[int, str | None]:
    """Turns with the URL each got, None for those told that there is no hope."""
    decisions = assign(waiting, candidates, policy, ticket=ticket)
    return {
        decision.waiter.turn: decision.url if isinstance(decision, Assignment) else None
        for decision in decisions
    }


@pytest.mark.parametrize(
    ("waiting", "candidates", "expected"),
    [
        pytest.param(line(), [replica(A)], {}, id="nobody waits"),
        pytest.param(line("", ""), [replica(A, 1)], {}, id="no place"),
        pytest.param(line("", ""), [replica(A)], {1: A}, id="the first gets the place"),
        pytest.param(line("", "", ""), [replica(A), replica(B)], {1: A, 2: B}, id="two places, three wait"),
        pytest.param(line("", ""), [replica(A, limit=None)], {1: A, 2: A}, id="no limit"),
        pytest.param(line("", "", ""), [replica(A, 1, 3)], {1: A, 2: A}, id="room for two"),
        pytest.param(line(""), [replica(A, limit=0)], {}, id="a limit of none"),
        pytest.param(line(""), [replica(A, 3, 1)], {}, id="more than its limit"),
        pytest.param(line(""), [replica(A, refusing=True)], {}, id="refusing counts as full"),
        pytest.param(line(""), [replica(A, ejected=True)], {1: A}, id="only an ejected one is left"),
        pytest.param(line(""), [replica(A, ejected=True), replica(B, 1)], {}, id="rather wait than ejected"),
        pytest.param(line("a", ""), [replica(A), replica(B, 1)], {2: A}, id="passed by who could not use it"),
        pytest.param(line("a", "", ""), [replica(A), replica(B)], {1: B, 2: A}, id="the one that it can use"),
        pytest.param(line("", "a"), [replica(A), replica(B)], {1: A, 2: B}, id="both fit"),
        pytest.param(line("", "b"), [replica(A), replica(B)], {1: A}, id="the first has its choice"),
        pytest.param(line("", ""), [replica(A, healthy=False)], {1: None, 2: None}, id="none healthy"),
        pytest.param(line(""), [replica(A, draining=True)], {1: None}, id="all draining"),
        pytest.param(line("", ""), [], {1: None, 2: None}, id="no replica"),
        pytest.param(line("", "a"), [replica(A, 1)], {2: None}, id="hopeless for one of them"),
        pytest.param(line("a"), [replica(A), replica(B, healthy=False)], {1: None}, id="tried and unhealthy"),
    ],
)
def test_the_line_is_served_in_its_order(
    waiting: list[Waiter], candidates: list[Candidate], expected: dict[int, str | None]
) -> None:
    assert decided(waiting, *candidates) == expected


def test_the_primary_comes_first_and_spills_over() -> None:
    candidates = [replica(A), replica(B, primary=True)]
    assert decided(line("", ""), *candidates) == {1: B, 2: A}


def test_round_robin_goes_on_from_the_ticket() -> None:
    candidates = [replica(url, limit=9) for url in URLS]
    served = decided(line("", "", ""), *candidates, policy=Policy.ROUND_ROBIN, ticket=1)
    assert served == {1: B, 2: C, 3: A}


def test_a_waiter_that_has_tried_takes_no_ticket() -> None:
    candidates = [replica(url, limit=9) for url in URLS]
    served = decided(line("c", ""), *candidates, policy=Policy.ROUND_ROBIN, ticket=1)
    assert served == {1: B, 2: B}


def test_least_sessions_counts_those_just_assigned() -> None:
    served = decided(line("", "", ""), replica(A, 1, 9), replica(B, 0, 9), policy=Policy.LEAST_SESSIONS)
    assert served == {1: B, 2: A, 3: B}


def test_a_key_chooses_between_places_and_never_keeps_one_free() -> None:
    room = [replica(url) for url in URLS]
    first = choose(Policy.PRIORITY, room, ticket=0, draw=0.0, key="k")
    keyed = [Waiter(1, key="k"), Waiter(2, key="k"), Waiter(3, key="k")]
    served = decided(keyed, *room)
    assert served[1] == first.candidate.url  # type: ignore[union-attr]
    assert sorted(filter(None, served.values())) == [A, B, C]


candidates_of_any_kind = st.tuples(
    *(
        st.builds(
            replica,
            st.just(url),
            sessions=st.integers(0, 3),
            limit=st.none() | st.integers(0, 4),
            healthy=st.booleans(),
            draining=st.booleans(),
            primary=st.just(url == A),
            refusing=st.booleans(),
            ejected=st.booleans(),
            weight=st.sampled_from([0.0, 1.0, 3.0]),
            ramp=st.sampled_from([0.1, 0.5, 1.0]),
        )
        for url in URLS
    )
)
lines = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(URLS)),
        st.none() | st.sampled_from(["k", "l", "m"]),
        st.floats(0, 1, exclude_max=True),
    ),
    max_size=8,
).map(lambda drawn: [Waiter(turn, *rest) for turn, rest in enumerate(drawn, start=1)])
policies = st.sampled_from(list(Policy))
tickets = st.integers(0, 50)


def after(candidates: tuple[Candidate, ...], taken: Counter[str]) -> list[Candidate]:
    return [replace(each, sessions=each.sessions + taken[each.url]) for each in candidates]


def chosen_alone(waiter: Waiter, candidates: list[Candidate], policy: Policy, ticket: int) -> object:
    mine = [each for each in candidates if each.url not in waiter.tried]
    return choose(policy, mine, ticket=ticket, draw=waiter.draw, key=waiter.key)


@given(lines, candidates_of_any_kind, policies, tickets)
def test_no_capacity_is_exceeded(
    waiting: list[Waiter], candidates: tuple[Candidate, ...], policy: Policy, ticket: int
) -> None:
    decisions = assign(waiting, candidates, policy, ticket=ticket)
    taken = Counter(decision.url for decision in decisions if isinstance(decision, Assignment))
    by_url = {each.url: each for each in candidates}
    for url, count in taken.items():
        each = by_url[url]
        assert each.usable
        assert not each.refusing
        assert each.max_sessions is None or each.sessions + count <= each.max_sessions
    turns = [decision.waiter.turn for decision in decisions]
    assert turns == sorted(set(turns))
    for decision in decisions:
        if isinstance(decision, Assignment):
            assert decision.url not in decision.waiter.tried


@given(lines, candidates_of_any_kind, policies, tickets)
def test_nobody_is_overtaken(
    waiting: list[Waiter], candidates: tuple[Candidate, ...], policy: Policy, ticket: int
) -> None:
    """Each gets what it would get alone, once those before it have theirs; a shortcut changes nothing."""
    decisions = {each.waiter.turn: each for each in assign(waiting, candidates, policy, ticket=ticket)}
    taken: Counter[str] = Counter()
    for waiter in waiting:
        alone = chosen_alone(waiter, after(candidates, taken), policy, ticket)
        match decisions.get(waiter.turn):
            case None:
                assert alone == AllFull()
            case Hopeless():
                assert alone == NoneHealthy()
            case Assignment(url=url):
                assert alone.candidate.url == url  # type: ignore[attr-defined]
                taken[url] += 1
                ticket += not waiter.tried


@given(lines, candidates_of_any_kind, policies, tickets)
def test_no_place_is_left_that_somebody_could_use(
    waiting: list[Waiter], candidates: tuple[Candidate, ...], policy: Policy, ticket: int
) -> None:
    decisions = assign(waiting, candidates, policy, ticket=ticket)
    taken = Counter(decision.url for decision in decisions if isinstance(decision, Assignment))
    served = {decision.waiter.turn for decision in decisions}
    for waiter in waiting:
        if waiter.turn not in served:
            assert chosen_alone(waiter, after(candidates, taken), policy, ticket) == AllFull()


@given(
    st.lists(st.none() | st.sampled_from(["k", "l", "m"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(URLS), min_size=1, max_size=12),
    policies,
)
def test_interchangeable_places_are_given_in_the_order_of_arrival(
    keys: list[str | None], freed: list[str], policy: Policy
) -> None:
    """Places come one by one, and whichever replica it is on, the one in front gets it."""
    waiting = [Waiter(turn, key=key) for turn, key in enumerate(keys, start=1)]
    candidates = {url: replica(url, sessions=1) for url in URLS}
    for url in freed:
        candidates[url] = replace(candidates[url], max_sessions=(candidates[url].max_sessions or 0) + 1)
        decisions = assign(waiting, [*candidates.values()], policy, ticket=0)
        if not waiting:
            assert decisions == ()
            break
        assert decisions == (Assignment(waiting.pop(0), url),)
        candidates[url] = replace(candidates[url], sessions=candidates[url].sessions + 1)


@given(lines, st.lists(st.sampled_from(URLS), max_size=20), policies)
def test_nobody_starves(waiting: list[Waiter], freed: list[str], policy: Policy) -> None:
    """Who can use a replica has a place after as many places there as there are waiters up to it."""
    candidates = {url: replica(url, sessions=1) for url in URLS}
    hopeful = [waiter for waiter in waiting if waiter.tried != set(URLS)]
    places: Counter[str] = Counter()
    for url in freed:
        candidates[url] = replace(candidates[url], max_sessions=(candidates[url].max_sessions or 0) + 1)
        places[url] += 1
        for decision in assign(waiting, [*candidates.values()], policy, ticket=0):
            waiting = [waiter for waiter in waiting if waiter is not decision.waiter]
            if isinstance(decision, Assignment):
                taken = candidates[decision.url]
                candidates[decision.url] = replace(taken, sessions=taken.sessions + 1)
        for ahead, waiter in enumerate(hopeful):
            if any(places[url] > ahead for url in URLS if url not in waiter.tried):
                assert waiter not in waiting
