"""Whose client could go on in a new session without loss: one that was shown the state of all that it has."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import errors
from gateway.session.core import Handover, PassthroughCore, ToClient, ToReplica
from gateway.session.events import Closed, Message
from tests.gateway.session.playbook import Playbook
from tests.gateway.session.resuming_play import (
    CHUNK,
    ENHANCE,
    GPU,
    INIT,
    PAUSE,
    QUEUE,
    SNAPSHOT,
    START,
    A,
    B,
    Play,
    begins,
    ending,
    init_with,
    is_done,
    prompt,
    resumed,
    snapshot,
)
from tests.gateway.session.stage import Stage, text, undisturbed
from tests.gateway.session.test_streaming_properties import (
    ORDINARY,
    STEPS,
    lines,
    open_session,
    prompts,
    streaming,
)

HANDED_BACK = ending(errors.HandedBack(), replica_is_there=True)


def with_a_segment(**settings: int | bool) -> Play:
    """The client has segment 0, and the gateway alone its state."""
    return Play(**settings).streams().says(prompt("p")).makes(0)


def with_its_state() -> Play:
    """The client has segment 0 and its state."""
    return with_a_segment().says(SNAPSHOT).passes(snapshot("mine"))


def comes_ahead(play: Play) -> Play:
    """One prompt, a question, another prompt: the answer comes after the first segment."""
    play.says(prompt("p"), SNAPSHOT, prompt("q")).passes(begins(0))
    return play.passes(is_done(0), snapshot("x"))


def handover(play: Play) -> Handover:
    return play.core.handover


PASSAGES: dict[str, tuple[Handover, Callable[[], Play]]] = {
    "before the stream starts": (
        "never",
        lambda: Play().attached(A, "a").says(INIT).passes(QUEUE, GPU),
    ),
    "nothing was asked for yet": ("now", lambda: Play().streams()),
    "the first prompt": ("never", lambda: Play().streams().says(prompt("p"))),
    "inside the first segment": (
        "never",
        lambda: Play().streams().says(prompt("p")).passes(begins(0), CHUNK),
    ),
    "a segment whose state only the gateway has": ("never", with_a_segment),
    "the client asks for it": ("later", lambda: with_a_segment().says(SNAPSHOT)),
    "the client has it": ("now", with_its_state),
    "the client asks again": ("later", lambda: with_its_state().says(SNAPSHOT)),
    "inside a segment of the replica's own that has no prompt": (
        "later",
        lambda: with_its_state().passes(text("ltx2_segment_start", segment_idx=1, total_steps=1)),
    ),
    "a toggle behind it": ("now", lambda: with_its_state().says(ENHANCE, PAUSE)),
    "the next prompt": ("later", lambda: with_its_state().says(prompt("q"))),
    "inside the next segment": (
        "later",
        lambda: with_its_state().says(prompt("q")).passes(begins(1, "q"), CHUNK),
    ),
    "after it, the client does not ask": ("never", lambda: with_its_state().says(prompt("q")).makes(1, "q")),
    "after it, the client asks": (
        "later",
        lambda: with_its_state().says(prompt("q")).makes(1, "q").says(SNAPSHOT),
    ),
    "a prompt ahead of the state": ("later", lambda: comes_ahead(Play().streams())),
    "a segment that the state came before": (
        "never",
        lambda: comes_ahead(Play(snapshot_every=9).streams()).passes(begins(1, "q"), is_done(1)),
    ),
    "the session is at its end": (
        "never",
        lambda: with_its_state().passes(text("session_timeout", timeout_seconds=1)),
    ),
    "an error that forbids another try": (
        "never",
        lambda: with_its_state().passes(text("error", code="preset_mismatch", message="no", retryable=False)),
    ),
    "a state that is too large": (
        "never",
        lambda: with_a_segment(max_state_bytes=60).says(SNAPSHOT).passes(snapshot("x" * 60)),
    ),
    "resume is off": ("never", lambda: Play(resume=False).streams()),
    "between two replicas": ("never", lambda: with_its_state().loses()),
    "on the next replica, before it streams": (
        "never",
        lambda: with_its_state().loses().attached(B, "b").expect(init_with("mine")).hides(QUEUE),
    ),
}


@pytest.mark.parametrize("passage", PASSAGES)
def test_the_handover_of_a_session(passage: str) -> None:
    expected, play = PASSAGES[passage]
    assert handover(play()) == expected


def test_a_session_that_moved_keeps_what_its_client_was_shown() -> None:
    play = with_its_state().loses(Closed(1012, "restart"))
    play.attached(B, "b").expect(init_with("mine"))
    play.replica(GPU).expect(resumed(1, "b")).hides(START)
    assert handover(play) == "now"


def test_a_segment_that_is_made_again_has_to_be_caught_up_with() -> None:
    play = Play(snapshot_every=9).streams().says(prompt("p")).passes(begins(0), is_done(0))
    play.says(SNAPSHOT).loses(Closed(1012, "restart"))
    play.attached(B, "b").expect(ToReplica(INIT))
    play.replica(GPU).expect(resumed(1, "b"), ToReplica(prompt("p")), ToReplica(SNAPSHOT))
    play.hides(START, begins(0))
    assert handover(play) == "later"
    play.hides(is_done(0)).passes(snapshot("x"))
    assert handover(play) == "now"


def test_a_state_of_less_than_the_client_has_does_not_do() -> None:
    """The client asked between two prompts, and lost its replica before the answer: the next one gives it in
    its place, when the client is further already.
    """
    play = Play(snapshot_every=9).streams().says(prompt("p"), SNAPSHOT, prompt("q"))
    play.passes(begins(0), is_done(0), begins(1, "q"), is_done(1)).loses(Closed(1012, "restart"))
    play.attached(B, "b").expect(ToReplica(INIT))
    play.replica(GPU).expect(
        resumed(2, "b"), ToReplica(prompt("p")), ToReplica(SNAPSHOT), ToReplica(prompt("q"))
    )
    play.hides(START, begins(0), is_done(0)).passes(snapshot("of one")).hides(begins(1, "q"), is_done(1))
    assert handover(play) == "never"
    play.says(SNAPSHOT).passes(snapshot("of both"))
    assert handover(play) == "now"


def test_handing_back_says_so_in_band_and_by_the_close() -> None:
    play = with_its_state()
    play.fails(errors.HandedBack()).expect(*HANDED_BACK).over()
    told = HANDED_BACK[0]
    assert isinstance(told, ToClient)
    assert isinstance(told.event, Message)
    said = json.loads(told.event.data)
    assert (said["type"], said["retryable"]) == ("going_away", True)
    assert HANDED_BACK[1] == ToClient(Closed(1012, "rebalance_reconnect"))
    assert handover(play) == "never"


@pytest.mark.parametrize("first", ["hello", '{"type":"segment_prompt_source","prompt":"p"}'])
def test_what_is_not_followed_is_never_handed_back(first: str) -> None:
    for core in (streaming(), PassthroughCore(1000)):
        Playbook(core).attached(A).client(Message(first)).expect(ToReplica(Message(first))).over()
        assert core.handover == "never"


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_client_that_may_be_handed_back_has_the_state_of_all_that_it_has(data: st.DataObject) -> None:
    """Whatever its replicas did before: then its next session makes what this one would have made."""
    asked = data.draw(prompts)
    stage = Stage(streaming(every=data.draw(st.sampled_from([1, 3]))), data.draw(lines(asked)))
    open_session(stage, data)
    digests = undisturbed(asked)[1]
    for _ in range(data.draw(st.integers(0, 80), label="steps")):
        if stage.end is not None:
            break
        if stage.replica is None:
            stage.attach()
        step = data.draw(st.sampled_from((*ORDINARY, "lose")))
        if step == "lose":
            if data.draw(st.integers(0, 9), label="lost at 0") == 0:
                stage.obey(stage.core.from_replica(Closed(1012, "restart")))
        else:
            STEPS[step](stage)
        if stage.core.handover == "now":
            has = len(stage.client.segments)
            known = stage.client.states[-1] if stage.client.states else digests[0]
            assert known == digests[has]
    if stage.core.handover == "now":
        stage.obey(stage.core.fail(errors.HandedBack()))
        assert stage.client.kinds[-1] == "going_away"
        assert stage.client.closed == Closed(1012, "rebalance_reconnect")
