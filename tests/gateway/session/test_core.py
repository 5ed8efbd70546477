"""The rules of a passthrough session: what each side is told, in every situation that concerns the core."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import errors
from gateway.errors import SessionEnded
from gateway.session.core import Command, End, PassthroughCore, Side, ToClient, ToReplica, message_for
from gateway.session.events import Closed, Event, Message, Ping, Pong
from tests.gateway.session.playbook import Playbook

CAP_BYTES = 100

HELLO = Message('{"type":"session_init_v2"}')
ANSWER = Message(b"\x00media")


def playbook(cap_bytes: int = CAP_BYTES) -> Playbook:
    return Playbook(attached_core(cap_bytes))


def attached_core(cap_bytes: int = CAP_BYTES) -> PassthroughCore:
    core = PassthroughCore(cap_bytes)
    assert core.attached("http://a:1", "a") == ()
    return core


def error(code: str, *, retryable: bool, message: str) -> dict[str, Any]:
    return {"type": "error", "code": code, "message": message, "retryable": retryable}


def test_messages_pass_both_ways_as_they_came() -> None:
    (
        playbook()
        .client(HELLO).expect(ToReplica(HELLO))
        .replica(ANSWER).expect(ToClient(ANSWER))
        .replica(Message("")).expect(ToClient(Message("")))
        .client(Message(b"")).expect(ToReplica(Message(b"")))
        .over()
    )  # fmt: skip


def test_pings_and_pongs_stay_between_neighbours() -> None:
    (
        playbook()
        .client(Ping(b"1")).expect()
        .client(Pong(b"2")).expect()
        .replica(Ping(b"3")).expect()
        .replica(Pong(b"4")).expect()
        .over()
    )  # fmt: skip


@pytest.mark.parametrize("closed", [Closed(1000, ""), Closed(4001, "session_gone"), Closed(1005, None)])
def test_a_replicas_close_passes_unchanged(closed: Closed) -> None:
    (
        playbook()
        .replica(closed).expect(ToClient(closed), End(Side.REPLICA, closed.code, closed.reason or ""))
        .over()
    )  # fmt: skip


@pytest.mark.parametrize("closed", [Closed(4002, "bye"), Closed(1000, None), Closed(1001, "")])
def test_a_clients_close_passes_unchanged(closed: Closed) -> None:
    (
        playbook()
        .client(closed).expect(ToReplica(closed), End(Side.CLIENT, closed.code, closed.reason or ""))
        .over()
    )  # fmt: skip


def test_a_client_that_vanished_is_told_to_the_replica_as_going_away() -> None:
    (
        playbook()
        .client(Closed(None))
        .expect(ToReplica(Closed(1001, "client_gone")), End(Side.CLIENT, None, ""))
        .over()
    )  # fmt: skip


def test_a_lost_replica_is_told_in_band_before_it_spoke() -> None:
    core = attached_core()
    message, *rest = core.from_replica(Closed(None))
    assert isinstance(message, ToClient)
    assert isinstance(message.event, Message)
    assert isinstance(message.event.data, str)
    assert json.loads(message.event.data) == error(
        "worker_failed", retryable=True, message=errors.ReplicaLost.message
    )
    assert rest == [
        ToClient(Closed(1011, "replica_lost")),
        ToReplica(Closed(1001, "replica_lost")),
        End(Side.GATEWAY, 1011, "replica_lost"),
    ]


def test_a_lost_replica_is_told_by_the_close_alone_after_it_spoke() -> None:
    (
        playbook()
        .replica(ANSWER).expect(ToClient(ANSWER))
        .replica(Closed(None))
        .expect(
            ToClient(Closed(1011, "replica_lost")),
            ToReplica(Closed(1001, "replica_lost")),
            End(Side.GATEWAY, 1011, "replica_lost"),
        )
        .over()
    )  # fmt: skip


@pytest.mark.parametrize("speaker", [Side.CLIENT, Side.REPLICA])
def test_a_message_over_the_cap_ends_both_sides_with_1009(speaker: Side) -> None:
    play = playbook(10)
    say = play.client if speaker is Side.CLIENT else play.replica
    say(Message(b"x" * 11)).expect(
        ToClient(Closed(1009, "message_too_big")),
        ToReplica(Closed(1009, "message_too_big")),
        End(Side.GATEWAY, 1009, "message_too_big"),
    ).over()


@pytest.mark.parametrize("data", [b"x" * 10, "x" * 10, "é" * 5])
def test_a_message_at_the_cap_passes(data: str | bytes) -> None:
    message = Message(data)
    (
        playbook(10)
        .client(message).expect(ToReplica(message))
        .replica(message).expect(ToClient(message))
        .over()
    )  # fmt: skip


def test_the_cap_counts_bytes_not_characters() -> None:
    (command, *_) = attached_core(10).from_client(Message("é" * 6))
    assert command == ToClient(Closed(1009, "message_too_big"))


@pytest.mark.parametrize(
    ("cause", "to_client", "to_replica", "message"),
    [
        (errors.IdleTimeout(), Closed(1001, "idle_timeout"), Closed(1001, "idle_timeout"), None),
        (errors.PingTimeout(), Closed(1011, "ping_timeout"), Closed(1001, "ping_timeout"), None),
        (errors.SlowConsumer(), Closed(1008, "slow_consumer"), Closed(1008, "slow_consumer"), None),
        (errors.MessageTooBig(), Closed(1009, "message_too_big"), Closed(1009, "message_too_big"), None),
        (
            errors.ReplicaLost(),
            Closed(1011, "replica_lost"),
            Closed(1001, "replica_lost"),
            error("worker_failed", retryable=True, message=errors.ReplicaLost.message),
        ),
        (
            errors.InternalError(),
            Closed(1011, "internal_error"),
            Closed(1001, "internal_error"),
            error("internal_error", retryable=True, message=errors.InternalError.message),
        ),
        (
            errors.GatewayRestarting(),
            Closed(1012, "gateway_restarting"),
            Closed(1001, "gateway_restarting"),
            {"type": "going_away", "message": errors.GatewayRestarting.message, "retryable": True},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SessionEnded) else None,
)
@pytest.mark.parametrize("replica_spoke", [False, True])
def test_the_shells_causes_are_told_to_both_sides(
    cause: SessionEnded,
    to_client: Closed,
    to_replica: Closed,
    message: dict[str, Any] | None,
    replica_spoke: bool,
) -> None:
    core = attached_core()
    if replica_spoke:
        core.from_replica(ANSWER)
    told = list(core.fail(cause))
    if message is not None and not replica_spoke:
        first = told.pop(0)
        assert isinstance(first, ToClient)
        assert isinstance(first.event, Message)
        assert json.loads(first.event.data) == message
    assert told == [
        ToClient(to_client),
        ToReplica(to_replica),
        End(Side.GATEWAY, cause.close_code, cause.close_reason),
    ]


def test_what_a_client_says_early_waits_for_the_replica() -> None:
    core = PassthroughCore(CAP_BYTES)
    play = Playbook(core).client(HELLO).client(ANSWER).expect()
    assert core.backlog_bytes == HELLO.size_bytes + ANSWER.size_bytes
    play.attached("http://a:1").expect(ToReplica(HELLO), ToReplica(ANSWER)).over()
    assert core.backlog_bytes == 0


@pytest.mark.parametrize("closed", [Closed(None), Closed(1000, "bye")])
def test_a_client_that_leaves_early_has_nobody_to_be_told(closed: Closed) -> None:
    core = PassthroughCore(CAP_BYTES)
    (
        Playbook(core)
        .client(HELLO).expect()
        .client(closed).expect(End(Side.CLIENT, closed.code, closed.reason or ""))
        .attached("http://a:1").expect()
        .over()
    )  # fmt: skip
    assert core.backlog_bytes == 0


def test_a_client_that_waits_hears_its_place_in_the_queue() -> None:
    (
        Playbook(PassthroughCore(CAP_BYTES))
        .queued(1, 2).expect(ToClient(Message('{"type": "queue_status", "position": 1, "queue_depth": 2}')))
        .attached("http://a:1").expect()
        .queued(0, 1).expect()
        .over()
    )  # fmt: skip


def test_no_replica_for_an_early_client_is_told_in_band() -> None:
    core = PassthroughCore(CAP_BYTES)
    message, *rest = core.unavailable(errors.NoHealthyReplica())
    assert message == ToClient(Message(errors_text(errors.NoHealthyReplica())))
    assert rest == [
        ToClient(Closed(1013, "no_healthy_replica")),
        End(Side.GATEWAY, 1013, "no_healthy_replica"),
    ]


def errors_text(cause: SessionEnded) -> str:
    text = message_for(cause)
    assert text is not None
    return text


def test_an_unhealthy_replica_keeps_its_session_unless_told_to_close_it() -> None:
    (
        playbook()
        .replica(ANSWER).expect(ToClient(ANSWER))
        .unhealthy("keep").expect()
        .unhealthy("drain").expect()
        .stalled().expect()
        .unhealthy("close")
        .expect(
            ToClient(Closed(1011, "replica_lost")),
            ToReplica(Closed(1001, "replica_lost")),
            End(Side.GATEWAY, 1011, "replica_lost"),
        )
        .over()
    )  # fmt: skip


messages = st.builds(Message, st.text(max_size=40) | st.binary(max_size=CAP_BYTES + 20))
closes = st.builds(Closed, st.none() | st.integers(0, 5000), st.none() | st.text(max_size=10))
events: st.SearchStrategy[Event] = st.one_of(
    messages, closes, st.builds(Ping, st.binary(max_size=5)), st.builds(Pong, st.binary(max_size=5))
)
causes = st.sampled_from(
    [errors.IdleTimeout(), errors.GatewayRestarting(), errors.ReplicaLost(), errors.InternalError()]
)
Line = tuple[Side, Event | SessionEnded]
lines: st.SearchStrategy[Line] = st.one_of(
    st.tuples(st.sampled_from([Side.CLIENT, Side.REPLICA]), events),
    st.tuples(st.just(Side.GATEWAY), causes),
)


def answers(core: PassthroughCore, script: list[Line]) -> list[tuple[Line, tuple[Command, ...]]]:
    """Each line with what it was answered."""
    return [((speaker, said), answer(core, speaker, said)) for speaker, said in script]


def answer(core: PassthroughCore, speaker: Side, said: Event | SessionEnded) -> tuple[Command, ...]:
    if isinstance(said, SessionEnded):
        return core.fail(said)
    return core.from_client(said) if speaker is Side.CLIENT else core.from_replica(said)


@given(st.lists(st.tuples(st.booleans(), st.builds(Message, st.text(max_size=20) | st.binary(max_size=20)))))
def test_any_sequence_of_messages_passes_unchanged_and_in_order(said: list[tuple[bool, Message]]) -> None:
    core = attached_core()
    passed: list[Command] = []
    for by_client, message in said:
        passed += core.from_client(message) if by_client else core.from_replica(message)
    assert passed == [ToReplica(message) if by_client else ToClient(message) for by_client, message in said]


@given(st.lists(lines, max_size=12))
def test_after_an_end_nothing_comes_out(script: list[Line]) -> None:
    ended = False
    for _, commands in answers(attached_core(), script):
        assert not (ended and commands)
        ends = [index for index, command in enumerate(commands) if isinstance(command, End)]
        assert ends in ([], [len(commands) - 1]), "an End is the last of its commands"
        ended = ended or bool(ends)


@given(st.lists(lines, max_size=12))
def test_each_side_gets_at_most_one_close_and_nothing_after_it(script: list[Line]) -> None:
    closed: set[type] = set()
    for _, commands in answers(attached_core(), script):
        for command in commands:
            if not isinstance(command, ToClient | ToReplica):
                continue
            assert type(command) not in closed
            if isinstance(command.event, Closed):
                closed.add(type(command))


@given(st.lists(lines, max_size=12))
def test_a_side_that_did_not_close_itself_is_told_before_the_end(script: list[Line]) -> None:
    for (speaker, said), commands in answers(attached_core(), script):
        if not commands or not isinstance(commands[-1], End):
            continue
        told = {
            type(command)
            for command in commands
            if isinstance(command, ToClient | ToReplica) and isinstance(command.event, Closed)
        }
        if not (speaker is Side.CLIENT and isinstance(said, Closed)):
            assert ToClient in told
        if not (speaker is Side.REPLICA and isinstance(said, Closed)):
            assert ToReplica in told


@given(st.lists(lines, max_size=12))
def test_the_gateway_says_nothing_of_its_own_once_the_replica_has_spoken(script: list[Line]) -> None:
    spoke = False
    for (speaker, said), commands in answers(attached_core(), script):
        for command in commands:
            if isinstance(command, ToClient) and isinstance(command.event, Message):
                assert not spoke or (speaker is Side.REPLICA and command.event is said)
        spoke = spoke or (speaker is Side.REPLICA and isinstance(said, Message) and bool(commands))
