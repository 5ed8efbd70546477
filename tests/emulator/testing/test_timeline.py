from __future__ import annotations

from typing import Any

from emulator.events import Event
from emulator.testing.timeline import timeline


def event(at: float, replica: str, kind: str, session: int | None = None, **detail: Any) -> Event:
    return Event(1, at, replica, kind, None, session, detail)


def test_each_thing_has_its_time_its_replica_and_its_words() -> None:
    assert timeline(
        [
            event(10.0, "a", "port_opened", port=9101),
            event(10.25, "a", "upgrade_received", 1, method="GET", path="/v1/stream", query="x=1"),
            event(11.5, "a", "message_sent", 1, type="ltx2_segment_start", segment_idx=0, size_bytes=9),
            event(12.0, "a", "session_closed", 1, code=None),
        ],
        since=10.0,
    ) == [
        "  +0.000 a: takes connections",
        "  +0.250 a session 1: upgrade received GET /v1/stream x=1",
        "  +1.500 a session 1: message sent ltx2_segment_start 0",
        "  +2.000 a session 1: ended without a close frame",
    ]


def test_headers_are_never_told() -> None:
    secret = [["Authorization", "Bearer secret"]]
    assert "secret" not in str(timeline([event(0, "a", "upgrade_received", 1, headers=secret)], since=0))


def test_what_a_replica_does_over_and_over_is_one_line() -> None:
    probe: dict[str, Any] = {"method": "GET", "path": "/readyz", "status": 200}
    lines = timeline(
        [
            event(1, "a", "connection_opened"),
            event(1, "a", "http_answered", **probe),
            event(2, "b", "http_answered", **probe),
            event(3, "a", "connection_closed"),
            event(3, "a", "http_answered", **probe),
            event(4, "a", "state_changed", before="running", after="killed"),
            event(5, "a", "http_answered", **probe),
        ],
        since=0,
    )
    assert lines == [
        "  +1.000 a: http answered GET /readyz 200  (x2)",
        "  +2.000 b: http answered GET /readyz 200",
        "  +4.000 a: running -> killed",
        "  +5.000 a: http answered GET /readyz 200",
    ]


def test_of_a_long_one_the_middle_is_left_out() -> None:
    lines = timeline((event(n, "a", "fault_struck", n, fault="stall") for n in range(100)), since=0, most=11)
    assert len(lines) == 12
    assert lines[0].startswith("  +0.000")
    assert lines[5] == "        ... 89 lines ..."
    assert lines[-1].startswith(" +99.000")
