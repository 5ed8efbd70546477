from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from emulator import media
from emulator.protocol.messages import ContinuationState

prompts = st.lists(st.tuples(st.text(max_size=20), st.integers(-(2**70), 2**70)), min_size=1, max_size=5)
states = st.none() | st.builds(
    ContinuationState,
    kind=st.text(max_size=5),
    payload=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5), max_size=3),
)


def walk(
    state: ContinuationState | None, asked: list[tuple[str, int]]
) -> tuple[bytes, ContinuationState | None]:
    """The media of these prompts one after the other, and the state after them."""
    made = b""
    for number, (prompt, seed) in enumerate(asked):
        segment = media.generate(media.digest_of(state), prompt=prompt, seed=seed, chunks=2, chunk_bytes=50)
        made += segment.init + b"".join(segment.chunks)
        state = media.state_after(segment.digest, segment_idx=number, prompt=prompt)
    return made, state


@given(states, prompts, prompts)
def test_a_session_continued_elsewhere_makes_the_same_bytes(
    state: ContinuationState | None, before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    whole, end = walk(state, before + after)
    first, between = walk(state, before)
    second, other_end = walk(between, after)
    assert first + second == whole
    assert media.digest_of(end) == media.digest_of(other_end)


@given(prompts, st.text(max_size=5), st.integers(0, 9))
def test_a_segment_depends_on_all_that_came_before(
    asked: list[tuple[str, int]], prompt: str, seed: int
) -> None:
    _, one = walk(None, asked)
    _, other = walk(None, [(prompt + "!", seed), *asked])
    assert media.digest_of(one) != media.digest_of(other)


def test_prompt_and_seed_cannot_be_mistaken_for_each_other() -> None:
    one = media.generate("d", prompt="2\nx", seed=1, chunks=1, chunk_bytes=8)
    other = media.generate("d", prompt="x", seed=12, chunks=1, chunk_bytes=8)
    assert one.digest != other.digest


def test_the_bytes_are_the_published_ones() -> None:
    """A change of the generator breaks stored comparisons: this one must be meant."""
    segment = media.generate(media.digest_of(None), prompt="x", seed=0, chunks=1, chunk_bytes=8)
    assert segment.digest[:32] == "866d68c2d8ed141bb60624acf0aca491"


def test_the_sizes_are_as_asked() -> None:
    segment = media.generate("d", prompt="p", seed=0, chunks=3, chunk_bytes=1000)
    assert [len(chunk) for chunk in segment.chunks] == [1000, 1000, 1000]
    assert len({segment.init, *segment.chunks}) == 4


def test_a_foreign_state_is_continued_deterministically_whatever_the_order_of_its_keys() -> None:
    one = ContinuationState(kind="ltx2.v1", payload={"schema_version": 1, "segment_index": 3})
    other = ContinuationState(kind="ltx2.v1", payload={"segment_index": 3, "schema_version": 1})
    assert media.digest_of(one) == media.digest_of(other) != media.digest_of(None)


@given(states, st.integers(0, 10_000))
def test_a_padded_state_is_larger_and_continued_alike(
    state: ContinuationState | None, size_bytes: int
) -> None:
    made = state or media.state_after("0" * 64, segment_idx=0, prompt="p")
    padded = media.padded(made, size_bytes)
    assert len(msgspec.json.encode(padded)) >= size_bytes
    if media.PADDING not in made.payload:
        assert media.digest_of(padded) == media.digest_of(made)


def test_an_extension_is_the_same_on_every_replica() -> None:
    digests = ["0" * 64, "f" * 64]
    assert [media.extension_of(d) for d in digests] == [media.extension_of(d) for d in digests]
    assert media.extension_of(digests[0]) != media.extension_of(digests[1])
