"""What follows from a scenario's values: plans of replicas, names, needs, the order of actions."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from emulator.faults import Abort, Latency, Stall
from emulator.replica.scaling import ScaleToZero
from emulator.scenario import Binary, Kill, Lift, Prompt, Say, Scenario, Wait
from emulator.scenario.reading import scenario_from


def test_a_replica_has_its_own_traits_over_those_of_all() -> None:
    replicas = scenario_from(
        """
        replicas:
          capacity: 2
          gateway: {weight: 2}
          faults: {latency: {}, stall: {seconds: 9}}
          each:
            "[ab]": {capacity: 3, segment_seconds: 1s, faults: {stall: {seconds: 1}}}
            b: {capacity: 1, faults: {abort: {}}, gateway: {max_sessions: 8, primary: true}}
        """
    ).replicas
    a, b, c = (replicas.plan(name) for name in replicas.names)
    assert (a.capacity, a.segment_seconds, a.faults) == (3, 1.0, (Latency(), Stall(seconds=1.0)))
    assert (b.capacity, b.segment_seconds) == (1, 1.0)
    assert b.faults == (Latency(), Stall(seconds=1.0), Abort())
    assert (c.capacity, c.segment_seconds, c.faults) == (2, 0.2, (Latency(), Stall(seconds=9.0)))
    assert a.gateway == {"max_sessions": 3, "weight": 2}
    assert b.gateway == {"max_sessions": 8, "weight": 2, "primary": True}
    assert b.generation.segment_seconds == 1.0


def test_one_that_scales_to_zero_is_told_so_to_the_gateway() -> None:
    replicas = scenario_from(
        """
        replicas:
          each:
            a: {scale_to_zero: {idle: 2s}}
            b: {scale_to_zero: {wake: 300ms}, gateway: {cold_start: false}}
        """
    ).replicas
    a, b, c = (replicas.plan(name) for name in replicas.names)
    assert (a.scaling, a.gateway) == (
        ScaleToZero(idle_seconds=2, wake_seconds=5),
        {"max_sessions": 4, "cold_start": True},
    )
    assert (b.scaling, b.gateway) == (
        ScaleToZero(idle_seconds=60, wake_seconds=0.3),
        {"max_sessions": 4, "cold_start": False},
    )
    assert (c.scaling, c.gateway) == (None, {"max_sessions": 4})


def test_a_session_without_a_count_has_its_plain_name() -> None:
    found = scenario_from("sessions: [{name: x}, {name: y, count: 1}, {name: z, count: 2}]")
    assert found.session_names == ["x", "y1", "z1", "z2"]


def test_lines_of_a_script_are_told_apart_by_their_keys() -> None:
    (session,) = scenario_from(
        "sessions: [{prompts: [hello, {prompt: x, seed: 2}, {send: {type: y}}, {send: raw}, "
        "{binary_bytes: 3}, {wait: 1}]}]"
    ).sessions
    assert session.prompts == (
        Prompt(prompt="hello"),
        Prompt(prompt="x", seed=2),
        Say(send={"type": "y"}),
        Say(send="raw"),
        Binary(binary_bytes=3),
        Wait(wait=1.0),
    )


def test_a_number_of_prompts_stands_for_numbered_ones() -> None:
    (session,) = scenario_from("sessions: [{prompts: 2}]").sessions
    assert session.prompts == (Prompt(prompt="prompt 1"), Prompt(prompt="prompt 2"))


def test_a_session_asks_for_one_segment_unless_it_says_otherwise() -> None:
    (session,) = scenario_from("sessions: [{}]").sessions
    assert session.prompts == (Prompt(prompt="prompt 1"),)
    assert session.init_message() == {"type": "session_init_v2"}


def test_a_session_may_say_no_init() -> None:
    (session,) = scenario_from("sessions: [{init: null, prompts: 0}]").sessions
    assert session.init_message() is None
    assert session.prompts == ()


def test_actions_of_a_step_have_their_order() -> None:
    (step,) = scenario_from("timeline: [{kill: a, at: 0, lift: b}]").timeline
    assert step.actions == (Lift(replica=("b",)), Kill(replica=("a",)))


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("{}", ()),
        ("gateway: {needs: [queue, retry]}", ("retry", "queue")),
        ("expect: {status: {replicas: {a: healthy}}}", ("status",)),
        ("timeline: [{when: {status: {a: unhealthy}}, kill: b}]", ("status",)),
        ("sessions: [{}]\nexpect: {sessions: {s: {resumed: 1}}}", ("resume",)),
        ("sessions: [{}]\nexpect: {sessions: {s: {resumed: none}}}", ()),
        ("timeline: [{at: 0, gateway: SIGTERM}]\nexpect: {gateway: {exit: 0}}", ("drain",)),
    ],
)
def test_needs_follow_from_what_is_expected(text: str, needs: tuple[str, ...]) -> None:
    assert scenario_from(text).needs == needs


def test_nothing_of_a_scenario_can_be_changed() -> None:
    scenario = Scenario()
    with pytest.raises(ValidationError):
        scenario.seed = 3


def test_scenarios_with_the_same_values_are_equal() -> None:
    text = "replicas: {faults: {abort: {}}}\nsessions: [{}]"
    assert scenario_from(text) == scenario_from(text)
