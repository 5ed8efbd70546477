"""What a client sees of a move; how often, by whose fault, and with how much kept."""

from __future__ import annotations

import json

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
from gateway.session.events import Closed, Message
from gateway.session.ledger import MAX_KEPT_BYTES, MAX_PROMPTS
from tests.gateway.session.resuming_play import (
    ABORT,
    CHUNK,
    GO_ON,
    GPU,
    INIT,
    LOST,
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

# 8: what the client sees of a move


def test_a_session_is_resumed_once_however_often_it_moves_before_it_goes_on() -> None:
    play = Play().streams().says(prompt("p")).makes(0).loses()
    play.attached(B, "b").expect(init_with(0)).replica(GPU).expect(resumed(1, "b")).loses()
    play.attached(C, "c").expect(init_with(0)).hides(QUEUE, GPU)
    play.replica(START).expect(Blame(A), Blame(B))
    assert play.core.resumes == 2
    play.over()


def test_what_opens_a_session_is_shown_if_it_was_not_seen() -> None:
    play = Play()
    play.attached(A, "a").expect()
    play.says(INIT).passes(QUEUE, GPU).loses()
    play.attached(B, "b").expect(ToReplica(INIT)).hides(QUEUE)
    play.replica(GPU).expect(resumed(0, "b"))
    play.replica(START).expect(ToClient(START), Blame(A)).over()


def test_another_message_than_gpu_assigned_may_be_the_first_sign() -> None:
    play = Play().streams().says(prompt("p")).makes(0).loses()
    play.attached(B, "b").expect(init_with(0)).replica(CHUNK).expect(resumed(1, "b"), ToClient(CHUNK)).over()


def test_a_client_that_waits_for_the_next_replica_hears_its_place() -> None:
    play = Play().streams().queued(0, 1).expect().loses()
    waits = Message(json.dumps({"type": "queue_status", "position": 2, "queue_depth": 3}))
    play.queued(2, 3).expect(ToClient(waits)).over()
    play = Play()
    play.queued(2, 3).expect(ToClient(waits)).client(INIT).expect().queued(2, 3).expect(
        ToClient(waits)
    ).over()


# 9: bounds and blame


def test_after_so_many_losses_in_a_row_the_session_is_lost() -> None:
    play = Play(resume_attempts=2).streams().says(prompt("p")).makes(0).loses()
    play.attached(B, "b").expect(init_with(0)).replica(GPU).expect(resumed(1, "b")).loses()
    play.attached(C, "c").expect(init_with(0)).hides(GPU).replica(START).expect(Blame(A), Blame(B))
    # That it serves is not enough: another could be lost as soon, and another.
    play.replica(ABORT).expect(Blame(C), *LOST).over()


def test_a_finished_segment_ends_the_row() -> None:
    play = Play(resume_attempts=1).streams()
    for number, (before, url) in enumerate([(A, B), (B, C), (C, D)]):
        play.says(prompt("p")).loses().attached(url, url).expect(
            init_with("s") if number else ToReplica(INIT)
        )
        play.replica(GPU).expect(resumed(number, url), ToReplica(prompt("p"))).hides(START)
        play.replica(begins(0)).expect(ToClient(begins(number)))
        play.replica(is_done(0)).expect(ToClient(is_done(number)), Blame(before), ToReplica(SNAPSHOT))
        play.hides(snapshot("s"))
    play.over()


def test_a_stream_that_starts_for_the_first_time_ends_the_row() -> None:
    play = Play(resume_attempts=1)
    play.attached(A).expect()
    play.says(INIT).loses().attached(B).expect(ToReplica(INIT)).passes(GPU)
    play.replica(START).expect(ToClient(START), Blame(A)).loses().over()


def test_a_prompt_that_was_in_flight_at_two_losses_is_not_tried_on_a_third() -> None:
    play = Play().streams().says(prompt("p"), prompt("poison")).makes(0).passes(begins(1, "poison")).loses()
    play.attached(B, "b").expect(init_with(0))
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("poison"))).hides(START)
    # It had not even begun.
    play.replica(ABORT).expect(*ending(errors.PoisonSuspected(), replica_is_there=False)).over()


def test_an_init_that_was_in_flight_at_two_losses_is_not_tried_on_a_third() -> None:
    play = Play()
    play.attached(A).expect()
    play.says(INIT).passes(QUEUE).loses().attached(B).expect(ToReplica(INIT)).passes(GPU)
    play.replica(WORKER_FAILED).expect(*ending(errors.PoisonSuspected(), replica_is_there=True)).over()


def test_a_poisonous_prompt_takes_two_of_ten_replicas() -> None:
    play = Play(resume_attempts=100).streams().says(prompt("poison")).passes(begins(0, "poison"))
    killed, commands = 1, play.core.from_replica(ABORT)
    for number in range(10):
        if commands != (Move("lost"),):
            break
        play.core.attached(f"http://{number}", str(number))
        for message in (GPU, START, begins(0, "poison")):
            play.core.from_replica(message)
        killed, commands = killed + 1, play.core.from_replica(ABORT)
    assert killed == 2
    assert commands == ending(errors.PoisonSuspected(), replica_is_there=False)


def test_a_paused_prompt_is_no_suspect() -> None:
    play = Play().streams().says(PAUSE, prompt("p")).loses()
    for url in (B, C):
        play.attached(url, url).expect(ToReplica(INIT)).replica(GPU)
        told = (resumed(0, url),) if url == B else ()
        play.expect(*told, ToReplica(PAUSE), ToReplica(prompt("p"))).hides(START).loses()
    play.over()


def test_what_a_replica_only_makes_again_is_suspected_by_itself() -> None:
    play = Play(snapshot_every=9).streams().says(prompt("p"), prompt("q"))
    play.passes(begins(0), is_done(0), begins(1, "q")).loses()
    play.attached(B, "b").expect(ToReplica(INIT))
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("p")), ToReplica(prompt("q"))).hides(START)
    play.hides(begins(0)).loses().over()


@pytest.mark.parametrize("code", [1001, 1012])
def test_a_replica_that_restarts_is_neither_blamed_nor_a_reason_for_suspicion(code: int) -> None:
    restart = Closed(code, "restarting")
    play = Play().streams().says(prompt("p")).passes(begins(0)).loses(restart)
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(resumed(0, "b"), ToReplica(prompt("p")))
    play.hides(START).loses(restart).attached(C, "c").expect(ToReplica(INIT))
    play.replica(GPU).expect(ToReplica(prompt("p"))).hides(START).passes(begins(0))
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).over()


def test_the_last_replica_lost_is_told_and_blamed() -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0), CHUNK).loses()
    play.unavailable(errors.NoHealthyReplica()).expect(Blame(A), *LOST).unavailable(
        errors.ReplicaLost()
    ).expect()
    play.attached(B).expect().over()


# 10: the client leaves


@pytest.mark.parametrize("closed", [Closed(None), Closed(1000, "bye"), Closed(4002, "bye")])
def test_a_client_may_leave_at_any_moment(closed: Closed) -> None:
    end = End(Side.CLIENT, closed.code, closed.reason or "")
    told = ToReplica(closed if closed.code else Closed(1001, "client_gone"))
    Play().streams().client(closed).expect(told, end).client(closed).expect().over()
    play = Play().streams().loses()
    play.client(prompt("p")).expect().client(closed).expect(end).attached(B).expect().replica(GPU).expect()
    assert play.core.backlog_bytes == 0
    play.unavailable(errors.NoHealthyReplica()).expect().queued(0, 1).expect().stalled().expect().over()


# on_unhealthy


def test_an_unhealthy_replica_may_keep_its_session() -> None:
    Play().streams().unhealthy("keep").expect().says(prompt("p")).makes(0).over()


def test_a_session_is_taken_off_an_unhealthy_replica_at_once() -> None:
    play = Play().streams().says(prompt("p")).passes(begins(0)).unhealthy("close").expect(Move("unhealthy"))
    play.unhealthy("close").expect().attached(B, "b").expect(ToReplica(INIT))
    play.replica(GPU).expect(resumed(0, "b"), ToReplica(prompt("p"))).hides(START).passes(begins(0))
    # The replica is known to be unhealthy: nobody is blamed.
    play.replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT)).over()


def test_a_session_leaves_an_unhealthy_replica_when_no_work_is_lost() -> None:
    play = Play().streams().says(prompt("p"), prompt("q")).passes(begins(0)).unhealthy("drain").expect()
    play.passes(CHUNK).replica(is_done(0)).expect(ToClient(is_done(0)), ToReplica(SNAPSHOT))
    play.replica(snapshot(0)).expect(Move("unhealthy")).attached(B, "b").expect(init_with(0))
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("q"))).unhealthy("keep").expect()
    play.unhealthy("drain").expect(Move("unhealthy")).over()


def test_a_session_that_cannot_resume_stays_under_drain_and_ends_under_close() -> None:
    play = (
        Play(resume=False)
        .streams()
        .unhealthy("drain")
        .expect()
        .says(prompt("p"))
        .passes(begins(0), is_done(0))
    )
    play.unhealthy("close").expect(*ending(errors.ReplicaLost(), replica_is_there=True)).over()


# 12: bounds of what is kept


def test_too_many_prompts_without_a_state_are_not_kept() -> None:
    play = Play().streams()
    play.says(*(prompt(f"p{number}") for number in range(MAX_PROMPTS)))
    assert play.core.resumable
    play.says(prompt("one more"))
    assert play.core.why_not_resumable == "too_much_in_flight"
    play.passes(begins(0, "p0"), is_done(0), begins(1, "p1"))
    play.replica(ABORT).expect(*LOST).over()


def test_too_long_prompts_without_a_state_are_not_kept() -> None:
    play = Play().streams()
    for _ in range(MAX_KEPT_BYTES // 9_000 + 1):
        play.says(prompt("x" * 9_000))
        assert play.core.backlog_bytes == 0
    assert play.core.why_not_resumable == "too_much_in_flight"
    play.over()


def test_toggles_do_not_pile_up() -> None:
    play = Play().streams()
    for _ in range(1000):
        play.says(PAUSE, GO_ON)
    play.loses().attached(B, "b").expect(ToReplica(INIT)).replica(GPU).expect(
        resumed(0, "b"), ToReplica(GO_ON)
    ).over()


def test_so_much_said_to_a_replica_that_has_not_begun_that_its_refusal_is_final() -> None:
    play = Play(resume=False)
    play.attached(A).expect()
    play.says(INIT)
    for _ in range(MAX_KEPT_BYTES // 9_000 + 1):
        play.says(Message(b"x" * 9_000))
    play.passes(REJECTED)
    closed = Closed(1013, "session_rejected")
    play.replica(closed).expect(ToClient(closed), End(Side.REPLICA, 1013, "session_rejected")).over()


def test_what_is_said_while_a_replica_catches_up_does_not_make_the_session_fail() -> None:
    play = Play().streams().loses()
    for number in range(MAX_PROMPTS + 1):
        play.client(prompt(f"p{number}")).expect()
    assert play.core.resumable
    assert play.core.backlog_bytes > MAX_PROMPTS
    play.attached(B, "b").expect(ToReplica(INIT)).replica(GPU)
    play.expect(resumed(0, "b"), *(ToReplica(prompt(f"p{number}")) for number in range(MAX_PROMPTS + 1)))
    assert play.core.backlog_bytes == 0
    play.over()
