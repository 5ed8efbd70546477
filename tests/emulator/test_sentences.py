from __future__ import annotations

from typing import Any

import pytest

from emulator.events import Event
from emulator.sentences import line_for


@pytest.mark.parametrize(
    ("kind", "session", "detail", "line"),
    [
        ("port_filled", None, {}, "b: lets connections hang"),
        ("state_changed", None, {"before": "running", "after": "killed"}, "b: running -> killed"),
        ("fault_armed", None, {"fault": "stall", "seconds": 1}, "b: fault stall set"),
        ("fault_struck", 3, {"fault": "flaky", "way": "abort"}, "b session 3: fault flaky strikes (abort)"),
        ("fault_struck", 3, {"fault": "flaky", "way": "healthy"}, None),
        ("session_closed", 3, {"code": 1000}, "b session 3: closed, code 1000"),
        ("session_closed", 3, {"code": None}, "b session 3: ended without a close frame"),
        ("session_rejected", 3, {"capacity": 4}, "b session 3: rejected, all 4 places are taken"),
        ("message_sent", 3, {"type": "error"}, None),
        ("upgrade_received", 3, {"headers": [["Authorization", "Bearer secret"]]}, None),
    ],
)
def test_events_worth_a_look_are_one_line(
    kind: str, session: int | None, detail: dict[str, Any], line: str | None
) -> None:
    assert line_for(Event(1, 0.0, "b", kind, 1, session, detail)) == line
