"""What a session's media has to be, without a server: the emulator's generator is a pure function."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from emulator import media
from emulator.messages import ContinuationState
from emulator.script import Generation
from tests.support.long_session import Prompt
from tests.support.story import Story


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
