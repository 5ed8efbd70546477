"""What is read of the streaming protocol, and what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.session import protocol
from gateway.session.protocol import read_client, read_replica

RECORDED = Path(__file__).parents[2] / "emulator" / "protocol" / "recorded-sessions.jsonl"
CONVERSATIONS = [
    recorded for line in RECORDED.read_text().splitlines() if "steps" in (recorded := json.loads(line))
]


@pytest.mark.parametrize("recorded", CONVERSATIONS, ids=lambda recorded: recorded["conversation"])
def test_what_a_real_server_was_recorded_with_is_read(recorded: dict[str, Any]) -> None:
    for step in recorded["steps"]:
        if "s" in step:
            said = read_replica(json.dumps(step["s"]))
            assert said is not None
            assert said.type == step["s"]["type"]
            assert said.segment_idx == step["s"].get("segment_idx")
            assert said.prompt == step["s"].get("prompt")
            assert said.code == step["s"].get("code")
            assert said.retryable == step["s"].get("retryable")
            assert json.loads(bytes(said.state) or b"null") == step["s"].get("state")
        elif "c" in step:
            known = step["c"]["type"] != "nonsense"
            assert (read_client(json.dumps(step["c"])) is not None) == known
        elif "c_text" in step:
            assert read_client(step["c_text"]) is None


@pytest.mark.parametrize(
    "data",
    [
        "",
        "null",
        "[]",
        "{}",
        '"session_init_v2"',
        '{"type":5}',
        '{"type":"nonsense"}',
        '{"type":"segment_prompt_source"}',
        '{"type":"segment_prompt_source","prompt":7}',
        '{"type":"enhancement_updated"}',
        '{"type":"snapshot_state"} x',
        "[" * 5000,
        "\ud800",
        b'{"type":"snapshot_state"}',
    ],
)
def test_what_is_no_message_of_a_client_is_of_no_kind(data: str | bytes) -> None:
    assert read_client(data) is None


def test_toggles_are_read_as_the_server_reads_them() -> None:
    text = '{"paused":"true","type":"generation_paused_updated","later":1}'
    assert read_client(text) == protocol.GenerationPausedUpdated(True)


def test_a_state_is_put_into_an_init_and_nothing_else_changes() -> None:
    init = '{"extra": [1,  2.50], "type":"session_init_v2","continuation_state":null,"client_id":"\\u00e9"}'
    assert protocol.with_state(init, b'{"kind":"k"}') == (
        '{"extra":[1,  2.50],"type":"session_init_v2",'
        '"continuation_state":{"kind":"k"},"client_id":"\\u00e9"}'
    )
    assert list(json.loads(protocol.with_state('{"type":"session_init_v2","z":1}', b"{}"))) == [
        "type",
        "z",
        "continuation_state",
    ]


def test_a_segment_number_is_replaced_and_nothing_else_changes() -> None:
    text = '{"type":"step_complete","segment_idx":0,"note":{"segment_idx":0},"x":1.0}'
    assert protocol.with_segment_idx(text, 12) == text.replace('"segment_idx":0', '"segment_idx":12', 1)


@pytest.mark.parametrize(
    ("data", "client_id"),
    [
        ('{"type":"session_init_v2","client_id":"c"}', "c"),
        ('{"type":"session_init_v2","client_id":""}', None),
        ('{"type":"session_init_v2","client_id":7}', None),
        ('{"type":"session_init_v2"}', None),
        ('{"type":"snapshot_state","client_id":"c"}', None),
        (b'{"type":"session_init_v2","client_id":"c"}', None),
        ("not json", None),
    ],
)
def test_a_client_is_known_by_its_init(data: str | bytes, client_id: str | None) -> None:
    assert protocol.client_id(data) == client_id
