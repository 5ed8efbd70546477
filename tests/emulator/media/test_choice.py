from __future__ import annotations

import sys

import pytest

from emulator.farm import Farm
from emulator.media.choice import NoVideo, chosen


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra `media` is not installed."""
    for name in [name for name in sys.modules if name == "av" or name.startswith("av.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "av", None)


def test_where_video_can_be_made_it_is_the_first_choice() -> None:
    assert [chosen("auto"), chosen("mp4"), chosen("filler")] == ["mp4", "mp4", "filler"]


@pytest.mark.usefixtures("no_library")
def test_without_the_library_there_is_filler_and_a_clear_no() -> None:
    assert [chosen("auto"), chosen("filler")] == ["filler", "filler"]
    with pytest.raises(NoVideo, match="mp4 needs PyAV, which is not installed: install it with `pip install"):
        chosen("mp4")


@pytest.mark.usefixtures("no_library")
def test_a_farm_is_refused_video_that_cannot_be_made() -> None:
    with pytest.raises(NoVideo):
        Farm(1, media="mp4")


def test_a_library_without_the_encoder_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, mode: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr("av.codec.Codec", refuse)
    assert chosen("auto") == "filler"
    with pytest.raises(NoVideo, match="libx264"):
        chosen("mp4")
