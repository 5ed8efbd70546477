"""What the next replica is told, so that it goes on where the lost one was."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gateway import errors
from gateway.session.core import (
    Blame,
    Move,
    ToClient,
    ToReplica,
)
from gateway.session.events import Message
from tests.gateway.session.resuming_play import (
    CHUNK,
    ENHANCE,
    EXTEND,
    GO_ON,
    GPU,
    INIT,
    NO_STATE,
    PAUSE,
    QUEUE,
    REJECTED,
    SNAPSHOT,
    START,
    A,
    B,
    C,
    Play,
    begins,
    ending,
    init_with,
    is_done,
    prompt,
    resumed,
    snapshot,
    state,
    step,
)
from tests.gateway.session.stage import text

# 7: what the next replica is told


def test_a_loss_before_the_first_segment_starts_over() -> None:
    play = Play().streams().says(ENHANCE).loses()
    play.attached(B, "b").expect(ToReplica(INIT))
    play.hides(QUEUE).replica(GPU).expect(resumed(0, "b"), ToReplica(ENHANCE))
    play.replica(START).expect(Blame(A)).says(prompt("p")).makes(0)
    assert play.core.resumes == 1
    play.over()


def test_a_loss_before_anything_was_seen_is_not_told() -> None:
    play = Play()
    play.attached(A, "a").expect()
    play.says(INIT, prompt("p")).passes(QUEUE).loses()
    play.attached(B, "b").expect(ToReplica(INIT), ToReplica(prompt("p"))).passes(QUEUE, GPU, START)
    assert play.core.resumes == 0
    play.over()


def test_a_loss_in_mid_segment_begins_the_segment_afresh_under_its_number() -> None:
    play = Play().streams().says(prompt("p"), prompt("q", seed=7)).makes(0)
    play.passes(begins(1, "q"), step(1), CHUNK).loses()
    play.attached(B, "b").expect(init_with(0))
    play.hides(QUEUE).replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("q", seed=7))).hides(START)
    play.replica(begins(0, "q")).expect(ToClient(begins(1, "q")))
    play.replica(step(0)).expect(ToClient(step(1))).passes(CHUNK)
    play.replica(is_done(0)).expect(ToClient(is_done(1)), Blame(A), ToReplica(SNAPSHOT)).hides(snapshot("b"))
    # Numbers stay shifted.
    play.says(prompt("r")).replica(begins(1, "r")).expect(ToClient(begins(2, "r")))
    play.over()


def test_a_loss_between_segments_needs_the_state_only() -> None:
    play = Play().streams().says(prompt("p")).makes(0).loses()
    play.attached(B, "b").expect(init_with(0)).hides(QUEUE)
    play.replica(GPU).expect(resumed(1, "b"))
    # Nothing was asked of it: that it serves is enough to know that the loss was the other's.
    play.replica(START).expect(Blame(A))
    play.says(prompt("q")).replica(begins(0, "q")).expect(ToClient(begins(1, "q"))).over()


def test_a_loss_during_a_snapshot_makes_the_segment_again_and_hides_it() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).passes(begins(0), CHUNK)
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).hides(QUEUE)
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("p")), ToReplica(prompt("q"))).hides(START)
    play.hides(begins(0), step(0), CHUNK, CHUNK)
    play.passes(text("future"))
    play.replica(is_done(0)).expect(ToReplica(SNAPSHOT)).hides(snapshot(0))
    play.passes(begins(1, "q"), CHUNK)
    play.replica(is_done(1)).expect(ToClient(is_done(1)), Blame(A), ToReplica(SNAPSHOT)).over()


def test_a_clients_open_question_is_asked_again_in_its_place() -> None:
    play = Play().streams().says(prompt("p"), prompt("q"), SNAPSHOT, prompt("r")).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0))).passes(begins(1, "q")).loses()
    play.attached(B, "b").expect(ToReplica(INIT))
    again = (prompt("p"), prompt("q"), SNAPSHOT, prompt("r"))
    play.replica(GPU).expect(resumed(1, "b"), *(ToReplica(message) for message in again)).hides(START)
    play.hides(begins(0), is_done(0)).passes(begins(1, "q"))
    play.replica(is_done(1)).expect(ToClient(is_done(1)), Blame(A)).passes(snapshot("s"))
    play.loses().attached(C, "c").expect(init_with("s"))
    play.replica(GPU).expect(resumed(2, "c"), ToReplica(prompt("r"))).over()


def test_an_answered_question_is_not_asked_again() -> None:
    play = Play().streams().says(SNAPSHOT, SNAPSHOT).passes(NO_STATE).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(
        resumed(0, "b"), ToReplica(SNAPSHOT)
    ).over()


def test_the_newest_of_each_toggle_is_said_again_in_the_order_last_set() -> None:
    seeds, more_seeds = (
        text("seed_prompts_updated", seed_prompts=["a"]),
        text("seed_prompts_updated", seed_prompts=[]),
    )
    play = Play().streams().says(prompt("p")).makes(0)
    play.says(
        ENHANCE, seeds, EXTEND, text("loop_generation_updated", enabled=True), more_seeds, ENHANCE
    ).loses()
    play.attached(B, "b").expect(init_with(0))
    play.replica(GPU).expect(
        resumed(1, "b"),
        *map(ToReplica, (EXTEND, text("loop_generation_updated", enabled=True), more_seeds, ENHANCE)),
    ).over()


def test_toggles_that_a_state_covers_come_before_all_else() -> None:
    play = Play().streams().says(PAUSE, GO_ON, prompt("p"), ENHANCE).makes(0).loses()
    play.attached(B, "b").expect(init_with(0), ToReplica(GO_ON), ToReplica(ENHANCE)).over()


def test_a_pause_holds_back_what_had_not_started_and_nothing_else() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).passes(begins(0)).says(PAUSE).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(resumed(0, "b"), ToReplica(prompt("p")))
    # Were the pause said at once, the segment that the client waits for would wait too.
    play.hides(START).replica(begins(0)).expect(ToClient(begins(0)), ToReplica(PAUSE), ToReplica(prompt("q")))
    play.over()


def test_a_pause_that_was_overtaken_by_a_segment_comes_after_it_again() -> None:
    play = Play().streams().says(prompt("p"), PAUSE).passes(begins(0)).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(resumed(0, "b"), ToReplica(prompt("p")))
    play.replica(begins(0)).expect(ToClient(begins(0)), ToReplica(PAUSE)).says(GO_ON).over()


def test_a_pause_said_while_a_replica_catches_up_waits_for_its_place() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).passes(begins(1, "q")).loses()
    play.attached(B, "b").expect(ToReplica(INIT))
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("p")), ToReplica(prompt("q")))
    play.client(PAUSE).expect().client(prompt("r")).expect()
    assert play.core.backlog_bytes > 0
    play.hides(begins(0)).replica(is_done(0)).expect(ToReplica(SNAPSHOT))
    play.replica(begins(1, "q")).expect(ToClient(begins(1, "q")), ToReplica(PAUSE), ToReplica(prompt("r")))
    assert play.core.backlog_bytes == 0
    play.over()


def test_what_the_client_says_during_a_move_waits_in_its_order() -> None:
    play = Play().streams().says(prompt("p")).loses()
    for message in (Message("odd"), prompt("q"), SNAPSHOT, Message(b"x")):
        play.client(message).expect()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(REJECTED).expect(Move("refused"))
    play.attached(C, "c").expect(ToReplica(INIT))
    play.replica(GPU).expect(
        resumed(0, "c"),
        *map(ToReplica, (prompt("p"), prompt("q"), SNAPSHOT, Message("odd"), Message(b"x"))),
    ).over()


def test_a_prompt_that_the_replica_refused_is_not_said_again() -> None:
    invalid = text("error", code="invalid_message", message="prompt is empty", retryable=True)
    play = Play().streams().says(prompt(""), prompt("p")).passes(invalid, begins(0)).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(
        resumed(0, "b"), ToReplica(prompt("p"))
    ).over()


def test_an_error_for_an_unknown_message_costs_no_prompt() -> None:
    invalid = text("error", code="invalid_message", message="unknown type", retryable=True)
    play = Play().streams().says(prompt("p"), text("nonsense")).passes(invalid).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(
        resumed(0, "b"), ToReplica(prompt("p"))
    ).over()


def test_a_segment_that_no_prompt_asked_for_is_asked_for_in_the_next_replica() -> None:
    play = Play(snapshot_every=5).streams(init=text("session_init_v2", auto_extension_enabled=True))
    play.says(prompt("p")).passes(begins(0), is_done(0), begins(1, "its own idea"), is_done(1))
    play.says(prompt("q")).passes(begins(2, "its own idea, too"), CHUNK).loses()
    play.attached(B, "b").expect(ToReplica(text("session_init_v2", auto_extension_enabled=True)))
    play.replica(GPU)
    own = [
        Message(json.dumps({"type": "segment_prompt_source", "prompt": words, "source": "auto_extension"}))
        for words in ("its own idea", "its own idea, too")
    ]
    play.expect(resumed(2, "b"), ToReplica(prompt("p")), *map(ToReplica, own), ToReplica(prompt("q")))
    play.hides(START, begins(0), is_done(0), begins(1, "its own idea"), is_done(1))
    play.passes(begins(2, "its own idea, too"))
    play.replica(is_done(2)).expect(ToClient(is_done(2)), Blame(A)).passes(begins(3, "q")).over()


def test_an_own_segment_before_a_waiting_prompt_does_not_answer_it() -> None:
    play = Play().streams(init=text("session_init_v2", loop_generation_enabled=True))
    play.says(prompt("p")).makes(0, "its own idea").passes(begins(1, "p")).loses()
    play.attached(B, "b").expect(
        ToReplica(text("session_init_v2", loop_generation_enabled=True, continuation_state=state(0)))
    )
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("p"))).over()


def test_a_rewritten_prompt_is_the_next_one() -> None:
    play = Play().streams().says(ENHANCE, prompt("sea")).makes(0, "a sea of glass at dawn").loses()
    play.attached(B, "b").expect(init_with(0), ToReplica(ENHANCE)).replica(GPU).expect(resumed(1, "b")).over()


def in_the_second_segment_after_a_move() -> Play:
    """Its replica counts from 0 again."""
    play = Play().streams().says(prompt("p")).makes(0).loses()
    play.attached(B, "b").expect(init_with(0)).replica(GPU).expect(resumed(1, "b"))
    play.replica(START).expect(Blame(A)).says(prompt("q"))
    play.replica(begins(0, "q")).expect(ToClient(begins(1, "q")))
    return play


@pytest.mark.parametrize("digits", [17, 4_300, 9_000])
def test_a_segment_number_of_any_length_passes_as_it_came_after_a_move(digits: int) -> None:
    play = in_the_second_segment_after_a_move()
    for sign in ("", "-"):
        play.passes(Message(f'{{"type":"step_complete","segment_idx":{sign}{"9" * digits}}}'))
    play.replica(step(0)).expect(ToClient(step(1)))
    play.over()


# How deep a text may be nested to be read depends on how deep the caller is in its own calls.


def in_deeper_calls(act: Callable[[], object], calls: int = 100) -> None:
    if calls:
        in_deeper_calls(act, calls - 1)
    else:
        act()


def nested(kind: str, levels: int, **fields: Any) -> Message:
    said = text(kind, **fields, deep=0).data
    assert isinstance(said, str)
    return Message(said.replace('"deep":0', '"deep":' + "[" * levels + "]" * levels))


def readable_levels() -> int:
    """As many as can be read here with 70 calls to spare."""
    return sys.getrecursionlimit() - len(inspect.stack(0)) - 70


def test_an_init_that_cannot_be_written_again_at_a_move_ends_the_session() -> None:
    init = nested("session_init_v2", readable_levels())
    play = Play().streams(init=init).says(prompt("p")).makes(0)
    assert play.core.resumable
    play.loses()
    in_deeper_calls(lambda: play.attached(B, "b"))
    play.expect(*ending(errors.ReplicaLost(), replica_is_there=True))
    assert play.core.backlog_bytes == 0
    play.client(prompt("late")).expect().replica(GPU).expect().over()


def test_a_message_that_cannot_be_numbered_anew_passes_as_it_came() -> None:
    play = in_the_second_segment_after_a_move()
    numbered = 0
    for levels in range(readable_levels(), sys.getrecursionlimit()):
        commands = play.core.from_replica(nested("step_complete", levels, segment_idx=0))
        numbered += commands == (ToClient(nested("step_complete", levels, segment_idx=1)),)
        assert numbered == levels + 1 - readable_levels() or commands == (
            ToClient(nested("step_complete", levels, segment_idx=0)),
        )
    assert numbered
    play.over()
