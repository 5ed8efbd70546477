"""PURE. A picture as H.264 wants it: a plane of brightness, and two of colour at half the size (yuv420p).

All drawing is in spans, pieces of a row of one colour: cheap without a library for numbers.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Self

from emulator.media import font


@dataclass(frozen=True, slots=True)
class Colour:
    """As BT.601 has it, in the limited range that video uses."""

    y: int
    u: int
    v: int

    @classmethod
    def of_rgb(cls, red: float, green: float, blue: float) -> Self:
        """Each from 0 to 1."""
        return cls(
            y=round(16 + 65.481 * red + 128.553 * green + 24.966 * blue),
            u=round(128 - 37.797 * red - 74.203 * green + 112.0 * blue),
            v=round(128 + 112.0 * red - 93.786 * green - 18.214 * blue),
        )

    @classmethod
    def of_hue(cls, hue: float, saturation: float, value: float) -> Self:
        """Each from 0 to 1; the hue goes round."""
        return cls.of_rgb(*colorsys.hsv_to_rgb(hue % 1.0, saturation, value))

    def towards(self, other: Colour, share: float) -> Colour:
        """Between this one (0) and the other (1)."""
        return Colour(
            y=round(self.y + (other.y - self.y) * share),
            u=round(self.u + (other.u - self.u) * share),
            v=round(self.v + (other.v - self.v) * share),
        )


@dataclass(slots=True)
class Canvas:
    """The three planes of a picture with even sides."""

    width: int
    height: int
    y: bytearray
    u: bytearray
    v: bytearray

    @classmethod
    def blank(cls, width: int, height: int) -> Self:
        """A black one."""
        quarter = width * height // 4
        return cls(
            width,
            height,
            bytearray(b"\x10" * (width * height)),
            *(bytearray(b"\x80" * quarter) for _ in "uv"),
        )

    def copy(self) -> Canvas:
        """Another one that looks the same."""
        return Canvas(self.width, self.height, self.y[:], self.u[:], self.v[:])

    def span(self, row: int, left: int, right: int, colour: Colour) -> None:
        """The row from `left` up to `right` has the colour; what lies outside the picture is left out."""
        left, right = max(left, 0), min(right, self.width)
        if left >= right or not 0 <= row < self.height:
            return
        start = row * self.width
        self.y[start + left : start + right] = bytes((colour.y,)) * (right - left)
        if row % 2 == 0:
            start = row // 2 * (self.width // 2)
            left, right = left // 2, (right + 1) // 2
            self.u[start + left : start + right] = bytes((colour.u,)) * (right - left)
            self.v[start + left : start + right] = bytes((colour.v,)) * (right - left)

    def box(self, left: int, top: int, width: int, height: int, colour: Colour) -> None:
        """A filled rectangle."""
        for row in range(top, top + height):
            self.span(row, left, left + width, colour)

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        """A filled circle."""
        for row in range(round(y - radius), round(y + radius) + 1):
            half = (radius * radius - (row - y) ** 2) ** 0.5 if abs(row - y) < radius else 0.0
            self.span(row, round(x - half), round(x + half), colour)

    def text(self, left: int, top: int, text: str, colour: Colour, scale: int) -> None:
        """One line of letters, each dot a square of `scale`."""
        for position, letter in enumerate(text):
            start = left + position * font.WIDTH * scale
            for row, dots in enumerate(font.glyph(letter)):
                for column, dot in enumerate(dots):
                    if dot == "#":
                        self.box(start + column * scale, top + row * scale, scale, scale, colour)
