"""What passes, what is asked and kept back, what is a loss and what a refusal."""

from __future__ import annotations

import pytest

from gateway import errors
from gateway.session.core import (
    Blame,
    End,
    Move,
    Side,
    ToClient,
    ToReplica,
)
from gateway.session.events import Closed, Message, Ping
from tests.gateway.session.resuming_play import (
    ABORT,
    CHUNK,
    ENHANCE,
    GPU,
    INIT,
    LOST,
    NO_STATE,
    PAUSE,
    QUEUE,
    REJECTED,
    SNAPSHOT,
    START,
    WORKER_FAILED,
    A,
    B,
    C,
    D,
    Play,
    begins,
    ending,
    init_with,
    is_done,
    prompt,
    resumed,
    snapshot,
)
from tests.gateway.session.stage import text

# 1 and 3: messages pass as they came


def test_an_undisturbed_session_passes_as_it_came_but_for_our_questions() -> None:
    play = Play().streams()
    play.says(prompt("p"), ENHANCE, PAUSE, Message('{ "type" : "unknown" }')).makes(0)
    play.says(Message(b"binary"), Message("not json"), Message("[1]"))
    play.passes(text("future", x=1), Message("not json"), Message('{"type":5}'), Message("[]"))
    play.client(Ping()).expect().replica(Ping()).expect()
    play.replica(Closed(1000, "bye")).expect(
        ToClient(Closed(1000, "bye")), End(Side.REPLICA, 1000, "bye")
    ).over()


def test_what_the_client_says_before_it_has_a_replica_is_said_to_the_first() -> None:
    play = Play()
    for message in (INIT, prompt("p"), ENHANCE, SNAPSHOT, Message("odd")):
        play.client(message).expect()
    assert play.core.backlog_bytes > 0
    play.attached(A, "a").expect(
        *(ToReplica(message) for message in (INIT, prompt("p"), ENHANCE, SNAPSHOT, Message("odd")))
    )
    assert play.core.backlog_bytes == 0
    # The question was the client's: it gets its answer, though it is an error.
    play.passes(QUEUE, GPU, START, NO_STATE)
    assert play.core.resumable
    play.over()


@pytest.mark.parametrize(
    "first", [SNAPSHOT, Message(b"\x00"), Message("not json"), Message('"session_init_v2"'), Message("")]
)
def test_anything_else_first_is_a_passthrough_for_good(first: Message) -> None:
    play = Play()
    play.attached(A, "a").expect()
    play.says(first, INIT).passes(begins(0), is_done(0), WORKER_FAILED, REJECTED)
    assert not play.core.resumable
    assert play.core.why_not_resumable == "passthrough"
    play.replica(ABORT)
    play.expect(
        ToClient(Closed(1011, "replica_lost")),
        ToReplica(Closed(1001, "replica_lost")),
        End(Side.GATEWAY, 1011, "replica_lost"),
    ).over()


# 4: states


def test_each_finished_segment_is_followed_by_a_question_whose_answer_is_kept_back() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).makes(0).makes(1, "q")
    play.loses().attached(B, "b").expect(init_with(1)).over()


def test_a_states_question_is_asked_after_every_third_segment() -> None:
    play = Play(snapshot_every=3).streams().says(prompt("p"), prompt("q"), prompt("r"))
    play.passes(begins(0), is_done(0), begins(1, "q"), is_done(1), begins(2, "r"))
    play.replica(is_done(2)).expect(ToClient(is_done(2)), ToReplica(SNAPSHOT))
    play.over()


def test_answers_go_to_who_asked_in_the_order_of_the_questions() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT))
    play.says(SNAPSHOT)
    play.hides(snapshot("ours")).passes(snapshot("theirs"))
    play.loses().attached(B, "b").expect(init_with("theirs")).over()


def test_a_clients_open_question_serves_us_too() -> None:
    play = Play().streams().says(prompt("p"), SNAPSHOT).passes(begins(0), is_done(0), snapshot("x"))
    play.loses().attached(B, "b").expect(init_with("x")).over()


def test_a_clients_question_before_any_state_gets_its_error() -> None:
    play = Play().streams().says(SNAPSHOT).passes(NO_STATE)
    assert play.core.resumable
    # It was its answer, not the replica's last word.
    play.loses().over()


def test_a_replica_that_cannot_snapshot_makes_the_session_not_resumable() -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).hides(NO_STATE)
    assert play.core.why_not_resumable == "no_snapshot"
    assert not play.core.resumable
    play.says(prompt("q")).passes(begins(1, "q"), CHUNK, is_done(1))
    play.replica(ABORT).expect(*LOST).over()


def test_an_error_inside_a_segment_answers_no_question() -> None:
    play = Play().streams().says(prompt("p"), SNAPSHOT).passes(begins(0), NO_STATE, is_done(0), snapshot(0))
    assert play.core.resumable
    play.over()


def test_a_state_above_the_bound_is_not_kept() -> None:
    play = Play(max_state_bytes=60).streams().says(prompt("p"), prompt("q")).makes(0).passes(begins(1, "q"))
    assert play.core.resumable
    play.replica(is_done(1)).expect(ToClient(is_done(1)), ToReplica(SNAPSHOT)).hides(snapshot("x" * 60))
    assert play.core.why_not_resumable == "state_too_big"
    play.says(prompt("r")).passes(begins(2, "r"), is_done(2))
    play.replica(WORKER_FAILED)
    play.expect(
        ToClient(WORKER_FAILED),
        ToClient(Closed(1011, "replica_lost")),
        ToReplica(Closed(1001, "replica_lost")),
        End(Side.GATEWAY, 1011, "replica_lost"),
    ).over()


@pytest.mark.parametrize(
    "answer", [text("continuation_state_snapshot"), text("continuation_state_snapshot", state=None)]
)
def test_an_answer_without_a_state_is_none(answer: Message) -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).hides(answer)
    assert play.core.why_not_resumable == "no_snapshot"
    play.over()


# 5: what is a loss, and what is an end


@pytest.mark.parametrize("code", [None, 1001, 1011, 1012, 1013])
def test_a_loss_moves_the_session(code: int | None) -> None:
    Play().streams().loses(Closed(code, None if code is None else "why")).over()


def test_a_failed_worker_is_a_loss_though_the_socket_is_open() -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0), CHUNK)
    play.replica(WORKER_FAILED).expect(Move("lost"))
    # What the dropped replica still says is nobody's business.
    play.hides(CHUNK, is_done(0)).replica(Closed(1011, "x")).expect()
    play.attached(B, "b").expect(ToReplica(INIT)).over()


@pytest.mark.parametrize("code", [1000, 1003, 1005, 1007, 1008, 1009, 3000, 4001])
def test_a_replicas_own_close_passes_unchanged(code: int) -> None:
    closed = Closed(code, "why")
    Play().streams().replica(closed).expect(ToClient(closed), End(Side.REPLICA, code, "why")).over()


@pytest.mark.parametrize(
    "farewell",
    [
        text("ltx2_stream_complete", reason="segment_cap"),
        text("session_timeout", timeout_seconds=120),
        text("error", code="preset_mismatch", message="", retryable=False),
    ],
)
def test_what_follows_a_farewell_is_no_loss(farewell: Message) -> None:
    closed = Closed(1011, "done")
    play = Play().streams().passes(farewell)
    play.replica(closed).expect(ToClient(closed), End(Side.REPLICA, 1011, "done")).over()
    play = Play().streams().passes(farewell)
    play.replica(ABORT)
    lost = Closed(1011, "replica_lost")
    play.expect(ToClient(lost), End(Side.GATEWAY, 1011, "replica_lost")).over()


def test_an_error_after_which_the_session_went_on_was_no_farewell() -> None:
    Play().streams().passes(
        text("error", code="upstream_timeout", message="", retryable=False), QUEUE
    ).loses().over()


def test_media_after_such_an_error_says_that_the_session_goes_on() -> None:
    error = text("error", code="upstream_timeout", message="", retryable=False)
    Play().streams().says(prompt("p")).passes(begins(0), CHUNK, error, CHUNK).loses().over()


def test_a_loss_with_a_close_frame_passes_it_when_the_session_cannot_resume() -> None:
    closed = Closed(1012, "restarting")
    Play(resume=False).streams().replica(closed).expect(
        ToClient(closed), End(Side.REPLICA, 1012, "restarting")
    ).over()


def test_without_resume_an_abort_ends_the_session_in_band() -> None:
    play = Play(resume=False).streams()
    assert play.core.why_not_resumable == "resume_is_off"
    play.replica(ABORT).expect(*LOST).over()


def test_a_ping_timeout_of_the_replica_is_a_loss() -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0))
    play.fails(errors.ReplicaLost()).expect(Move("lost")).over()


def test_a_stall_is_a_loss_inside_a_segment_only() -> None:
    play = Play().streams().says(prompt("p"))
    assert not play.core.in_segment
    play.stalled().expect().passes(begins(0))
    assert play.core.in_segment
    play.stalled().expect(Move("lost"))
    assert not play.core.in_segment
    play.over()


def test_other_causes_end_the_session_in_band_at_any_time() -> None:
    cause = errors.GatewayRestarting()
    play = Play().streams().passes(text("x"))
    play.fails(cause).expect(*ending(cause, replica_is_there=True)).fails(cause).expect().over()
    play = Play().streams().loses()
    play.fails(cause).expect(*ending(cause, replica_is_there=False)).attached(B).expect().over()


@pytest.mark.parametrize("speaker", [Side.CLIENT, Side.REPLICA])
@pytest.mark.parametrize("data", ["x" * 10_001, b"x" * 10_001])
def test_a_message_over_the_cap_is_told_to_both(speaker: Side, data: str | bytes) -> None:
    play = Play().streams()
    said = play.client(Message(data)) if speaker is Side.CLIENT else play.replica(Message(data))
    closed = Closed(1009, "message_too_big")
    said.expect(ToClient(closed), ToReplica(closed), End(Side.GATEWAY, 1009, "message_too_big")).over()


# 6: refusals


@pytest.mark.parametrize(
    "refusal",
    [
        REJECTED,
        text("error", code="gpu_unavailable", message="", retryable=True),
        Closed(1013, "session_rejected"),
    ],
)
def test_a_refusal_moves_the_session_and_shows_nothing(refusal: Message | Closed) -> None:
    play = Play()
    play.attached(A, "a").expect()
    play.says(INIT, prompt("p"), Message("odd"), SNAPSHOT).passes(QUEUE)
    play.replica(refusal).expect(Move("refused"))
    play.client(PAUSE).expect().replica(Closed(1013, "session_rejected")).expect()
    play.attached(B, "b").expect(
        *(ToReplica(message) for message in (INIT, prompt("p"), Message("odd"), SNAPSHOT, PAUSE))
    )
    # Nothing had begun: there is nothing to be told of.
    play.passes(QUEUE, GPU, START)
    assert play.core.resumes == 0
    play.over()


def test_refusals_do_not_count_as_losses() -> None:
    play = Play(resume_attempts=1).streams().loses()
    for url in (B, C, D, A, B):
        play.attached(url).expect(ToReplica(INIT)).hides(QUEUE).replica(REJECTED).expect(Move("refused"))
    play.attached(C, "c").expect(ToReplica(INIT))
    play.replica(GPU).expect(resumed(0, "c")).replica(START).expect(Blame(A)).over()


def test_a_replica_that_refuses_before_the_client_spoke_is_left_too() -> None:
    play = Play()
    play.attached(A).expect().replica(REJECTED).expect(Move("refused")).replica(Closed(1013, "")).expect()
    play.client(INIT).expect().attached(B, "b").expect(ToReplica(INIT)).passes(QUEUE, GPU, START).over()


def test_a_replica_that_vanishes_before_a_word_was_said_is_replaced() -> None:
    play = Play(resume_attempts=2)
    play.attached(A).expect().loses().attached(B).expect().loses().attached(C).expect()
    play.replica(ABORT).expect(*ending(errors.ReplicaLost(), replica_is_there=True)).over()


def test_once_the_session_has_begun_a_rejection_passes() -> None:
    closed = Closed(1013, "session_rejected")
    play = Play().streams().passes(REJECTED)
    play.replica(closed).expect(ToClient(closed), End(Side.REPLICA, 1013, "session_rejected")).over()


def test_no_replica_after_refusals_only_ends_with_the_shells_cause() -> None:
    play = Play()
    play.client(INIT).expect().attached(A).expect(ToReplica(INIT)).replica(REJECTED).expect(Move("refused"))
    cause = errors.ReplicasFull()
    play.unavailable(cause).expect(*ending(cause, replica_is_there=False)).over()
