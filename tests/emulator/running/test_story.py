"""The checker of long sessions itself: what it must let pass, and what it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.running.story import Story

OPENING: list[dict[str, Any]] = [
    {"type": "queue_status", "position": 0, "queue_depth": 0},
    {"type": "gpu_assigned", "gpu_id": 0, "session_timeout": 1},
    {"type": "ltx2_stream_start", "width": 1, "height": 1, "fps": 1, "num_frames": 1},
]


def segment(number: int, stream: str = "s", media: bytes = b"12") -> list[dict[str, Any] | bytes]:
    """All of a segment."""
    return [
        {"type": "ltx2_segment_start", "segment_idx": number, "prompt": f"p{number}", "total_steps": 1},
        {"type": "step_complete", "segment_idx": number, "step": 1, "total_steps": 1, "stage": "x"},
        {"type": "media_init", "segment_idx": number, "mime": "m", "stream_id": stream, "mode": "av_fmp4"},
        *(media[at : at + 1] for at in range(len(media))),
        {
            "type": "media_segment_complete",
            "segment_idx": number,
            "stream_id": stream,
            "chunks": len(media) - 1,
        },
        {"type": "ltx2_segment_complete", "segment_idx": number, "generation_time_ms": 1},
    ]


def resumed(number: int) -> dict[str, Any]:
    return {"type": "session_resumed", "segment_idx": number, "replica": "b"}


def story_of(*said: dict[str, Any] | bytes) -> Story:
    story = Story()
    for message in said:
        story.take(message if isinstance(message, bytes) else json.dumps(message))
    return story


def test_an_interrupted_segment_counts_from_its_last_stream() -> None:
    story = story_of(
        *OPENING,
        *segment(0, "s0", b"ab"),
        *segment(1, "s1", b"xy")[:4],
        resumed(1),
        *segment(1, "s2", b"cd"),
    )
    assert (story.problems, story.completed, story.media) == ([], 2, b"abcd")
    assert [part.stream_ids for part in story.segments] == [["s0"], ["s1", "s2"]]


def test_a_loss_between_two_segments_interrupts_none() -> None:
    story = story_of(*OPENING, *segment(0), resumed(1), *segment(1, "t"))
    assert (story.problems, story.completed) == ([], 2)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([*segment(0)], "before the stream's start"),
        ([*OPENING, OPENING[1]], "a second gpu_assigned"),
        ([*OPENING, *segment(1)], "segment 1 starts, 0 are complete"),
        ([*OPENING, *segment(0), *segment(0)], "segment 0 starts, 1 are complete"),
        ([*OPENING, *segment(0)[:3], *segment(0)], "starts again, and nothing was resumed"),
        ([*OPENING, *segment(0)[:3], resumed(0), b"x"], "media outside a stream"),
        ([*OPENING, *segment(0)[:3], resumed(0), *segment(0)], "a stream was announced twice"),
        ([*OPENING, *segment(0)[:3], resumed(0), *segment(0)[3:]], "which is not running"),
        ([*OPENING, resumed(0), resumed(0)], "twice"),
        ([*OPENING, *segment(0), resumed(0)], "resumed at segment 0, 1 are complete"),
        ([*OPENING, *segment(0)[:4], *segment(0)[5:]], "chunks of 1"),
        ([*OPENING, segment(0)[0], *segment(0)[2:]], "media after 0 steps"),
        ([*OPENING, *segment(0)[:-2], segment(0)[-1]], "without its media"),
        ([*OPENING, b"x"], "media outside a stream"),
    ],
)
def test_what_the_protocol_forbids_is_a_problem(said: list[dict[str, Any] | bytes], problem: str) -> None:
    assert any(problem in found for found in story_of(*said).problems), story_of(*said).problems
