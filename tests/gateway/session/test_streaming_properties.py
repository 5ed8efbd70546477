"""What holds for every streaming session, whatever happens to its replicas, and for all that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import IdleTimeout, ReplicaLost, SessionEnded
from gateway.session.core import Commands, End, Move, PassthroughCore, SessionCore, Side
from gateway.session.events import Closed, Event, Message, Ping, Pong
from gateway.session.streaming import StreamingCore
from tests.gateway.session.stage import Line, Stage, text, undisturbed

Script = list[tuple[Side, Event | SessionEnded]]
Loss = Literal["abort", "away", "crashed", "restart", "later", "worker_failed", "stall", "no_pong", "close"]
LOSSES: tuple[Loss, ...] = (
    "abort", "away", "crashed", "restart", "later", "worker_failed", "stall", "no_pong", "close",
)  # fmt: skip
CLOSES = {"abort": None, "away": 1001, "crashed": 1011, "restart": 1012, "later": 1013}
CAP_BYTES = 1000


def streaming(*, resume: bool = True, every: int = 1) -> StreamingCore:
    return StreamingCore(
        CAP_BYTES, resume=resume, resume_attempts=3, max_state_bytes=10_000, snapshot_every=every
    )


def lose(stage: Stage, how: Loss) -> bool:
    """The present replica is lost; False when it cannot be in this way now, or when that is a refusal."""
    core = stage.core
    match how:
        case "worker_failed":
            stage.obey(core.from_replica(text("error", code="worker_failed", message="", retryable=True)))
        case "stall":
            if not core.in_segment:
                return False
            stage.obey(core.stalled())
        case "no_pong":
            stage.obey(core.fail(ReplicaLost()))
        case "close":
            stage.obey(core.unhealthy("close"))
        case _:
            stage.obey(core.from_replica(Closed(CLOSES[how], how)))
    return stage.end is not None or stage.moves[-1] != "refused"


prompts = st.lists(
    st.tuples(st.sampled_from(["sea", "sky", "snow"]), st.integers(0, 3)), min_size=1, max_size=5
)
asides = st.sampled_from(
    [
        text("enhancement_updated", enabled=True),
        text("auto_extension_updated", enabled=False),
        text("loop_generation_updated", enabled=False),
        text("seed_prompts_updated", seed_prompts=["a"]),
        text("snapshot_state"),
        text("nonsense"),
    ]
)


@st.composite
def lines(draw: st.DrawFn, asked: list[tuple[str, int]]) -> list[Line]:
    """An init and the prompts, some at once, some only when a segment is there, other things between."""
    said = [Line(text("session_init_v2", client_id="c", initial_image={"data": "x"}))]
    after = 0
    for number, (prompt, seed) in enumerate(asked):
        after = max(after, draw(st.integers(0, number)))
        said += [Line(message, after) for message in draw(st.lists(asides, max_size=2))]
        said.append(Line(text("segment_prompt_source", prompt=prompt, seed=seed), after))
        if draw(st.booleans()):
            paused = text("generation_paused_updated", paused=True)
            said += [Line(paused, after), Line(text("generation_paused_updated", paused=False), after)]
    return said + [Line(message, after) for message in draw(st.lists(asides, max_size=2))]


Step = Literal["speak", "carry", "act", "lose", "drain"]
ORDINARY: tuple[Step, ...] = ("speak", "carry", "act", "act", "act", "act")


def open_session(stage: Stage, data: st.DataObject) -> None:
    """The client says its init, to the first replica or before there is one."""
    if data.draw(st.booleans(), label="accepted early"):
        stage.speak()
        stage.attach(refuses=data.draw(st.booleans(), label="refuses"))
    else:
        stage.attach()
        stage.speak()


def play(stage: Stage, data: st.DataObject, *, losses: int) -> list[tuple[str, Loss]]:
    """Step by step, with losses wherever it pleases; the replicas lost, and how."""
    lost: list[tuple[str, Loss]] = []
    for _ in range(data.draw(st.integers(0, 80), label="steps")):
        if stage.end is not None:
            break
        if stage.replica is None:
            if not (data.draw(st.booleans(), label="speaks in between") and stage.speak()):
                stage.attach(refuses=data.draw(st.integers(0, 5), label="refuses at 0") == 0)
            continue
        url = stage.replica.url
        steps: tuple[Step, ...] = (*ORDINARY, "lose", "drain") if len(lost) < losses else ORDINARY
        step = data.draw(st.sampled_from(steps))
        if step != "lose":
            STEPS[step](stage)
        elif lose(stage, how := data.draw(st.sampled_from(LOSSES))):
            lost.append((url, how))
    return lost


STEPS: dict[Step, Callable[[Stage], object]] = {
    "speak": Stage.speak,
    "carry": Stage.carry,
    "act": Stage.act,
    "drain": lambda stage: stage.obey(stage.core.unhealthy("drain")),
}


@pytest.mark.parametrize("every", [1, 3])
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_any_losses_yield_the_undisturbed_media_or_a_clean_end(every: int, data: st.DataObject) -> None:
    asked = data.draw(prompts)
    stage = Stage(streaming(every=every), data.draw(lines(asked)))
    open_session(stage, data)
    lost = play(stage, data, losses=6)
    stage.play_on()
    segments, digests = undisturbed(asked)
    client = stage.client

    assert client.segments == segments[: len(client.segments)]
    assert client.states == sorted(client.states, key=digests.index), (
        "each state is of its place in the session"
    )
    assert client.kinds.count("ltx2_stream_start") <= 1
    assert client.kinds.count("gpu_assigned") <= 1
    assert len(client.resumed) <= len(stage.moves)
    assert stage.core.backlog_bytes == 0
    if stage.end is None:
        assert client.segments == segments
        assert {error["code"] for error in client.errors} <= {"invalid_message", "internal_error"}
        assert len(set(stage.blamed)) == len(stage.blamed)
        own_restarts = {url for url, how in lost if how in ("away", "restart", "close")}
        assert set(stage.blamed) <= {url for url, _ in lost} - own_restarts
    else:
        assert lost
        assert client.closed == Closed(1011, "replica_lost")
        assert client.errors[-1]["code"] == "worker_failed"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_single_loss_is_survived_wherever_it_comes(data: st.DataObject) -> None:
    asked = data.draw(prompts)
    stage = Stage(streaming(), data.draw(lines(asked)))
    open_session(stage, data)
    play(stage, data, losses=1)
    stage.play_on()
    assert stage.end is None
    assert stage.client.segments == undisturbed(asked)[0]
    assert stage.core.backlog_bytes == 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_without_resume_a_loss_is_the_end_and_a_refusal_is_not(data: st.DataObject) -> None:
    asked = data.draw(prompts)
    stage = Stage(streaming(resume=False), data.draw(lines(asked)))
    open_session(stage, data)
    lost = play(stage, data, losses=1)
    stage.play_on()
    assert (stage.end is not None) == bool(lost)
    assert set(stage.moves) <= {"refused"}
    assert stage.client.segments == undisturbed(asked)[0][: len(stage.client.segments)]
    assert not stage.blamed


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_a_replica_makes_by_itself_goes_on_too(data: st.DataObject) -> None:
    """Its own ideas follow from the state: each segment follows from the one before, whoever asked for it."""
    asked = data.draw(prompts)
    said = [Line(text("session_init_v2", auto_extension_enabled=True))]
    for number, (prompt, seed) in enumerate(asked):
        # Without a past there is nothing to extend: the first prompt comes at once.
        after = said[-1].after_segments + (data.draw(st.integers(0, 2)) if number else 0)
        said.append(Line(text("segment_prompt_source", prompt=prompt, seed=seed), after))
    stage = Stage(streaming(every=data.draw(st.sampled_from([1, 3]))), said)
    open_session(stage, data)
    play(stage, data, losses=1)
    while stage.has_lines or not all_there(asked, stage.client.prompts):
        before = len(stage.client.segments)
        stage.play_on(segments=before + 1)
        assert stage.end is None
        assert len(stage.client.segments) == before + 1
    seeds = [seed for _, seed in asked]
    made = [(prompt, 0 if "and then" in prompt else seeds.pop(0)) for prompt in stage.client.prompts]
    assert stage.client.segments == undisturbed(made)[0]


def all_there(asked: list[tuple[str, int]], heard: list[str]) -> bool:
    """Whether each prompt has its segment: once, and in order."""
    ours = [prompt for prompt in heard if "and then" not in prompt]
    assert ours == [prompt for prompt, _ in asked][: len(ours)]
    return len(ours) == len(asked)


# What is not this protocol

INIT = text("session_init_v2")
REFUSAL = text("error", code="session_rejected", message="", retryable=False)
messages = st.builds(Message, st.text(max_size=20) | st.binary(max_size=20)) | st.sampled_from(
    [
        INIT,
        REFUSAL,
        text("error", code="worker_failed", message="", retryable=True),
        text("error", code="internal_error", message="", retryable=True),
        text("ltx2_segment_start", segment_idx=0, prompt="p"),
        text("ltx2_segment_complete", segment_idx=0),
        text("snapshot_state"),
        text("continuation_state_snapshot", state={}),
        Message("[" * 2000),
        Message("x" * (CAP_BYTES + 1)),
    ]
)
closes = st.builds(Closed, st.sampled_from([None, 1000, 1001, 1005, 1011, 1012, 1013, 4000]), st.just("r"))
events = st.one_of(messages, messages, closes, st.builds(Ping), st.builds(Pong))
whatever: st.SearchStrategy[tuple[Side, Event | SessionEnded]] = st.one_of(
    st.tuples(st.sampled_from([Side.CLIENT, Side.REPLICA]), events),
    st.tuples(st.just(Side.GATEWAY), st.sampled_from([IdleTimeout(), ReplicaLost()])),
)


def answers(core: SessionCore, said: Script) -> list[Commands]:
    answered = [core.attached("http://a", "a")]
    for speaker, event in said:
        if isinstance(event, SessionEnded):
            answered.append(core.fail(event))
        else:
            answered.append(core.from_client(event) if speaker is Side.CLIENT else core.from_replica(event))
    return answered


greetings = messages.filter(lambda message: message != REFUSAL)


@given(st.lists(greetings, max_size=3), messages, st.lists(whatever, max_size=10))
def test_what_is_not_the_protocol_is_passed_through(
    greeted: list[Message], first: Message, rest: Script
) -> None:
    opening = Message("hello") if first == INIT else first
    said: Script = [*((Side.REPLICA, greeting) for greeting in greeted), (Side.CLIENT, opening), *rest]
    assert answers(streaming(), said) == answers(PassthroughCore(CAP_BYTES), said)


@given(greetings, st.lists(st.tuples(st.just(Side.REPLICA), events), max_size=8))
def test_a_replica_that_speaks_first_is_passed_through(greeting: Message, rest: Script) -> None:
    said: Script = [(Side.REPLICA, greeting), *rest]
    assert answers(streaming(), said) == answers(PassthroughCore(CAP_BYTES), said)


@settings(max_examples=200)
@given(st.lists(whatever, max_size=15), st.booleans())
def test_any_traffic_after_an_init_leaves_the_core_in_order(rest: Script, resume: bool) -> None:
    """Even nonsense: one Move at a time, nothing after an End, and a fresh replica gets what there is."""
    stage = Loose(streaming(resume=resume))
    stage.tell(Side.CLIENT, INIT)
    for speaker, event in rest:
        stage.tell(speaker, event)
    stage.tell(Side.CLIENT, Closed(1000, ""))
    assert stage.ended
    assert stage.core.backlog_bytes == 0


class Loose:
    """Knows nothing of the protocol; gives a session its next replica at once."""

    def __init__(self, core: SessionCore) -> None:
        self.core = core
        self.ended = False
        self._here = False
        self._attach()

    def tell(self, speaker: Side, said: Event | SessionEnded) -> None:
        if isinstance(said, SessionEnded):
            self._check(self.core.fail(said))
        else:
            say = self.core.from_client if speaker is Side.CLIENT else self.core.from_replica
            self._check(say(said))
        if not self._here and not self.ended:
            self._attach()

    def _attach(self) -> None:
        self._here = True
        self._check(self.core.attached("http://a", "a"))

    def _check(self, commands: Commands) -> None:
        assert not (self.ended and commands)
        for place, command in enumerate(commands):
            if isinstance(command, End | Move):
                assert place == len(commands) - 1
            self.ended = self.ended or isinstance(command, End)
            self._here = self._here and not isinstance(command, Move)
