from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FleetRefused
from gateway.fleet.counts import counted_sessions, counts_report, replica_key, waiting_in
from gateway.fleet.encoding import encode_report
from gateway.fleet.member import Report

MOST = 4096


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://10.0.0.7:8000", "//10.0.0.7:8000"),
        ("HTTP://A:80/", "//a"),
        ("https://a:8443", "https://a:8443"),
        ("http://[::1]:9", "//[::1]:9"),
    ],
)
def test_a_replica_has_one_key_however_its_url_is_spelled(url: str, key: str) -> None:
    assert replica_key(url) == key


def test_a_report_says_how_many_sessions_there_are_where_and_who_waits() -> None:
    sessions = {"http://a:1/": 2, "https://b:1": 1, "http://c:1": 0}
    report, left_out = counts_report(sessions, 3, MOST, {"movable": 1})
    assert report == {"load": 3, "waiting": 3, "movable": 1, "//a:1": 2, "https://b:1": 1}
    assert left_out == 0
    assert counted_sessions(report) == {"//a:1": 2, "https://b:1": 1}
    assert waiting_in(report) == 3


def test_what_another_version_says_is_not_taken_for_counts() -> None:
    report: Report = {
        "load": 2,
        "waiting": "some",
        "//a:1": 1.5,
        "//b:1": -1,
        "//c:1": "x",
        "d": 4,
        "//e:1": 2,
    }
    assert counted_sessions(report) == {"//e:1": 2}
    assert waiting_in(report) == 0


@given(
    counts=st.dictionaries(st.integers(1, 400).map(lambda n: f"http://host-{n}:8000"), st.integers(0, 99)),
    most=st.integers(60, 2000),
)
def test_what_fits_is_reported_the_largest_first(counts: dict[str, int], most: int) -> None:
    report, left_out = counts_report(counts, 5, most)
    size = len(encode_report(report, most))
    told = counted_sessions(report)
    held = {replica_key(url): count for url, count in counts.items() if count}
    assert left_out == len(held) - len(told)
    assert all(held[key] == count for key, count in told.items())
    assert report["load"] == sum(counts.values())
    left = [count for key, count in held.items() if key not in told]
    if left:
        assert max(left) <= min(told.values(), default=100)
        # The next one would not have fitted.
        assert size + min(len(f',"{key}":{held[key]}') for key in held.keys() - told.keys()) > most - 12


def test_even_the_totals_must_fit() -> None:
    with pytest.raises(FleetRefused, match="report_max_bytes"):
        counts_report({}, 0, 4)
