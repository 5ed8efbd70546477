from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.protocol import messages


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            messages.QueueStatus(position=0, queue_depth=0),
            {"type": "queue_status", "position": 0, "queue_depth": 0},
        ),
        (
            messages.Ltx2StreamStart(width=256, height=256, fps=24, num_frames=24),
            {"type": "ltx2_stream_start", "width": 256, "height": 256, "fps": 24, "num_frames": 24},
        ),
        (messages.SnapshotState(), {"type": "snapshot_state"}),
        (
            messages.SegmentPromptSource(prompt="p", seed=3),
            {"type": "segment_prompt_source", "prompt": "p", "seed": 3},
        ),
        (
            messages.ErrorMessage(code="worker_failed", message="m", retryable=False),
            {"type": "error", "code": "worker_failed", "message": "m", "retryable": False},
        ),
    ],
)
def test_keys_without_a_value_are_left_out(message: Any, wire: dict[str, Any]) -> None:
    assert json.loads(messages.encode(message)) == wire
    assert messages.type_of(message) == wire["type"]


def test_extra_keys_of_a_client_are_ignored() -> None:
    text = '{"type":"session_init_v2","preset":"p","new_feature":{"x":1}}'
    assert messages.parse_client_message(text) == messages.SessionInitV2(preset="p")


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"nonsense"}',
        '{"type":"queue_status","position":0,"queue_depth":0}',
        "{}",
        "[]",
        '"session_init_v2"',
        '{"type":"segment_prompt_source"}',
        '{"type":"segment_prompt_source","prompt":7}',
        '{"type":"session_init_v2","stream_mode":"vhs"}',
    ],
)
def test_json_outside_the_catalogue_is_told_apart(text: str) -> None:
    with pytest.raises(messages.NotInCatalogue):
        messages.parse_client_message(text)


@pytest.mark.parametrize("text", ["not json", "", "{", "\ud800", "[" * 100_000])
def test_what_is_no_json_is_told_apart(text: str) -> None:
    with pytest.raises(messages.NotJson):
        messages.parse_client_message(text)


def test_a_server_message_comes_back_as_it_was() -> None:
    sent = messages.MediaInit(segment_idx=1, mime=messages.MIME_FMP4, stream_id="s", mode="av_fmp4")
    assert messages.parse_server_message(messages.encode(sent)) == sent


@pytest.mark.parametrize(
    ("text", "kind"),
    [('{"type":"x","y":[1]}', "x"), ("[]", None), ("no", None), ('{"type":1}', None), ("[" * 100_000, None)],
)
def test_the_type_of_anything_is_found_or_none(text: str, kind: str | None) -> None:
    assert messages.type_in(text) == kind


@pytest.mark.parametrize(
    ("text", "client_id"),
    [
        ('{"client_id":"me","x":1}', "me"),
        ("{}", None),
        ('{"client_id":1}', None),
        ("no", None),
        ("[" * 100_000, None),
    ],
)
def test_the_client_of_an_opening_message_is_found_or_none(text: str, client_id: str | None) -> None:
    assert messages.client_id_in(text) == client_id


def test_what_is_kept_of_a_message_is_short_whatever_its_client_says() -> None:
    text = json.dumps({"type": "t" * 100_000, "client_id": "c" * 100_000})
    assert messages.type_in(text) == "t" * messages.MOST_SHOWN
    assert messages.client_id_in(text) == "c" * messages.MOST_SHOWN
