"""What is held against what: tables of expectations, each with what is said when it does not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import pytest

from emulator.running.judge import findings
from emulator.running.seen import Attempt, Ending, GatewaySeen, StatusSeen
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

CLOSED = Ending(1000, "", "client")
LOST = Ending(1011, "replica_lost", "gateway")
WHOLE = [*opening(), *segment(0), *segment(1)]
FAILED = message("error", code="worker_failed", message="m", retryable=True)
RESUMED = message("session_resumed", segment_idx=1, replica="b")
MOVED = [*opening(), *segment(0), *segment(1, complete=False), RESUMED]


def judged(expected: str, *attempts: Attempt, hashes: Sequence[str] | None = None, **more: Any) -> list[str]:
    """What is found of one session `s` with two prompts."""
    of = scenario(
        "replicas: {count: 2}\nsessions: [{name: s, prompts: 2}]\nexpect: {sessions: {s: " + expected + "}}"
    )
    undisturbed = {} if hashes is None else {"s": hashes}
    return findings(played(of, seen(of, "s", *attempts), **more), undisturbed)


@pytest.mark.parametrize(
    ("expected", "made", "said"),
    [
        ("{opened: true}", attempt([]), None),
        ("{opened: false}", attempt([]), "was opened, expected it not to be"),
        ("{opened: true}", Attempt(0.0, status=503), "was not opened (HTTP 503), expected it to be"),
        ("{refused: 503}", Attempt(0.0, status=503), None),
        ("{refused: [502, 503]}", Attempt(0.0, status=503), None),
        ("{refused: 401}", Attempt(0.0, status=503), "was refused with HTTP 503, expected HTTP 401"),
        ("{refused: 401}", attempt([]), "was not refused, expected HTTP 401"),
        ("{refused: 401}", Attempt(0.0, fault="Boom"), "had no HTTP answer (Boom), expected HTTP 401"),
        ("{refused: none}", Attempt(0.0, status=503), "was refused with HTTP 503, expected no refusal"),
        ("{connects: 1}", attempt([]), None),
        ("{connects: 2}", attempt([]), "upgrades tried: 1, expected exactly 2"),
        ("{subprotocol: ''}", attempt([]), None),
        ("{subprotocol: v2}", attempt([], subprotocol="v1"), "subprotocol 'v1', expected 'v2'"),
        ("{messages: {gpu_assigned: 1, binary: 6, other: none}}", attempt(WHOLE), None),
        ("{messages: {gpu_assigned: none}}", attempt(WHOLE), "messages gpu_assigned: 1, expected none"),
        ("{messages: {other: 1}}", attempt(["{}"]), None),
        ("{order: [gpu_assigned, binary, ltx2_segment_complete]}", attempt(WHOLE), None),
        (
            "{order: [ltx2_stream_start, gpu_assigned]}",
            attempt([*opening()]),
            "messages came as queue_status, gpu_assigned, ltx2_stream_start,"
            " expected in this order: ltx2_stream_start, gpu_assigned",
        ),
        ("{segments: all}", attempt(WHOLE), None),
        ("{segments: all}", attempt(MOVED), "1 segment of 2 complete"),
        ("{segments: {at_least: 2}}", attempt(MOVED), "complete segments: 1, expected at least 2"),
        ("{gaps: none}", attempt([*MOVED, *segment(1)]), None),
        (
            "{gaps: none}",
            attempt([*opening(), *segment(1)][:4]),
            "not as the protocol has it: segment 1 starts, 0 are complete (message 4)",
        ),
        ("{resumed: 1}", attempt(MOVED), None),
        ("{resumed: none}", attempt(MOVED), "messages session_resumed: 1, expected none"),
        ("{errors: none}", attempt(WHOLE), None),
        ("{errors: none}", attempt([FAILED]), "errors: worker_failed (1), expected none"),
        ("{errors: some}", attempt(WHOLE), "errors: none, expected some"),
        ("{errors: [worker_failed]}", attempt([FAILED]), None),
        ("{errors: [gpu_unavailable]}", attempt([]), "errors gpu_unavailable: 0, expected at least 1"),
        (
            "{errors: {gpu_unavailable: none}}",
            attempt([FAILED]),
            "errors: worker_failed, expected only gpu_unavailable",
        ),
        ("{retryable: true}", attempt([FAILED]), None),
        ("{retryable: false}", attempt([FAILED]), "error worker_failed: retryable true, expected false"),
        ("{close: 1000}", attempt([], ending=CLOSED), None),
        ("{close: [1000, 1011]}", attempt([], ending=LOST), None),
        (
            "{close: 1000}",
            attempt([], ending=LOST),
            "close 1011 'replica_lost' by the gateway, expected close 1000",
        ),
        (
            "{close: {code: 1011, reason: queue_full}}",
            attempt([], ending=LOST),
            "close 1011 'replica_lost' by the gateway, expected close 1011 'queue_full'",
        ),
        (
            "{close: {by: client}}",
            attempt([], ending=LOST),
            "close 1011 'replica_lost' by the gateway, expected a close by the client",
        ),
        (
            "{close: 1012}",
            attempt([], ending=Ending(1006, "", "gateway")),
            "no close frame (1006) by the gateway, expected close 1012",
        ),
        ("{close: none}", attempt([], ending=CLOSED), None),
        ("{close: none}", attempt([], ending=LOST), "close 1011 'replica_lost', expected none"),
        ("{close: 1000}", Attempt(0.0, status=503), "was not open in the end, expected close 1000"),
        ("{first_message_within: 1s}", attempt([], first_message_at=0.5), None),
        (
            "{first_message_within: 1s}",
            attempt([], first_message_at=1.5),
            "the first message came after 1.5 s, expected it within 1 s",
        ),
        ("{first_message_within: 1s}", attempt([]), "the first message never came, expected it within 1 s"),
        (
            "{silence_within: 1s}",
            attempt([], silence_seconds=2.0),
            "2.0 s without a message, expected at most 1 s",
        ),
        (
            "{ended_within: 1s}",
            attempt([], ended_at=2.0),
            "the end came after 2.0 s, expected it within 1 s",
        ),
    ],
)
def test_a_session_is_held_against_what_is_expected(expected: str, made: Attempt, said: str | None) -> None:
    assert judged(expected, made) == ([] if said is None else [f"session s: {said}"])


def test_media_is_compared_with_an_undisturbed_session() -> None:
    expected = "{media: undisturbed}"
    assert judged(expected, attempt(WHOLE), hashes=[media_hash(), media_hash()]) == []
    assert judged(expected, attempt(WHOLE), hashes=[media_hash(), "else"]) == [
        "session s: the media of segment 1 differs from that of an undisturbed session"
    ]


def test_segments_of_a_later_connection_follow_those_of_the_first() -> None:
    first = attempt([*opening(), *segment(0)], ending=Ending(1006, "", "gateway"))
    second = attempt([*opening(), *segment(0)], ending=CLOSED, base=1)
    assert judged("{segments: all, gaps: none, close: 1000, connects: 2}", first, second) == []


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("{served_by: [a, b]}", None),
        ("{served_by: ['*', b]}", None),
        ("{served_by: [a]}", "served by a, then b, expected a"),
        ("{moves: 1}", None),
        ("{moves: none}", "moves to another replica: 1, expected none"),
    ],
)
def test_where_a_session_was_is_told_by_the_replicas(expected: str, said: str | None) -> None:
    events = [
        upgrade("a", 1, "other"),
        event("a", "session_opened", 1),
        upgrade("a", 2, "s"),
        event("a", "session_opened", 2),
        upgrade("b", 1, "s"),
        event("b", "session_opened", 1),
    ]
    found = judged(expected, attempt([]), events=events)
    assert found == ([] if said is None else [f"session s: {said}"])


EVENTS = [
    upgrade("a", 1, "s", query="room=1"),
    event("a", "session_opened", 1),
    event("a", "message_received", 1, type="session_init_v2", size_bytes=1),
    event("a", "binary_received", 1, size_bytes=1),
    event("a", "fault_struck", 1, fault="abort"),
    event("a", "close_received", 1, code=1001, reason=""),
    event("a", "session_closed", 1, code=1001),
    event("a", "http_answered", None, method="GET", path="/readyz", status=200),
    event("a", "woken", None),
]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("{sessions: 1, at_once: 1, upgrades: 1, rejected: none, probes: 1, wakes: 1}", None),
        ("{wakes: {at_least: 2}}", "wakes: 1, expected at least 2"),
        ("{sessions: 2}", "sessions: 1, expected exactly 2"),
        ("{messages: {session_init_v2: 1, binary: 1}}", None),
        ("{order: [session_init_v2, binary]}", None),
        (
            "{order: [binary, session_init_v2]}",
            "no session with messages in this order: binary, session_init_v2",
        ),
        ("{saw: {close_received: 1}}", None),
        ("{closes: {1001: 1}}", None),
        ("{closes: {1000: 1}}", "closes with 1000: 0, expected exactly 1"),
        ("{headers: {host: x, cookie: null}}", None),
        ("{headers: {Host: y}}", "upgrade 1: header Host is 'x', expected 'y'"),
        ("{headers: {Cookie: '*'}}", "upgrade 1: header Cookie is not there, expected '*'"),
        ("{headers: {Host: null}}", "upgrade 1: header Host is 'x', expected none such"),
        ("{path: /v1/stream, query: room=1}", None),
        ("{query: ''}", "upgrade 1: query 'room=1', expected ''"),
    ],
)
def test_a_replica_is_held_against_what_is_expected(expected: str, said: str | None) -> None:
    of = scenario("replicas: {count: 1, scale_to_zero: {}}\nexpect: {replicas: {a: " + expected + "}}")
    assert findings(played(of, events=EVENTS), {}) == ([] if said is None else [f"replica a: {said}"])


def test_the_most_sessions_at_once_are_counted_over_a_kill() -> None:
    events = [
        event("a", "session_opened", 1),
        event("a", "session_opened", 2),
        event("a", "state_changed", None, before="running", after="killed"),
        event("a", "session_opened", 3),
    ]
    of = scenario("replicas: {count: 1}\nexpect: {replicas: {a: {at_once: 2, sessions: 3}}}")
    assert findings(played(of, events=events), {}) == []


def test_replicas_may_be_counted_as_one() -> None:
    events = [
        event("a", "session_opened", 1),
        event("b", "session_opened", 1),
        event("a", "state_changed", None, before="running", after="killed"),
        event("b", "session_opened", 2),
    ]
    fits = scenario('expect: {replicas: {"*": {together: true, at_once: 2, sessions: 3}}}')
    assert findings(played(fits, events=events), {}) == []
    wrong = scenario('replicas: {count: 2}\nexpect: {replicas: {"*": {together: true, sessions: 2}}}')
    assert findings(played(wrong, events=events), {}) == ["replicas a, b: sessions: 3, expected exactly 2"]


@pytest.mark.parametrize(
    ("how_many", "said"),
    [
        ("1", None),
        (
            "2",
            "sessions s*: 1 session of 2 as expected, not exactly 2"
            " (s2: close 1011 'replica_lost' by the gateway, expected close 1000)",
        ),
    ],
)
def test_some_of_several_sessions_may_have_to_fit(how_many: str, said: str | None) -> None:
    of = scenario(
        "sessions: [{name: s, count: 2}]\n"
        f"expect: {{sessions: {{'s*': {{how_many: {how_many}, close: 1000}}}}}}"
    )
    sessions = [
        seen(of, "s1", attempt([], ending=CLOSED)),
        seen(of, "s2", attempt([], ending=LOST)),
    ]
    assert findings(played(of, *sessions), {}) == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("expected", "gateway", "said"),
    [
        ("", GatewaySeen(started=True), None),
        (
            "",
            GatewaySeen(started=True, ended_at=2.0, returncode=3),
            "gateway: ended with status 3 after 2.0 s, expected it to run on",
        ),
        ("exit: 0", GatewaySeen(started=True, signalled_at=1.0, ended_at=2.0, returncode=0), None),
        (
            "exit: 0",
            GatewaySeen(started=True, signalled_at=1.0, ended_at=2.0, returncode=1),
            "gateway: ended with status 1, expected 0",
        ),
        (
            "exit: 0",
            GatewaySeen(started=True, signalled_at=1.0),
            "gateway: still ran 10 s after its signal, expected it to end",
        ),
    ],
)
def test_the_gateways_process_is_looked_at(expected: str, gateway: GatewaySeen, said: str | None) -> None:
    text = "timeline: [{at: 1s, gateway: SIGTERM}]\nexpect: {gateway: {" + expected + "}}"
    of = scenario(text)
    came = played(of)
    came.gateway = gateway
    assert findings(came, {}) == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (StatusSeen(held=True, last={"a": "unhealthy"}), None),
        (StatusSeen(last={"a": "healthy"}), "status: a healthy, expected a unhealthy within 5 s"),
        (StatusSeen(), "status: nothing was said of the replicas, expected a unhealthy within 5 s"),
    ],
)
def test_what_the_gateway_says_of_its_replicas_is_looked_at(status: StatusSeen, said: str | None) -> None:
    of = scenario("expect: {status: {replicas: {a: unhealthy}}}")
    came = played(of)
    came.statuses = [status]
    assert findings(came, {}) == ([] if said is None else [said])


def test_what_never_came_is_told_whatever_is_expected() -> None:
    of = scenario(
        textwrap.dedent("""\
            sessions: [{name: s}, {name: late, at: 1s}]
            expect: {sessions: {late: {opened: true}}}
            """)
    )
    came = played(of, seen(of, "s", attempt([]), through=False))
    came.overran = True
    came.waiting = ["step 1 (kill a) at 2 s"]
    assert findings(came, {}) == [
        "not through within 60 s, its deadline; sessions not through: s",
        "step 1 (kill a) at 2 s: never came",
        "session late: was never opened",
    ]
