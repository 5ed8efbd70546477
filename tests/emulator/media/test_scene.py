from __future__ import annotations

from emulator.media import Order, Picture, digest_of
from emulator.media.canvas import Canvas, Colour
from emulator.media.scene import colour_of, frames

SMALL = Picture(width=160, height=120, fps=24, num_frames=3)


def drawn(**changes: object) -> list[bytes]:
    fields: dict[str, object] = {"digest": digest_of(None), "prompt": "p", "picture": SMALL, **changes}
    order = Order(**fields)  # type: ignore[arg-type]
    return [bytes(canvas.y + canvas.u + canvas.v) for canvas in frames(order, "ab" * 32)]


def test_every_frame_differs_from_the_one_before() -> None:
    assert len(set(drawn())) == SMALL.num_frames


def test_number_prompt_and_watermark_can_be_seen() -> None:
    looks = [drawn(), drawn(number=1), drawn(prompt="q"), drawn(watermark="a"), drawn(watermark="b")]
    assert len({frame for look in looks for frame in look[:1]}) == len(looks)


def test_replicas_have_colours_of_their_own() -> None:
    colours = [colour_of(name) for name in ("a", "b", "c", "d", "e", "f", "aa")]
    assert len(set(colours)) == len(colours)


def test_what_is_drawn_outside_the_picture_is_left_out() -> None:
    canvas = Canvas.blank(8, 8)
    white = Colour.of_rgb(1, 1, 1)
    before = canvas.copy()
    canvas.span(-1, 0, 8, white)
    canvas.span(8, 0, 8, white)
    canvas.span(2, 8, 20, white)
    canvas.span(2, 5, 5, white)
    assert canvas == before
    canvas.box(-4, -4, 100, 100, white)
    assert set(canvas.y) == {235}


def test_colours_are_in_the_range_that_video_has() -> None:
    assert Colour.of_rgb(0, 0, 0) == Colour(16, 128, 128)
    assert Colour.of_rgb(1, 1, 1) == Colour(235, 128, 128)
    assert Colour(0, 100, 200).towards(Colour(100, 0, 200), 0.5) == Colour(50, 50, 200)
