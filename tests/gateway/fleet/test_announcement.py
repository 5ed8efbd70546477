"""What a streamer may announce, and how it is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FleetRefused
from gateway.fleet.announcement import Announcement, read_announcement
from gateway.fleet.encoding import decode_entry, encode_payload
from gateway.fleet.member import FleetMember, MemberState, ReportValue
from gateway.replicas.endpoint import ReplicaEndpoint
from tests.gateway.fleet.views import START, member

URL = "http://10.0.0.7:8000"


def test_an_announcement_is_a_replica_for_a_gateway() -> None:
    announced = Announcement(URL, "a", 4, 2.5, primary=True, cold_start=True)
    assert announced.endpoint == ReplicaEndpoint(URL, "a", True, 2.5, 4, cold_start=True)
    assert Announcement(URL).endpoint == ReplicaEndpoint(URL)


def test_capacity_0_is_a_replica_without_places() -> None:
    announced = Announcement(URL, capacity=0)
    assert (announced.has_places, announced.endpoint.max_sessions) == (False, None)
    assert Announcement(URL, capacity=1).has_places
    assert Announcement(URL).has_places


@given(
    st.one_of(
        st.none(), st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=128)
    ),
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.floats(0, 1e6),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 10**6)),
)
def test_what_is_announced_is_read_back(
    name: str | None, capacity: int | None, weight: float, primary: bool, cold: bool, load: int | None
) -> None:
    announced = Announcement(URL, name, capacity, weight, primary, cold)
    payload = encode_payload(MemberState.SERVING, announced.report(load), 4096)
    read = decode_entry(b"m", b"1\ti\t0\t" + payload)
    assert read is not None
    assert read_announcement(read) == announced
    assert read.report.get("load") == load


def test_a_whole_number_may_be_written_as_a_float_and_unknown_keys_are_left_out() -> None:
    read = read_announcement(member("m", url=URL, capacity=4.0, weight=1, zone="eu", load=3))
    assert read == Announcement(URL, capacity=4)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({}, "announces no url"),
        ({"url": 7}, "should be text"),
        ({"url": "10.0.0.7:8000"}, "must begin with http"),
        ({"url": "http://a:8000/v1"}, "without a path"),
        ({"url": "ws://a:8000"}, "must begin with http"),
        ({"url": URL, "capacity": -1}, "capacity should be a whole number of 0 or more, not -1"),
        ({"url": URL, "capacity": 1.5}, "capacity"),
        ({"url": URL, "capacity": "4"}, "capacity"),
        ({"url": URL, "weight": -1.0}, "weight"),
        ({"url": URL, "weight": "1"}, "weight"),
        ({"url": URL, "name": ""}, "printable"),
        ({"url": URL, "name": 3}, "name should be text"),
        ({"url": URL, "name": "a" * 129}, "name of a replica must have at most 128 characters, not 129$"),
        ({"url": URL, "primary": 2}, "primary should be 0 or 1"),
        ({"url": URL, "primary": "yes"}, "primary should be 0 or 1"),
        ({"url": URL, "cold_start": 2}, "cold_start should be 0 or 1"),
    ],
)
def test_what_is_no_replica_is_refused_in_words(report: dict[str, ReportValue], said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        read_announcement(FleetMember("m", MemberState.SERVING, START, report))


def test_a_password_in_an_announced_url_is_not_repeated() -> None:
    with pytest.raises(FleetRefused) as refused:
        read_announcement(member("m", url="http://me:hunter2@a:8000"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("capacity", [-1, 1.5, True])
def test_a_streamer_hears_of_its_mistake_before_anything_is_sent(capacity: object) -> None:
    with pytest.raises(FleetRefused, match="capacity"):
        Announcement(URL, capacity=capacity)  # type: ignore[arg-type]
