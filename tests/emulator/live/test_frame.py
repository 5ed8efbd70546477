"""What the live view shows, by values: no terminal, no clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.events import Event
from emulator.live.frame import (
    Cell,
    Frame,
    Section,
    Size,
    age,
    busiest_replicas,
    busiest_sessions,
    fits,
    frame_of,
    room_in,
    size,
    tally,
)
from emulator.live.watch import Watch

NOW = 1000.0
WIDE = Size(120, 40)


def status(name: str, **more: Any) -> dict[str, Any]:
    """As a replica tells its own."""
    return {
        "name": name,
        "url": "http://127.0.0.1:9101",
        "state": "running",
        "warming": False,
        "refusing": False,
        "capacity": 4,
        "sessions": 0,
        "connections_total": 0,
        "scale_to_zero": None,
        "faults": {},
        **more,
    }


def heard(*events: tuple[str, str, int | None, dict[str, Any]], at: float = NOW - 0.5) -> Watch:
    watch = Watch()
    for replica, kind, session, detail in events:
        watch.hear(Event(0, at, replica, kind, 1, session, detail))
    return watch


def picture(watch: Watch, *statuses: dict[str, Any], screen: Size = WIDE) -> Frame:
    by_name = {entry["name"]: entry for entry in statuses}
    states = {name: str(entry["state"]) for name, entry in by_name.items()}
    return frame_of(watch, states, lambda name: by_name[name], NOW, screen, "control API: here")


def column(section: Section | None, heading: str) -> list[Cell]:
    assert section is not None
    return [row[section.headings.index(heading)] for row in section.rows]


def test_a_replica_is_shown_with_its_state_load_and_faults() -> None:
    watch = heard(
        ("a", "session_opened", 1, {}),
        ("a", "message_sent", 1, {"type": "ltx2_segment_complete", "size_bytes": 4096}),
        ("a", "http_answered", None, {"status": 200}),
    )
    faults = {"stall": {"struck": 2, "live": True}, "abort": {"struck": 0, "live": False}}
    shown = picture(
        watch, status("a", sessions=1, connections_total=7, faults=faults), status("b", state="killed")
    )
    section = shown.replicas
    assert section is not None
    assert section.headings == (
        "replica", "state", "port", "health", "sessions", "segments", "sent/s", "connects", "faults"
    )  # fmt: skip
    assert section.rows[0] == (
        Cell("a"),
        Cell("running", "good"),
        Cell("9101", "dim"),
        Cell("200", "good"),
        Cell("1/4"),
        Cell("1"),
        Cell("2.0 KiB"),
        Cell("7"),
        Cell("stall 2x, (abort)", "busy"),
    )
    assert column(section, "state")[1] == Cell("killed", "bad")
    assert shown.head[0].startswith(
        "2 replicas (1 running, 1 killed)  1 sessions, 1 so far  1 segments  2.0 KiB/s"
    )
    assert shown.head[1] == "control API: here"


@pytest.mark.parametrize(
    ("more", "events", "state", "health"),
    [
        ({}, [], Cell("running", "good"), Cell("-", "dim")),
        ({}, [{"status": 503}], Cell("running", "good"), Cell("503", "bad")),
        ({}, [{"status": None}], Cell("running", "good"), Cell("no answer", "bad")),
        ({"warming": True}, [{"status": 200}], Cell("running", "good"), Cell("warming", "busy")),
        ({"refusing": True}, [{"status": 200}], Cell("refusing", "bad"), Cell("gone", "bad")),
        ({"state": "paused"}, [{"status": 200}], Cell("paused", "bad"), Cell("hangs", "bad")),
        ({"state": "killed"}, [{"status": 200}], Cell("killed", "bad"), Cell("gone", "bad")),
    ],
)
def test_health_is_what_a_probe_meets(
    more: dict[str, Any], events: list[dict[str, Any]], state: Cell, health: Cell
) -> None:
    watch = heard(*(("a", "http_answered", None, detail) for detail in events))
    section = picture(watch, status("a", **more)).replicas
    assert column(section, "state") == [state]
    assert column(section, "health") == [health]


def test_a_session_is_shown_with_what_it_does() -> None:
    watch = heard(
        ("a", "session_opened", 1, {}),
        ("a", "message_received", 1, {"size_bytes": 30, "client_id": "me"}),
        ("a", "message_sent", 1, {"type": "step_complete", "size_bytes": 2048, "segment_idx": 2}),
        ("b", "session_opened", 9, {}),
        ("b", "fault_struck", 9, {"fault": "stall"}),
        at=NOW - 65.0,
    )
    section = picture(watch, status("a"), status("b")).sessions
    assert section is not None
    assert section.headings == ("session", "client", "segment", "age", "received", "sent", "sent/s", "does")
    assert [cell.text for cell in section.rows[0]] == [
        "a 1", "me", "2", "1m05s", "30 B", "2.0 KiB", "0 B", "makes a segment"
    ]  # fmt: skip
    assert [cell.text for cell in section.rows[1]][:3] == ["b 9", "-", "-"]
    assert column(section, "does")[1] == Cell("fault: stall", "bad")


def test_the_newest_news_are_at_the_bottom() -> None:
    watch = heard(*(("a", "session_opened", number, {}) for number in range(1, 30)))
    tail = picture(watch, status("a")).tail
    assert tail[-1].endswith("a session 29: opened")
    assert len(tail) <= 10


def test_of_many_the_busiest_are_shown_and_the_rest_is_summed_up() -> None:
    names = [f"r{number}" for number in range(500)]
    watch = heard(
        ("r400", "session_opened", 1, {}),
        ("r400", "binary_sent", 1, {"size_bytes": 10_000}),
        ("r7", "session_opened", 1, {}),
        *((f"r{number}", "session_opened", 2, {}) for number in range(100, 200)),
    )
    shown = picture(watch, *(status(name) for name in names), screen=Size(120, 12))
    section = shown.replicas
    assert section is not None
    texts = [cell.text for cell in column(section, "replica")]
    assert len(texts) < 10
    assert "r400" in texts
    assert texts == sorted(texts, key=lambda name: int(name[1:]))
    hidden = 500 - len(texts)
    assert section.rest.startswith(f"and {hidden} more: {hidden} running; ")
    assert shown.sessions is not None
    assert "more: " in shown.sessions.rest
    assert shown.lines <= 12


def test_ranks_go_by_traffic_then_by_sessions() -> None:
    watch = heard(
        ("c", "session_opened", 1, {}),
        ("b", "session_opened", 1, {}),
        ("b", "binary_sent", 1, {"size_bytes": 10}),
    )
    assert busiest_replicas(watch, ["a", "b", "c", "d"], 1, NOW) == ["b"]
    assert busiest_replicas(watch, ["a", "b", "c", "d"], 2, NOW) == ["b", "c"]
    assert busiest_replicas(watch, ["a", "b"], 5, NOW) == ["a", "b"]
    assert [seen.replica for seen in busiest_sessions(watch, 1, NOW)] == ["b"]


@given(st.integers(1, 80), st.integers(1, 600), st.integers(0, 300), st.integers(0, 100))
def test_the_parts_never_need_more_lines_than_there_are(
    lines: int, replicas: int, sessions: int, tail: int
) -> None:
    room = room_in(lines, replicas, sessions, tail)
    assert min(room.head, room.replicas, room.sessions, room.tail) >= 0
    assert room.head + room.replicas + room.sessions + room.tail <= lines
    assert fits(room.replicas, replicas) <= replicas
    if lines >= 4:
        assert fits(room.replicas, replicas) >= 1 or replicas > 1
    if lines >= 8 and sessions:
        assert room.sessions > 0


@given(st.integers(1, 60), st.integers(1, 200), st.integers(1, 40), st.integers(0, 40))
def test_no_picture_is_taller_than_its_terminal(
    lines: int, columns: int, replicas: int, sessions: int
) -> None:
    watch = heard(*(("r0", "session_opened", number, {}) for number in range(sessions)))
    shown = picture(watch, *(status(f"r{number}") for number in range(replicas)), screen=Size(columns, lines))
    assert shown.lines <= lines
    for section in (shown.replicas, shown.sessions):
        if section is not None:
            assert all(len(row) == len(section.headings) for row in section.rows)


@pytest.mark.parametrize(
    ("columns", "headings"),
    [
        (10, ("replica", "state")),
        (40, ("replica", "state", "sessions", "faults")),
        (60, ("replica", "state", "health", "sessions", "faults")),
        (80, ("replica", "state", "health", "sessions", "segments", "sent/s", "faults")),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns(columns: int, headings: tuple[str, ...]) -> None:
    section = picture(Watch(), status("a"), screen=Size(columns, 24)).replicas
    assert section is not None
    assert section.headings == headings


def test_a_terminal_of_one_line_shows_the_sum() -> None:
    shown = picture(Watch(), status("a"), screen=Size(80, 1))
    assert (shown.lines, shown.replicas, shown.sessions, shown.tail) == (1, None, None, ())
    assert shown.head[0].startswith("1 replicas (1 running)")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_000_000, "976.6 KiB"),
        (1_048_576, "1.0 MiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**41, "2.0 TiB"),
    ],
)
def test_bytes_are_told_as_people_read_them(amount: float, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (7260, "2h01m")],
)
def test_ages_are_told_as_people_read_them(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_words_are_counted() -> None:
    assert tally(["b", "a", "b"]) == "2 b, 1 a"
    assert tally([]) == ""


def test_one_that_scales_to_zero_is_shown_with_its_sleep_and_its_cost() -> None:
    scaling = {"power": "asleep", "wakes": 2, "billed_seconds": 75.2}
    waking = {**scaling, "power": "waking"}
    shown = picture(
        Watch(),
        status("a", scale_to_zero=scaling),
        status("b", scale_to_zero=waking),
        status("c"),
        status("d", scale_to_zero=scaling, refusing=True),
    ).replicas
    assert column(shown, "state") == [
        Cell("asleep", "dim"),
        Cell("waking", "busy"),
        Cell("running", "good"),
        Cell("refusing", "bad"),
    ]
    assert [cell.text for cell in column(shown, "wakes")] == ["2", "2", "-", "2"]
    assert [cell.text for cell in column(shown, "billed")] == ["1m15s", "1m15s", "-", "1m15s"]


def test_where_none_does_there_is_no_such_column() -> None:
    shown = picture(Watch(), status("a")).replicas
    assert shown is not None
    assert "wakes" not in shown.headings
