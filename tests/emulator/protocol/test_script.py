from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from emulator import media
from emulator.protocol import script
from emulator.protocol.actions import (
    Action,
    AwaitMedia,
    BeginMedia,
    Close,
    Drop,
    Reach,
    Send,
    SendMedia,
    Wait,
)
from emulator.protocol.messages import (
    ContinuationStateSnapshot,
    ErrorMessage,
    Ltx2SegmentStart,
    MediaInit,
    type_of,
)
from emulator.protocol.script import Generation, Session

QUICK = Generation(segment_seconds=0, steps=2, chunks=2, chunk_bytes=16)
OPENING = ["queue_status", "gpu_assigned", "ltx2_stream_start"]
SEGMENT = [
    "ltx2_segment_start",
    "step_complete",
    "step_complete",
    "media_init",
    "bytes",
    "bytes",
    "bytes",
    "media_segment_complete",
    "ltx2_segment_complete",
]


def prompt(text: str = "p", **fields: Any) -> dict[str, Any]:
    return {"type": "segment_prompt_source", "prompt": text, **fields}


def say(session: Session, *messages: Any) -> list[Action]:
    """Feed all messages, then walk the answers."""
    for message in messages:
        session.receive(message if isinstance(message, (str, bytes)) else json.dumps(message))
    return list(session.answers())


def shape(actions: list[Action]) -> list[Any]:
    """The actions by their types; waits left out."""
    found: list[Any] = []
    for action in actions:
        match action:
            case Send(message=ErrorMessage(code=code, retryable=retryable)):
                found.append((code, retryable))
            case Send(message=message):
                found.append(type_of(message))
            case SendMedia():
                found.append("bytes")
            case Close(code=code, reason=reason):
                found.append((code, reason))
            case Drop():
                found.append("drop")
            case _:
                pass
    return found


def opened(generation: Generation = QUICK, **fields: Any) -> Session:
    session = Session(generation)
    assert shape(say(session, {"type": "session_init_v2", **fields})) == OPENING
    return session


SNAPSHOT = {"type": "snapshot_state"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([prompt()], SEGMENT),
        ([prompt(), prompt()], SEGMENT + SEGMENT),
        ([SNAPSHOT], [("internal_error", False)]),
        ([prompt(), SNAPSHOT], [*SEGMENT, "continuation_state_snapshot"]),
        ([{"type": "nonsense"}, SNAPSHOT], [("invalid_message", True), ("internal_error", False)]),
        ([[]], [("invalid_message", True)]),
        ([{"type": "session_init_v2"}], [("invalid_message", True)]),
        ([{"type": "enhancement_updated", "enabled": True}], []),
        (["not json", prompt()], ["ltx2_stream_complete", "drop"]),
        ([b"binary"], ["ltx2_stream_complete", "drop"]),
    ],
)
def test_an_open_session_answers_in_the_order_of_arrival(messages: list[Any], expected: list[Any]) -> None:
    assert shape(say(opened(), *messages)) == expected


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("not json", ["drop"]),
        (b"binary", ["drop"]),
        (SNAPSHOT, [("invalid_message", False), (1003, "expected_session_init_v2")]),
        (
            {"type": "enhancement_updated", "enabled": True},
            [("invalid_message", False), (1003, "expected_session_init_v2")],
        ),
        ({"type": "nonsense"}, [("invalid_message", False), (1003, "expected_session_init_v2")]),
        (
            {"type": "session_init_v2", "continuation_state": "x"},
            [("invalid_message", False), (1003, "expected_session_init_v2")],
        ),
    ],
)
def test_an_opening_message_that_is_none_ends_the_session(first: Any, expected: list[Any]) -> None:
    session = Session(QUICK)
    assert shape(say(session, first)) == expected
    assert say(session, {"type": "session_init_v2"}) == []


def test_a_pause_holds_back_prompts_and_nothing_else() -> None:
    session = opened()
    pause = {"type": "generation_paused_updated", "paused": True}
    assert shape(say(session, pause, prompt("1"), prompt("2"), SNAPSHOT)) == [("internal_error", False)]
    go_on = {"type": "generation_paused_updated", "paused": False}
    starts = [
        a.message.prompt for a in say(session, go_on) if isinstance(a, Send) and hasattr(a.message, "prompt")
    ]
    assert starts == ["1", "2"]


def test_a_paused_session_takes_a_bounded_number_of_prompts_and_can_still_be_resumed() -> None:
    session = opened()
    pause = {"type": "generation_paused_updated", "paused": True}
    over = script.MAX_BACKLOG + 3
    answers = say(session, pause, *[prompt()] * over)
    assert shape(answers) == [("invalid_message", True)] * 3
    assert not session.is_full


def test_a_session_with_much_unanswered_asks_not_to_be_read() -> None:
    session = opened()
    for _ in range(script.MAX_BACKLOG):
        session.receive(json.dumps(SNAPSHOT))
    assert session.is_full
    assert len(shape(list(session.answers()))) == script.MAX_BACKLOG
    assert not session.is_full


def test_a_segment_that_was_cut_short_never_happened() -> None:
    session = opened()
    session.receive(json.dumps(prompt()))
    walk = session.answers()
    while not isinstance(next(walk), SendMedia):
        pass
    assert (session.segment_idx, session.state) == (0, None)


def test_a_given_state_is_returned_until_a_segment_replaces_it() -> None:
    given_state = {"kind": "ltx2.v1", "payload": {"schema_version": 1, "segment_index": 3}}
    session = opened(continuation_state=given_state)
    *_, before = say(session, SNAPSHOT)
    assert isinstance(before, Send)
    assert isinstance(before.message, ContinuationStateSnapshot)
    assert before.message.state.payload == given_state["payload"]
    *_, after = say(session, prompt("p"), SNAPSHOT)
    assert isinstance(after, Send)
    assert isinstance(after.message, ContinuationStateSnapshot)
    assert after.message.state.payload["segment_index"] == 0
    assert after.message.state.payload["source_prompt"] == "p"


@pytest.mark.parametrize(
    ("asked", "steps"), [(None, 2), (0, 2), (1, 1), (7, 7), (-4, 1), (10**9, script.MAX_STEPS)]
)
def test_the_number_of_steps_is_the_prompts_within_bounds(asked: int | None, steps: int) -> None:
    answers = say(opened(), prompt(num_inference_steps=asked))
    assert shape(answers).count("step_complete") == steps


@given(st.floats(0, 100), st.integers(1, 50), st.integers(1, 20))
def test_a_segment_takes_the_time_it_is_told_to(seconds: float, steps: int, chunks: int) -> None:
    session = opened(Generation(segment_seconds=seconds, steps=steps, chunks=chunks, chunk_bytes=1))
    waits = sum(action.seconds for action in say(session, prompt()) if isinstance(action, Wait))
    assert waits == pytest.approx(seconds)


def test_a_segment_cap_ends_the_session() -> None:
    session = opened(Generation(segment_seconds=0, steps=2, chunks=2, segment_cap=1))
    assert shape(say(session, prompt(), prompt())) == [
        *SEGMENT,
        "ltx2_stream_complete",
        (1000, "segment_cap"),
    ]


def test_silence_ends_the_session_in_band() -> None:
    assert shape(list(opened().time_out())) == ["session_timeout", (1000, "session_timeout")]


def test_a_session_too_many_is_told_so() -> None:
    assert shape(list(script.rejection(1))) == [("session_rejected", False), (1013, "session_rejected")]


def test_the_picture_is_not_kept() -> None:
    session = opened(initial_image={"data": "x" * 1000})
    assert session.init is not None
    assert session.init.initial_image is None


def test_legacy_mode_announces_pictures() -> None:
    answers = say(opened(stream_mode="legacy_jpeg"), prompt())
    modes = [a.message.mode for a in answers if isinstance(a, Send) and hasattr(a.message, "mode")]
    assert modes == ["legacy_jpeg"]


@pytest.mark.parametrize(
    "fields", [{"segment_seconds": -1}, {"steps": 0}, {"chunks": 0}, {"session_timeout_seconds": 0}]
)
def test_an_impossible_pace_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Generation(**fields)


def starts(found: list[Action]) -> list[str]:
    return [
        a.message.prompt for a in found if isinstance(a, Send) and isinstance(a.message, Ltx2SegmentStart)
    ]


def extended(session: Session, count: int) -> list[str]:
    """The prompts of the next `count` segments that the session makes."""
    found: list[str] = []
    for action in session.answers():
        found += starts([action])
        if isinstance(action, Reach) and action.point == "segment_end" and len(found) == count:
            break
    return found


EXTEND = {"type": "auto_extension_updated", "enabled": True}


def test_a_session_with_a_past_goes_on_by_itself_while_it_is_told_to() -> None:
    session = opened(auto_extension_enabled=True)
    assert say(session) == [], "without a past there is nothing to extend"
    session.receive(json.dumps(prompt("the user's")))
    prompts = extended(session, 4)
    assert prompts[0] == "the user's"
    assert len(set(prompts)) == 4
    assert starts(say(session, {**EXTEND, "enabled": False}, prompt("last"))) == ["last"]


def test_what_a_session_thinks_of_by_itself_depends_on_its_past_alone() -> None:
    one, other = opened(), opened()
    for session in (one, other):
        say(session, prompt("p"))
        session.receive(json.dumps(EXTEND))
    assert extended(one, 3) == extended(other, 3)
    continued = opened(continuation_state=to_builtins(one.state))
    continued.receive(json.dumps(EXTEND))
    assert extended(continued, 2) == extended(one, 2)


def test_what_is_waiting_comes_before_an_extension() -> None:
    session = opened(auto_extension_enabled=True)
    session.receive(json.dumps(prompt("1")))
    walk = session.answers()
    for action in walk:
        if isinstance(action, Reach) and action.point == "segment_end":
            break
    assert next(walk) == Wait(QUICK.extension_seconds), "it thinks"
    session.receive(json.dumps(prompt("2")))
    assert starts([next(walk)]) == ["2"]


def test_a_paused_session_does_not_extend() -> None:
    session = opened(auto_extension_enabled=True)
    session.receive(json.dumps(prompt("1")))
    extended(session, 1)
    assert say(session, {"type": "generation_paused_updated", "paused": True}) == []


def test_the_places_of_a_segment_are_told_in_order() -> None:
    reached = [a for a in say(opened(), prompt("p"), SNAPSHOT) if isinstance(a, Reach)]
    assert reached == [
        Reach("segment_start", 0, "p"),
        Reach("segment", 0),
        Reach("segment_end", 0),
        Reach("snapshot", 1),
    ]


def test_the_same_segment_has_another_stream_id_in_another_session() -> None:
    def stream_ids(name: str) -> list[str]:
        session = Session(QUICK, name)
        found = say(session, {"type": "session_init_v2"}, prompt("p"))
        return [
            a.message.stream_id for a in found if isinstance(a, Send) and isinstance(a.message, MediaInit)
        ]

    assert stream_ids("a:1") != stream_ids("b:1")


# Real video

VIDEO = Generation(segment_seconds=0, steps=1, chunks=2, width=64, height=64, media="mp4")
MADE = media.Segment(b"init", (b"one", b"two"), "0" * 64, mime="video/mp4; codecs=x")


def test_real_video_is_begun_before_the_steps_and_awaited_after_them() -> None:
    session = opened(VIDEO)
    session.receive(json.dumps(prompt("a pier", seed=4)))
    walked: list[Any] = []
    for action in session.answers():
        if isinstance(action, AwaitMedia):
            session.deliver(MADE)
        walked.append(action)
    kinds = [type(action) for action in walked if not isinstance(action, (Wait, Reach))]
    assert kinds == [Send, BeginMedia, Send, AwaitMedia, Send, *[SendMedia] * 3, Send, Send]
    (order,) = [action.order for action in walked if isinstance(action, BeginMedia)]
    assert order == media.Order(
        media.digest_of(None), "a pier", 4, number=0, chunks=2, picture=media.Picture(64, 64)
    )
    assert [action.data for action in walked if isinstance(action, SendMedia)] == [b"init", b"one", b"two"]
    (announced,) = [a.message for a in walked if isinstance(a, Send) and isinstance(a.message, MediaInit)]
    assert announced.mime == MADE.mime


def test_the_number_in_the_picture_goes_on_where_the_state_stands() -> None:
    state = media.state_after("a" * 64, segment_idx=0, prompt="p", made=7)
    session = opened(VIDEO, continuation_state=to_builtins(state))
    session.receive(json.dumps(prompt()))
    (begun,) = [action for action in itertools.islice(session.answers(), 3) if isinstance(action, BeginMedia)]
    assert (begun.order.digest, begun.order.number) == ("a" * 64, 7)


def test_a_watermark_says_whose_it_is() -> None:
    for watermark, said in ((True, "b"), (False, "")):
        session = Session(replace(VIDEO, watermark=watermark), "b:1", "b")
        say(session, {"type": "session_init_v2"})
        session.receive(json.dumps(prompt()))
        (begun,) = [a for a in itertools.islice(session.answers(), 3) if isinstance(a, BeginMedia)]
        assert begun.order.watermark == said


def test_video_that_nobody_delivered_is_a_defect() -> None:
    session = opened(VIDEO)
    session.receive(json.dumps(prompt()))
    with pytest.raises(RuntimeError, match="not delivered"):
        list(session.answers())
