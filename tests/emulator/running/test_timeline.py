"""When planned things are due: tables of what happens and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter

from emulator.faults.fault import Point
from emulator.running.timeline import (
    POINTS,
    AtClient,
    AtReplica,
    AtStatus,
    Happening,
    Planned,
    Timeline,
    point_of,
    says,
)
from emulator.scenario import When
from emulator.scenario.when import AnyWhen

SPOKE = AtReplica("b", "message_received", 1)


def when(**fields: Any) -> When:
    """As a scenario file has it."""
    found: When = TypeAdapter(AnyWhen).validate_python(fields)
    return found


def timeline_of(*planned: float | When) -> Timeline[int]:
    """Entries with the keys 0, 1, 2 and so on."""
    return Timeline.of(
        Planned(key, entry, None) if isinstance(entry, float) else Planned(key, None, entry)
        for key, entry in enumerate(planned)
    )


def test_what_is_due_by_the_time_comes_once_and_in_order() -> None:
    timeline = timeline_of(2.0, 1.0, 1.0)
    assert timeline.next_at() == 1.0
    assert timeline.due(0.9) == []
    assert timeline.due(1.5) == [1, 2]
    assert timeline.due(1.5) == []
    assert timeline.next_at() == 2.0
    assert timeline.due(9.0) == [0]
    assert timeline.next_at() is None


@pytest.mark.parametrize(
    ("wanted", "happenings", "due_at"),
    [
        (when(replica="b", event="message_received"), [SPOKE], 0),
        (when(replica="b", event="message_received", n=2), [SPOKE, SPOKE], 1),
        (when(replica="b", event="message_received", session=2), [SPOKE, SPOKE], None),
        (when(replica="a", event="message_received"), [SPOKE], None),
        (when(replica="[ab]", event="message_received"), [SPOKE], 0),
        (
            when(replica="*", event="health", n=2),
            [AtReplica("a", "health"), AtReplica("b", "health"), AtReplica("b", "health")],
            2,
        ),
        (when(session="s", event="resumed"), [AtClient("s", "opened"), AtClient("s", "resumed")], 1),
        (when(session="s", event="resumed"), [AtClient("t", "resumed")], None),
        (
            when(session="s", event="error", type="worker_failed"),
            [AtClient("s", "error", "gpu_unavailable"), AtClient("s", "error", "worker_failed")],
            1,
        ),
        (when(session="s", event="error"), [AtClient("s", "error", "gpu_unavailable")], 0),
        (
            when(status={"b": "unhealthy"}),
            [AtStatus({"a": "healthy", "b": "healthy"}), AtStatus({"a": "healthy", "b": "unhealthy"})],
            1,
        ),
    ],
)
def test_an_event_is_waited_for(wanted: When, happenings: Sequence[Happening], due_at: int | None) -> None:
    timeline = timeline_of(wanted)
    came = [at for at, happening in enumerate(happenings) if timeline.notice(happening, 5.0)]
    assert came == ([] if due_at is None else [due_at])
    assert bool(timeline.waiting) is (due_at is None)


def test_some_time_after_an_event_is_told_by_the_time() -> None:
    timeline = timeline_of(when(session="s", event="closed", after=2))
    assert timeline.next_at() is None
    assert not timeline.is_timed(0)
    assert timeline.notice(AtClient("s", "closed"), 3.0) == []
    assert timeline.is_timed(0)
    assert timeline.next_at() == 5.0
    assert timeline.notice(AtClient("s", "closed"), 4.0) == []
    assert timeline.due(5.0) == [0]


def test_a_replica_that_stands_still_makes_its_entry_due() -> None:
    timeline = timeline_of(when(replica="b", event="segment_start", n=3), 1.0)
    assert timeline.notice(AtReplica("b", "segment_start", 1), 0.5) == []
    place = AtReplica("b", "point_reached", 1)
    assert timeline.cause_of(0) is None
    assert timeline.reach(0, place, 0.5) == [0]
    assert timeline.reach(0, place, 0.6) == []
    assert timeline.cause_of(0) == place


def test_nobody_asks_for_the_status_once_it_was_said() -> None:
    timeline = timeline_of(when(status={"b": "healthy"}, after=3))
    assert timeline.wants_status
    timeline.notice(AtStatus({"b": "healthy"}), 1.0)
    assert not timeline.wants_status


@pytest.mark.parametrize(
    ("wanted", "point"),
    [
        (when(replica="a", event="segment_start"), Point.SEGMENT_START),
        (when(replica="a", event="upgrade"), Point.UPGRADE),
        (when(replica="a", event="session_opened"), None),
        (when(session="s", event="segment_start"), None),
    ],
)
def test_which_events_are_points_of_a_sessions_way(wanted: When, point: Point | None) -> None:
    assert point_of(wanted) is point


def test_every_point_is_one_of_the_replicas() -> None:
    assert [Point(name) for name in POINTS]


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({"a": "healthy"}, True),
        ({"a": "healthy", "b": "unhealthy"}, True),
        ({"*": "healthy"}, False),
        ({"[a]": "healthy"}, True),
        ({"c": "healthy"}, False),
    ],
)
def test_what_a_gateway_says_is_held_against_patterns(wanted: dict[str, str], holds: bool) -> None:
    assert says({"a": "healthy", "b": "unhealthy"}, wanted) is holds
