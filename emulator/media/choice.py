"""Which media there can be here: real video needs the extra `media`."""

from __future__ import annotations

from typing import Literal

from emulator.media.segment import MediaKind

MediaChoice = Literal["auto", "filler", "mp4"]
"""`auto` is real video where it can be made."""

HOW = "install it with `pip install '.[emulator,media]'` in a clone, or take filler"


class NoVideo(ValueError):
    """Real video was asked for, and cannot be made here."""


def chosen(wanted: MediaChoice) -> MediaKind:
    """What there will be. Raises NoVideo when real video was asked for by name and cannot be made."""
    if wanted == "filler":
        return "filler"
    missing = _missing()
    if missing is not None and wanted == "mp4":
        raise NoVideo(f"mp4 needs {missing}: {HOW}")
    return "filler" if missing is not None else "mp4"


def _missing() -> str | None:
    """What real video lacks here; None for nothing."""
    try:
        from av.codec import Codec
    except ImportError:
        return "PyAV, which is not installed"
    try:
        Codec("libx264", "w")
        Codec("aac", "w")
    except ValueError:
        return "a PyAV with libx264 and aac, which the installed one lacks"
    return None
