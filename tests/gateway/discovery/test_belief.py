"""When a replica that a source no longer lists is taken to be gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.discovery.belief import Belief, Patience
from gateway.discovery.listing import Listed
from gateway.replicas.endpoint import ReplicaEndpoint

PATIENCE = Patience(confirm_seconds=10, settle_seconds=30)
EVERY = 3


def listed(names: str) -> tuple[Listed, ...]:
    return tuple(Listed(ReplicaEndpoint(f"http://{name}:8000", name)) for name in names)


def believed(belief: Belief) -> str:
    return "".join(sorted(one.endpoint.display_name for one in belief.replicas.values()))


def play(*answers: tuple[float, str | None]) -> list[str]:
    """What is believed after each answer; None for a question without one."""
    belief, after = Belief(), []
    for at, names in answers:
        belief = belief.unanswered() if names is None else belief.next(listed(names), at, PATIENCE)
        after.append(believed(belief))
    return after


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(0, "")], [""], id="the first answer is believed, even if there is nothing in it"),
        pytest.param([(0, "a"), (3, "abc")], ["a", "abc"], id="who joins is there at once"),
        pytest.param(
            [(0, "abc"), (3, "ab"), (12.9, "ab"), (13, "ab")], ["abc", "abc", "abc", "ab"], id="one is gone"
        ),
        pytest.param(
            [(0, "abc"), (3, "ab"), (9, "abc"), (12, "ab"), (15, "ab"), (22, "ab")],
            ["abc", "abc", "abc", "abc", "abc", "ab"],
            id="one that was seen in between is waited for anew",
        ),
        pytest.param(
            [(0, "abc"), (3, "ab"), (6, None), (20, "ab"), (29, "ab"), (30, "ab")],
            ["abc", "abc", "abc", "abc", "abc", "ab"],
            id="without an answer nothing is confirmed",
        ),
        pytest.param(
            [(0, "abc"), (3, ""), (20, ""), (32.9, ""), (33, "")],
            ["abc", "abc", "abc", "abc", ""],
            id="an empty answer takes as long as it takes to settle",
        ),
        pytest.param(
            [(0, "abc"), (3, "a"), (20, "a"), (33, "a")],
            ["abc", "abc", "abc", "a"],
            id="so does one that lacks more than half",
        ),
        pytest.param([(0, "ab"), (3, "a"), (13, "a")], ["ab", "ab", "a"], id="half is not more than half"),
        pytest.param([(0, "a"), (3, ""), (13, ""), (33, "")], ["a", "a", "a", ""], id="the only one is all"),
        pytest.param(
            [(0, "abcde"), (3, ""), (5, "ab"), (8, "abcd"), (11, "abcde"), (60, "abcde")],
            ["abcde"] * 6,
            id="a store that was emptied fills again, and nobody was gone",
        ),
        pytest.param(
            [(0, "abc"), (3, ""), (6, "xyz"), (33, "xyz")],
            ["abc", "abc", "abcxyz", "xyz"],
            id="all are replaced: the new ones are there at once",
        ),
        pytest.param(
            [(0, "abc"), (3, "ab"), (4, "a"), (13, "a"), (34, "a")],
            ["abc", "abc", "abc", "abc", "a"],
            id="one that goes while another is missing makes it more than half",
        ),
    ],
)
def test_who_is_believed_to_be_there(answers: list[tuple[float, str | None]], expected: list[str]) -> None:
    assert play(*answers) == expected


def test_one_that_is_missing_stays_as_it_was_last_listed() -> None:
    draining = Listed(ReplicaEndpoint("http://a:8000", "a", weight=3.0), takes_sessions=False)
    belief = Belief().next((draining, *listed("bc")), 0, PATIENCE).next(listed("bc"), 3, PATIENCE)
    assert belief.replicas["http://a:8000"] == draining


def test_what_is_listed_anew_is_believed_as_it_is_now() -> None:
    belief = Belief().next(listed("a"), 0, PATIENCE)
    changed = Listed(ReplicaEndpoint("http://A:8000/", "a", max_sessions=2), takes_sessions=False)
    assert list(belief.next((changed,), 3, PATIENCE).replicas.values()) == [changed]


def test_to_settle_never_takes_less_than_to_confirm() -> None:
    patience = Patience(confirm_seconds=10, settle_seconds=0)
    assert patience.needed(3, of=3) == patience.needed(1, of=3) == 10


@given(st.lists(st.one_of(st.none(), st.text("abcde", max_size=5).map(set)), max_size=30))
def test_who_is_listed_is_always_believed_and_who_goes_was_missing_for_long(
    answers: list[set[str] | None],
) -> None:
    belief, seen_at = Belief(), dict[str, float]()
    for number, names in enumerate(answers):
        now, before = number * EVERY, set(believed(belief))
        if names is None:
            belief = belief.unanswered()
            assert set(believed(belief)) == before
            seen_at = dict.fromkeys(before, now)
            continue
        belief = belief.next(listed("".join(sorted(names))), now, PATIENCE)
        assert names <= set(believed(belief)) <= names | before
        for gone in before - set(believed(belief)):
            assert now - seen_at[gone] >= PATIENCE.confirm_seconds
        seen_at |= dict.fromkeys(names, float(now))
