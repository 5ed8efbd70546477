from __future__ import annotations

from typing import Any

from emulator.control.sessions import Sessions
from emulator.events import EventLog


def told(*events: tuple[str, str, int, dict[str, Any]]) -> Sessions:
    """After these events: replica, kind, number of connection and session, detail."""
    log, sessions = EventLog(), Sessions()
    log.subscribe(sessions.take)
    for at, (replica, kind, number, detail) in enumerate(events):
        session = None if kind.startswith(("connection", "state")) else number
        connection = None if kind.startswith("state") else number
        log.record(replica, kind, at=float(at), connection=connection, session=session, detail=detail)
    return sessions


def asked(replica: str, number: int, path: str = "/v1/stream", query: str = "") -> Any:
    return (replica, "upgrade_received", number, {"path": path, "query": query})


def opened(replica: str, number: int) -> Any:
    return (replica, "session_opened", number, {})


def test_a_session_is_open_from_its_place_to_its_end() -> None:
    assert told(asked("a", 1)).open() == []
    (shown,) = told(asked("a", 1, query="x=1"), opened("a", 1)).open()
    assert (shown.replica, shown.session, shown.opened_at, shown.path) == ("a", 1, 1.0, "/v1/stream?x=1")
    assert told(asked("a", 1), opened("a", 1), ("a", "session_closed", 1, {})).open() == []


def test_what_goes_both_ways_is_counted() -> None:
    (shown,) = told(
        asked("a", 1),
        opened("a", 1),
        ("a", "message_received", 1, {"size_bytes": 9}),
        ("a", "binary_received", 1, {"size_bytes": 9}),
        ("a", "message_sent", 1, {"size_bytes": 10, "type": "ltx2_segment_start"}),
        ("a", "binary_sent", 1, {"size_bytes": 100}),
    ).open()
    assert (shown.received, shown.sent, shown.sent_bytes, shown.segments) == (2, 2, 110, 1)


def test_a_killed_replica_has_no_sessions_and_others_keep_theirs() -> None:
    both = [asked("a", 1), opened("a", 1), asked("b", 1), opened("b", 1)]
    killed = told(*both, ("a", "state_changed", 0, {"before": "running", "after": "killed"}))
    assert [shown.replica for shown in killed.open()] == ["b"]
    assert killed.open("a") == []
    paused = told(*both, ("a", "state_changed", 0, {"before": "running", "after": "paused"}))
    assert len(paused.open()) == 2


def test_what_never_had_a_place_is_forgotten_with_its_connection() -> None:
    refused = told(asked("a", 1), ("a", "connection_closed", 1, {}))
    assert refused.open() == []
    assert refused == Sessions()
    assert told(asked("a", 1), ("a", "session_rejected", 1, {})) == Sessions()
