from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.events import Event, EventLog


def filled(capacity: int, *replicas: str) -> EventLog:
    log = EventLog(capacity)
    for replica in replicas:
        log.record(replica, "port_opened", at=0.0)
    return log


def numbers(events: tuple[Event, ...]) -> list[int]:
    return [event.seq for event in events]


def test_the_ring_keeps_the_newest_and_counts_what_it_dropped() -> None:
    page = filled(3, *"aaaaa").page()
    assert (numbers(page.events), page.dropped, page.last) == ([3, 4, 5], 2, 5)


def test_a_page_is_of_one_replica_or_of_all() -> None:
    log = filled(10, *"abab")
    assert numbers(log.page(replica="b").events) == [2, 4]
    assert numbers(log.page(after=1, replica="a").events) == [3]


def test_a_page_is_of_the_kinds_and_the_session_asked_for() -> None:
    log = EventLog()
    for session, kind in enumerate(("session_opened", "close_sent", "session_closed"), start=1):
        log.record("a", kind, at=0.0, session=session)
    assert numbers(log.page(kinds=("session_opened", "session_closed")).events) == [1, 3]
    assert numbers(log.page(session=2).events) == [2]
    assert numbers(log.page(session=2, kinds=("session_opened",)).events) == []


@given(st.lists(st.sampled_from("ab")), st.integers(1, 20), st.integers(1, 5), st.sampled_from(["a", None]))
def test_pages_joined_are_the_whole(
    replicas: list[str], capacity: int, limit: int, replica: str | None
) -> None:
    log = filled(capacity, *replicas)
    found: list[int] = []
    after = 0
    while (page := log.page(after, replica=replica, limit=limit)).events:
        found += numbers(page.events)
        after = page.last
    assert found == numbers(log.page(replica=replica, limit=10_000).events)


def test_listeners_hear_until_they_leave() -> None:
    log = EventLog(5)
    heard: list[Event] = []
    leave = log.subscribe(heard.append)
    log.record("a", "port_opened", at=0.0)
    leave()
    leave()
    log.record("a", "port_closed", at=0.0)
    assert [event.kind for event in heard] == ["port_opened"]


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        EventLog(0)
