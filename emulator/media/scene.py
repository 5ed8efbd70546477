"""PURE. What a segment shows: hills that pass under a sun, in colours of its own, over a caption.

The hills and the sun go on from one segment to the next, as the number of the segment goes on; the colours
are those of the chain. The caption says the segment's number and its prompt, and a line above it fills while
the segment plays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from emulator.media import font
from emulator.media.canvas import Canvas, Colour
from emulator.media.segment import Order

CAPTION_SHARE = 0.26
"""Of the picture's height."""
SUN_FRAMES = 240
"""In which the sun crosses the sky once."""
PROMPT_LINES = 2

_INK = Colour.of_rgb(0.055, 0.065, 0.09)
_WHITE = Colour.of_rgb(0.97, 0.97, 0.95)
_GREY = Colour.of_rgb(0.70, 0.73, 0.78)


@dataclass(frozen=True, slots=True)
class _Hills:
    """One row of hills, nearest last."""

    crest: float
    """Share of the landscape's height that a crest reaches."""
    depth: float
    """Share of it from crest to valley."""
    waves: int
    """Hills in a picture's width."""
    speed: float
    """Widths that they move in a frame."""
    shade: float


_RANGES = (
    _Hills(crest=0.58, depth=0.26, waves=2, speed=0.0012, shade=0.42),
    _Hills(crest=0.42, depth=0.20, waves=3, speed=0.0030, shade=0.27),
    _Hills(crest=0.24, depth=0.14, waves=2, speed=0.0065, shade=0.14),
)


def frames(order: Order, digest: str) -> Iterator[Canvas]:
    """The pictures of the segment, whose chain stands at `digest` after it."""
    scene = _Scene(order, digest)
    base = scene.still()
    for number in range(order.picture.num_frames):
        canvas = base.copy()
        scene.move(canvas, number)
        yield canvas


def colour_of(name: str) -> Colour:
    """A replica's own; neighbours in the alphabet differ clearly."""
    number = sum(ord(letter) * 31**index for index, letter in enumerate(reversed(name)))
    # Steps of the golden section go round the colours without coming close to one of the last few.
    return Colour.of_hue((number - ord("a")) * 0.381966 + 0.58, 0.62, 0.92)


class _Scene:
    def __init__(self, order: Order, digest: str) -> None:
        shape = order.picture
        self._order = order
        self._width, self._height = shape.width, shape.height
        self._ground = round(shape.height * (1 - CAPTION_SHARE)) // 2 * 2
        self._unit = max(1, min(shape.width // 200, shape.height // 112))
        hue = int(digest[:4], 16) / 0xFFFF
        self._sky = (Colour.of_hue(hue, 0.72, 0.34), Colour.of_hue(hue + 0.08, 0.42, 0.94))
        self._sun = Colour.of_hue(hue + 0.12, 0.22, 1.0)
        self._hills = [Colour.of_hue(hue - 0.04, 0.62, hills.shade) for hills in _RANGES]
        self._accent = colour_of(order.watermark) if order.watermark else Colour.of_hue(hue + 0.1, 0.5, 0.95)

    def still(self) -> Canvas:
        """What stays as it is for all of the segment."""
        canvas = Canvas.blank(self._width, self._height)
        above, below = self._sky
        for row in range(self._ground):
            canvas.span(row, 0, self._width, above.towards(below, row / self._ground))
        canvas.box(0, self._ground, self._width, self._height - self._ground, _INK)
        self._caption(canvas)
        return canvas

    def move(self, canvas: Canvas, frame: int) -> None:
        """What moves, as it is in this frame of the segment."""
        shape = self._order.picture
        since_beginning = self._order.number * shape.num_frames + frame
        self._draw_sun(canvas, since_beginning % SUN_FRAMES / SUN_FRAMES)
        for hills, colour in zip(_RANGES, self._hills, strict=True):
            self._draw_hills(canvas, hills, colour, since_beginning)
        done = self._width * (frame + 1) // shape.num_frames
        canvas.box(0, self._ground, done, 2 * self._unit, self._accent)

    def _draw_sun(self, canvas: Canvas, way: float) -> None:
        x = self._width * (1.2 * way - 0.1)
        y = self._ground * (0.62 - 0.40 * math.sin(math.pi * way))
        sky = self._sky[0].towards(self._sky[1], min(max(y / self._ground, 0.0), 1.0))
        radius = self._ground * 0.11
        canvas.disc(x, y, radius * 1.9, sky.towards(self._sun, 0.18))
        canvas.disc(x, y, radius * 1.4, sky.towards(self._sun, 0.38))
        canvas.disc(x, y, radius, self._sun)

    def _draw_hills(self, canvas: Canvas, hills: _Hills, colour: Colour, frame: int) -> None:
        """Row by row from the crests down: in each the hills are as wide as a cosine is above that height."""
        top = round(self._ground * (1 - hills.crest))
        depth = self._ground * hills.depth
        length = self._width / hills.waves
        shift = (frame * hills.speed * self._width) % length
        for row in range(top, self._ground):
            level = 1 - 2 * (row - top + 0.5) / depth
            if level <= -1:
                canvas.box(0, row, self._width, self._ground - row, colour)
                return
            half = length * math.acos(level) / (2 * math.pi)
            for hill in range(hills.waves + 2):
                middle = hill * length - shift
                canvas.span(row, round(middle - half), round(middle + half), colour)

    def _caption(self, canvas: Canvas) -> None:
        unit, margin = self._unit, 5 * self._unit
        top = self._ground + 6 * unit
        number = f"SEGMENT {self._order.number}"
        canvas.text(margin, top, number, _WHITE, unit)
        if self._order.watermark:
            self._sign(canvas, top)
        columns = (self._width - 2 * margin) // (font.WIDTH * self._small)
        for index, line in enumerate(font.wrapped(self._order.prompt, columns, PROMPT_LINES)):
            row = top + font.HEIGHT * unit + 2 * unit + index * (font.HEIGHT + 1) * self._small
            canvas.text(margin, row, line, _GREY, self._small)

    @property
    def _small(self) -> int:
        return max(1, self._unit * 2 // 3)

    def _sign(self, canvas: Canvas, top: int) -> None:
        """The replica's name on its colour, in the caption's upper right corner."""
        unit = self._unit
        name = f"REPLICA {font.plain(self._order.watermark).upper()}"[:24]
        width = (len(name) * font.WIDTH - 1) * unit
        left = self._width - width - 8 * unit
        canvas.box(left - 3 * unit, top - 2 * unit, width + 6 * unit, 11 * unit, self._accent)
        canvas.text(left, top, name, _INK, unit)
