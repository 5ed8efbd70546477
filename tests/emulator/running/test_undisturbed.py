"""What media has to be: the same as a real replica makes when nothing is wrong."""

from __future__ import annotations

import hashlib
from typing import Any

from emulator.farm import Farm
from emulator.protocol.script import Generation
from emulator.running.undisturbed import asked_of, segment_hashes
from emulator.scenario import Prompt
from tests.emulator.running.build import attempt, opening, scenario, seen, segment
from tests.emulator.sessions import session

INIT: dict[str, Any] = {"type": "session_init_v2"}


async def test_it_is_what_a_replica_sends() -> None:
    texts = ["a pier at dawn", "the same, in rain", "a gull lands"]
    async with Farm(1) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            sent = [await client.segment(text, seed) for seed, text in enumerate(texts)]
    prompts = [Prompt(prompt=text, seed=seed) for seed, text in enumerate(texts)]
    assert segment_hashes(Generation(), INIT, prompts) == [hashlib.sha256(each).hexdigest() for each in sent]


def test_it_goes_on_from_a_state_that_the_session_began_with() -> None:
    state = {"kind": "ltx2.v1", "payload": {"digest": "ab" * 32}}
    prompts = [Prompt(prompt="a pier")]
    assert segment_hashes(Generation(), INIT, prompts) != segment_hashes(
        Generation(), {**INIT, "continuation_state": state}, prompts
    )


def test_a_replica_that_ends_sessions_early_makes_no_difference() -> None:
    prompts = [Prompt(prompt="a"), Prompt(prompt="b")]
    assert segment_hashes(Generation(segment_cap=1), INIT, prompts) == segment_hashes(
        Generation(), INIT, prompts
    )


def test_a_session_that_goes_on_by_itself_gets_one_segment_a_prompt() -> None:
    extending = {**INIT, "auto_extension_enabled": True}
    assert len(segment_hashes(Generation(), extending, [Prompt(prompt="a"), Prompt(prompt="b")])) == 2


def test_segments_have_to_be_of_the_prompts_that_were_asked() -> None:
    of = scenario("sessions: [{name: s, prompts: [a, b, c]}]")
    came = seen(of, "s", attempt([*opening(), *segment(0, "a"), *segment(1, "x")]))
    assert [prompt.prompt for prompt in asked_of(came)] == ["a", "b"]


def test_what_a_session_thought_of_itself_is_taken_as_it_was_told() -> None:
    of = scenario(
        "sessions: [{name: s, init: {auto_extension_enabled: true}, prompts: [{prompt: a, seed: 3}, b]}]"
    )
    came = seen(of, "s", attempt([*opening(), *segment(0, "a"), *segment(1, "own"), *segment(2, "b")]))
    assert [(prompt.prompt, prompt.seed) for prompt in asked_of(came)] == [
        ("a", 3),
        ("own", None),
        ("b", None),
    ]
