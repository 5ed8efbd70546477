from __future__ import annotations

import pytest

from emulator import media
from emulator.protocol.messages import ContinuationState


def foreign(**payload: object) -> ContinuationState:
    return ContinuationState(kind="ltx2.v1", payload=payload)


@pytest.mark.parametrize(
    ("state", "made"),
    [
        (None, 0),
        (media.state_after("a" * 64, segment_idx=0, prompt="p", made=7), 7),
        (foreign(segment_index=3), 4),
        (foreign(segment_index=0, segments_made=9), 9),
        (foreign(), 0),
        (foreign(segment_index="3"), 0),
        (foreign(segment_index=True), 0),
        (foreign(segment_index=-1), 0),
        (foreign(segments_made=10**30, segment_index=1), 2),
    ],
)
def test_the_state_tells_how_many_segments_lie_behind_it(state: ContinuationState | None, made: int) -> None:
    assert media.made_before(state) == made


def test_the_count_has_no_part_in_the_chain() -> None:
    """A session that goes on elsewhere may have lost it; its media is the same."""
    one = media.state_after("a" * 64, segment_idx=0, prompt="p", made=1)
    other = media.state_after("a" * 64, segment_idx=0, prompt="p", made=2)
    assert media.digest_of(one) == media.digest_of(other)


def test_a_stream_has_an_id_of_its_own_in_every_session() -> None:
    ids = {media.stream_id(digest, session) for digest in ("a" * 64, "b" * 64) for session in ("a:1", "b:1")}
    assert len(ids) == 4
