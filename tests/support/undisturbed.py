"""What a session's media has to be, without a server: the emulator's generator is a pure function."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from emulator import media
from emulator.protocol.messages import ContinuationState
from emulator.protocol.script import Generation
from emulator.running.story import Story
from tests.support.long_session import Prompt


def segment_hashes(
    asked: Sequence[tuple[str, int]],
    *,
    generation: Generation | None = None,
    state: ContinuationState | None = None,
) -> list[str]:
    """The hash of each segment's media, for prompts with their seeds."""
    pace = generation or Generation()
    digest = media.digest_of(state)
    found = []
    for prompt, seed in asked:
        made = media.generate(
            digest, prompt=prompt, seed=seed, chunks=pace.chunks, chunk_bytes=pace.chunk_bytes
        )
        found.append(hashlib.sha256(made.init + b"".join(made.chunks)).hexdigest())
        digest = made.digest
    return found


def assert_undisturbed(story: Story, asked: Sequence[Prompt]) -> None:
    """The client got all that it asked for, once and in order, byte by byte as if nothing had happened."""
    assert story.problems == [], str(story)
    assert story.errors == [], str(story)
    assert story.finished, str(story)
    assert story.prompts == [prompt.text for prompt in asked]
    assert story.hashes == segment_hashes([(prompt.text, prompt.seed) for prompt in asked])


def assert_lost(story: Story, *, retryable: bool = True) -> None:
    """The client was told that its replica is lost, in band and by the close."""
    told = [(error["code"], error["retryable"]) for error in story.errors]
    assert told == [("worker_failed", retryable)], str(story)
    assert (story.close_code, story.close_reason) == (1011, "replica_lost")
    assert story.problems == []
    assert not story.finished


def resumes(story: Story) -> list[tuple[int, str]]:
    """Each time that the session went on elsewhere: the next segment, and where."""
    return [(message["segment_idx"], message["replica"]) for message in story.resumed]
