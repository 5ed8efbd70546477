"""PURE. What a segment sounds like: one soft note of a scale, chosen by the chain."""

from __future__ import annotations

import math
from array import array

RATE = 48_000
"""Samples a second."""
LOUDNESS = 0.12
FADE_SAMPLES = 1200

_PERIODS = (218, 184, 164, 146, 122)
"""Samples in one swing of each note: a pentatonic scale from about 220 Hz. Whole numbers, so that a swing is
computed once and repeated."""


def samples(digest: str, count: int) -> bytes:
    """`count` samples as 32-bit floats; loud in the middle, silent at both ends."""
    period = _PERIODS[int(digest[4:8], 16) % len(_PERIODS)]
    swing = array("f", (_wave(index / period) for index in range(period)))
    wave = (swing * (count // period + 1))[:count]
    fade = min(FADE_SAMPLES, count // 2)
    for index in range(fade):
        wave[index] *= index / fade
        wave[-1 - index] *= index / fade
    return wave.tobytes()


def _wave(turn: float) -> float:
    return LOUDNESS * (math.sin(2 * math.pi * turn) + 0.3 * math.sin(4 * math.pi * turn))
