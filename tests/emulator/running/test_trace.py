"""The trace: what stays of a play when chance and the clock are taken out."""

from __future__ import annotations

import json
from typing import Any

from emulator.running.seen import Attempt, Ending
from emulator.running.trace import trace_of
from tests.emulator.running.build import (
    attempt,
    event,
    media_hash,
    message,
    opening,
    played,
    scenario,
    seen,
    segment,
    upgrade,
)

ONE = "replicas: {count: 2}\nseed: 4\nsessions: [{name: s, count: 2}]"
RESUMED = message("session_resumed", segment_idx=0, replica="b")
CLOSED = Ending(1000, "", "client")


def facts(text: str, *attempts: Attempt, events: Any = ()) -> list[dict[str, Any]]:
    of = scenario(text)
    lines = trace_of(played(of, seen(of, "s1", *attempts), events=events), passed=True)
    found = [json.loads(line) for line in lines]
    assert all(fact.pop("scenario") == "test" for fact in found)
    return found


def of_session(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the client saw of its first connection."""
    return [fact for fact in found if fact.get("connection") == 1]


def test_it_begins_with_the_seed_and_the_verdict() -> None:
    assert facts(ONE)[0] == {"seed": 4, "passed": True}


def test_a_finished_segment_stands_with_its_hash() -> None:
    found = of_session(facts(ONE, attempt([*opening(), *segment(0, "a gull")], ending=CLOSED)))
    head = {"session": "s1", "connection": 1}
    assert found == [
        {**head, "saw": "opened", "subprotocol": None},
        {**head, "saw": "queue_status"},
        {**head, "saw": "gpu_assigned"},
        {**head, "saw": "ltx2_stream_start"},
        {
            **head,
            "saw": "segment",
            "number": 0,
            "prompt": "a gull",
            "steps": 1,
            "chunks": 2,
            "sha256": media_hash(),
        },
        {**head, "saw": "the end", "code": 1000, "reason": "", "by": "client"},
    ]


def test_how_far_an_interrupted_segment_had_come_leaves_no_trace() -> None:
    whole = list(segment(0, complete=False))
    traces = [
        facts(ONE, attempt([*opening(), *whole[:cut], RESUMED, *segment(0)])) for cut in range(len(whole))
    ]
    assert all(trace == traces[0] for trace in traces)
    assert {
        "session": "s1",
        "connection": 1,
        "saw": "session_resumed",
        "segment": 0,
        "replica": "b",
    } in traces[0]


def test_places_in_a_queue_leave_one_line() -> None:
    waits = [message("queue_status", position=place, queue_depth=3) for place in (2, 1, 0)]
    found = of_session(facts(ONE, attempt([*waits, *opening()])))
    assert [fact["saw"] for fact in found] == ["opened", "queue_status", "gpu_assigned", "ltx2_stream_start"]


def test_a_session_that_never_opened_is_told_too() -> None:
    found = facts(ONE, Attempt(0.0, status=503))
    assert {"session": "s1", "connection": 1, "saw": "no session", "status": 503} in found
    assert {"session": "s2", "saw": "nothing"} in found


def test_a_step_is_told_with_whether_it_came() -> None:
    of = scenario(f"{ONE}\ntimeline: [{{at: 1s, kill: a}}, {{at: 2s, restart: a}}]")
    came = played(of)
    came.waiting_steps = [2]
    steps = [json.loads(line) for line in trace_of(came, passed=False) if '"step"' in line]
    assert [(step["does"], step["done"]) for step in steps] == [("kill a", True), ("restart a", False)]


def test_a_replicas_sessions_stand_in_the_order_of_the_scenario() -> None:
    """Whichever of two came first."""

    def events(first: str, second: str) -> Any:
        return [
            upgrade("b", 1, first),
            event("b", "session_opened", 1),
            upgrade("b", 2, second),
            event("b", "session_opened", 2),
        ]

    assert facts(ONE, events=events("s1", "s2")) == facts(ONE, events=events("s2", "s1"))


def test_what_a_replica_got_after_its_last_finished_segment_leaves_no_trace() -> None:
    got = ["session_init_v2", "segment_prompt_source", "snapshot_state", "segment_prompt_source"]
    sent = [
        "gpu_assigned",
        "ltx2_segment_start",
        "ltx2_segment_complete",
        "ltx2_segment_start",
        "step_complete",
    ]
    events = [
        upgrade("a", 1, "s1"),
        *(event("a", "message_received", 1, type=kind, size_bytes=1) for kind in got),
        *(event("a", "message_sent", 1, type=kind, size_bytes=1) for kind in sent),
        event("a", "http_answered", None, method="GET", path="/readyz", status=200),
        event("a", "state_changed", None, before="running", after="killed"),
    ]
    found = [fact for fact in facts(ONE, events=events) if fact.get("replica") == "a"]
    assert found == [
        {"replica": "a", "saw": "it is killed"},
        {"replica": "a", "session": "s1", "saw": "upgrade", "path": "/v1/stream", "query": ""},
        {
            "replica": "a",
            "session": "s1",
            "received": ["session_init_v2", "segment_prompt_source"],
            "sent": ["gpu_assigned", "ltx2_segment_complete"],
        },
    ]
