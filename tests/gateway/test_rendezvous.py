from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rendezvous import digest, ranking, score
from gateway.replicas.model import Candidate


def candidate(name: str, weight: float = 1.0) -> Candidate:
    return Candidate(f"http://{name}:8000", name, False, weight, True, False, 0, None)


keys = st.text(st.characters(), max_size=12)
sets = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 8)),
    min_size=1,
    max_size=8,
    unique_by=lambda one: one[0],
).map(lambda pairs: [candidate(name, weight) for name, weight in pairs])


@pytest.mark.parametrize(
    ("url", "key", "hashed"),
    [
        # Each is what `printf 'URL\0KEY' | b2sum -l 64` prints.
        ("http://a:8000", "room-1", 0xB347D436D9D260C6),
        ("http://a:8000", "", 0x7278AC6A2B99D573),
        ("http://10.0.0.7:9101", "203.0.113.9", 0xFCDE4E2EF7450696),
        ("https://gpu-1.example", "raum-ü", 0x4937FBBFEE9247CF),
    ],
)
def test_the_hash_is_the_published_one(url: str, key: str, hashed: int) -> None:
    assert digest(url, key) == hashed


@pytest.mark.parametrize(
    ("hashed", "weight", "expected"),
    [
        (0xB347D436D9D260C6, 1.0, 2.807211630901226),
        (0xB347D436D9D260C6, 2.5, 7.018029077253065),
        (0, 1.0, 0.0272206611488),
        (2**64 - 1, 0.0, 0.0),
    ],
)
def test_the_score_is_the_published_one(hashed: int, weight: float, expected: float) -> None:
    assert score(hashed, weight) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("room-1", "bacd"),
        ("room-2", "bcad"),
        ("room-3", "cabd"),
        ("client-7", "cbad"),
        ("", "cabd"),
        ("ü", "cbad"),
    ],
)
def test_the_order_is_the_same_in_every_process(key: str, order: str) -> None:
    candidates = [candidate("a"), candidate("b"), candidate("c", 2.0), candidate("d", 0.0)]
    assert "".join(one.name for one in ranking(key, candidates)) == order


@given(keys, sets)
def test_neither_order_nor_names_nor_load_count(key: str, candidates: list[Candidate]) -> None:
    others = [
        replace(
            one, name="renamed", sessions=7, healthy=False, url=one.url.upper().replace("HTTP", "http") + "/"
        )
        for one in reversed(candidates)
    ]
    assert [one.url.lower().rstrip("/") for one in ranking(key, others)] == [
        one.url for one in ranking(key, candidates)
    ]


@given(keys, sets)
def test_a_replica_that_goes_moves_only_its_own_keys_each_to_the_next_in_rank(
    key: str, candidates: list[Candidate]
) -> None:
    before = ranking(key, candidates)
    for gone in candidates:
        after = ranking(key, [one for one in candidates if one is not gone])
        assert list(after) == [one for one in before if one is not gone]


@given(keys, sets, st.floats(0, 8))
def test_a_weight_that_rises_moves_keys_only_to_that_replica(
    key: str, candidates: list[Candidate], more: float
) -> None:
    heavier = replace(candidates[0], weight=candidates[0].weight + more)
    before, after = ranking(key, candidates)[0], ranking(key, [heavier, *candidates[1:]])[0]
    assert after.url == before.url or after is heavier


@given(keys, st.lists(st.floats(0, allow_infinity=False), min_size=1, max_size=8))
def test_every_weight_that_a_replica_may_have_can_be_ranked(key: str, weights: list[float]) -> None:
    candidates = [candidate(f"r{index}", weight) for index, weight in enumerate(weights)]
    ranked = ranking(key, candidates)
    assert sorted(one.name for one in ranked) == sorted(one.name for one in candidates)
    assert not (ranked[0].weight == 0 and any(weight > 1e-300 for weight in weights))


def test_a_newcomer_takes_its_share_of_the_keys_and_no_other_key_moves() -> None:
    count = 4000
    old = [candidate("a"), candidate("b", 2.0), candidate("c")]
    new = candidate("d", 4.0)
    moved = Counter[str]()
    for number in range(count):
        before, after = ranking(f"k{number}", old)[0], ranking(f"k{number}", [*old, new])[0]
        assert after in (before, new)
        moved[before.name] += after is new
    assert moved.total() / count == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / count))


def test_keys_are_shared_by_weight() -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 0.0}
    count = 4000
    candidates = [candidate(name, weight) for name, weight in weights.items()]
    won = Counter(ranking(f"room-{number}", candidates)[0].name for number in range(count))
    for name, weight in weights.items():
        share = weight / 8
        assert won[name] / count == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / count))
