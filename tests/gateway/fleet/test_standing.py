"""What each answer to a member's beats tells it."""

from __future__ import annotations

import pytest

from gateway.fleet.standing import (
    EntryWasExpired,
    IdOwnAgain,
    IdShared,
    IdTakenOver,
    MembersChanged,
    Standing,
    StandingEvent,
    first_standing,
    next_standing,
)
from gateway.fleet.store import Answer
from gateway.fleet.view import FleetView
from tests.gateway.fleet.views import at, member, seconds, view

TTL = seconds(10)


def answer(fleet: FleetView, found: str | None = "mine") -> Answer:
    return Answer(fleet, found, True)


def follow(*answers: Answer) -> tuple[Standing, list[tuple[StandingEvent, ...]]]:
    """The standing after all of `answers`, and what each of them told."""
    standing, events = first_standing(answers[0], "me", "mine", 0.0)
    told = [events]
    for number, each in enumerate(answers[1:], 1):
        standing, events = next_standing(standing, each, "me", "mine", TTL, float(number))
        told.append(events)
    return standing, told


@pytest.mark.parametrize(
    ("found", "events"),
    [(None, ()), ("mine", ()), ("other", (IdTakenOver("other"),)), ("", (IdTakenOver(""),))],
)
def test_the_first_answer_proves_no_second_process(
    found: str | None, events: tuple[StandingEvent, ...]
) -> None:
    standing, told = follow(answer(view("me"), found))
    assert told == [events]
    assert standing.shared_at is None


def test_others_that_come_and_go_are_told_once() -> None:
    _, told = follow(
        answer(view("me", "b")),
        answer(view("me", "b")),
        answer(view("me", "d", "c")),
        answer(view("me", "d", "c")),
    )
    assert told == [(), (), (MembersChanged(("c", "d"), ("b",)),), ()]


def test_a_newer_since_tells_that_the_entry_was_gone() -> None:
    standing, told = follow(
        answer(view(member("me", since=0), now=100), None),
        answer(view(member("me", since=0), now=103)),
        answer(view(member("me", since=140), now=140), None),
        answer(view(member("me", since=140), now=143)),
    )
    assert told == [(), (), (EntryWasExpired(37.0),), ()]
    assert standing.since == at(140)


def test_a_since_that_went_back_with_the_clock_tells_nothing() -> None:
    _, told = follow(
        answer(view(member("me", since=90), now=100)), answer(view(member("me", since=80), now=80))
    )
    assert told == [(), ()]


def test_a_second_process_under_one_id_is_told_once_and_its_end_a_ttl_later() -> None:
    standing, told = follow(
        answer(view("me", now=100), None),
        answer(view("me", now=103), "other"),
        answer(view("me", now=106), "other"),
        answer(view("me", now=109)),
        answer(view("me", now=116)),
        answer(view("me", now=117)),
        answer(view("me", now=120)),
    )
    assert told == [(), (IdShared("other"),), (), (), (), (IdOwnAgain(),), ()]
    assert standing.shared_at is None


def test_a_third_process_is_told_by_the_same_line() -> None:
    standing, told = follow(
        answer(view("me", now=100), None),
        answer(view("me", now=103), "other"),
        answer(view("me", now=106), "third"),
    )
    assert told[2] == ()
    assert standing.shared_at == at(106)


def test_a_beat_that_a_later_one_overtook_keeps_what_is_known_of_oneself() -> None:
    standing, told = follow(answer(view("me", "b")), answer(view("b")), answer(view("me", "b")))
    assert told == [(), (), ()]
    assert standing.since == at(0)
