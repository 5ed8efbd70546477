from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.member import FleetMember
from gateway.fleet.occupancy import Belief, elsewhere
from gateway.fleet.view import FleetView
from gateway.replicas.model import Elsewhere, has_place
from tests.gateway.fleet.views import member, seconds, view

TTL = seconds(10)
A, B = "http://a:1", "https://b:1"
KEY_A, KEY_B = "//a:1", "https://b:1"


def has(name: str, *, a: int = 0, b: int = 0, waiting: int = 0, state: str = "serving") -> FleetMember:
    report = {KEY_A: a, KEY_B: b, "waiting": waiting, "load": a + b}
    return member(name, state, **report)


def seen(seen_by: FleetView, me: str, a: int | None = 4, b: int | None = 4) -> dict[str, Elsewhere]:
    return elsewhere(seen_by, me, {A: a, B: b}, TTL)


def test_on_a_replica_are_the_sessions_of_all_members_that_are_not_oneself() -> None:
    there = view(has("x", a=1), has("y", a=2, b=1), has("z", a=1, state="draining"))
    assert seen(there, "x") == {A: Elsewhere(3), B: Elsewhere(1)}
    assert seen(there, "y") == {A: Elsewhere(2)}
    assert seen(there, "nobody") == {A: Elsewhere(4), B: Elsewhere(1)}


def test_a_replica_that_this_gateway_does_not_have_is_left_out() -> None:
    assert elsewhere(view(has("y", a=2)), "x", {B: None}, TTL) == {}


def test_alone_or_where_nobody_waits_every_place_is_for_whoever_comes() -> None:
    assert seen(view("x", has("y", a=1)), "x") == {A: Elsewhere(1)}
    assert seen(view(has("x", waiting=9)), "x") == {}


def test_places_of_a_replica_without_a_limit_are_nobodys() -> None:
    assert seen(view("x", has("y", a=1, waiting=3)), "x", a=None, b=None) == {A: Elsewhere(1)}


def test_one_place_is_for_one_of_those_at_which_clients_wait() -> None:
    there = view(has("x", a=1, waiting=1), has("y", a=2, waiting=5), has("z", waiting=1), has("full", b=4))
    reserved = {me: seen(there, me).get(A, Elsewhere()).reserved for me in ("x", "y", "z")}
    assert sorted(reserved.values()) == [0, 1, 1]


def test_one_that_does_not_serve_takes_no_place_from_others() -> None:
    there = view(has("x", waiting=1), has("y", waiting=5, state="draining"))
    assert seen(there, "x") == {}


def test_the_order_is_another_one_each_half_ttl() -> None:
    waiting = has("x", waiting=1), has("y", waiting=1)
    firsts = set()
    for half in range(12):
        there = view(*waiting, now=1000.0 + 5 * half)
        same = view(*waiting, now=1000.0 + 5 * half + 4.9)
        assert seen(there, "x", a=1) == seen(same, "x", a=1)
        firsts.add(A in seen(there, "x", a=1))
    assert firsts == {True, False}


@given(
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6),
    limit=st.integers(1, 12),
    now=st.integers(0, 100),
)
def test_the_places_are_dealt_out_exactly_among_those_who_wait(
    counts: list[tuple[int, int]], limit: int, now: int
) -> None:
    there = view(
        *(has(f"m{number}", a=held, waiting=waiting) for number, (held, waiting) in enumerate(counts)),
        now=float(now),
    )
    free = limit - sum(held for held, _ in counts)
    waiting = [number for number, (_, waits) in enumerate(counts) if waits]
    parts = [free - seen(there, f"m{number}", a=limit).get(A, Elsewhere()).reserved for number in waiting]
    if free > 0:
        if waiting:
            assert sum(parts) == free
            assert max(parts) - min(parts) <= 1
    else:
        assert all(part == free for part in parts), "nothing is reserved of a full one"


@pytest.mark.parametrize("waits", [0, 1])
def test_what_one_had_it_may_fill_again(waits: int) -> None:
    """Its own sessions count as they are, so what has ended since the report is free to it."""
    there = view(has("x", a=2, waiting=waits), has("y", a=2, waiting=1))
    found = seen(there, "x", a=4, b=None)
    assert found == {A: Elsewhere(2)}
    assert has_place(4, 1, found[A])
    assert not has_place(4, 2, found[A])


def test_who_is_gone_is_gone() -> None:
    belief = Belief(view(has("x"), has("y", a=1)))
    after = belief.next(view(has("x"), now=1003.0), "x", TTL)
    assert [one.id for one in after.view.members] == ["x"]


def test_an_emptied_store_takes_nobody_away_for_a_ttl() -> None:
    belief = Belief(view(has("x"), has("y", a=1), has("z", a=1)))
    emptied = view(replace(has("x"), since=view().at), now=1003.0)
    belief = belief.next(emptied, "x", TTL)
    assert [one.id for one in belief.view.members] == ["x", "y", "z"]
    assert belief.view.at == emptied.at
    back = view(*emptied.members, has("y", a=2), now=1006.0)
    belief = belief.next(back, "x", TTL)
    assert {one.id: one.report.get(KEY_A) for one in belief.view.members} == {"x": 0, "y": 2, "z": 1}
    late = view(*back.members, now=1012.9)
    assert [one.id for one in belief.next(late, "x", TTL).view.members] == ["x", "y", "z"]
    late = view(*back.members, now=1013.0)
    assert [one.id for one in belief.next(late, "x", TTL).view.members] == ["x", "y"]


def test_one_that_is_gone_once_all_are_back_is_gone() -> None:
    belief = Belief(view(has("x"), has("y"))).next(view(replace(has("x"), since=view().at)), "x", TTL)
    belief = belief.next(view(*belief.view.members, now=1020.0), "x", TTL)
    assert [one.id for one in belief.next(view(has("y"), now=1023.0), "x", TTL).view.members] == ["y"]


def test_a_clock_that_goes_back_keeps_nobody() -> None:
    belief = Belief(view(has("x"), has("y"))).next(view(replace(has("x"), since=view().at)), "x", TTL)
    earlier = view(*(one for one in belief.view.members if one.id == "x"), now=500.0)
    assert [one.id for one in belief.next(earlier, "x", TTL).view.members] == ["x"]
