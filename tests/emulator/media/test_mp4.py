"""Real video: what decoders find in it, and that it is the same bytes wherever it is made."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys

import av
import pytest

from emulator import media
from emulator.media import Order, Picture, Segment, digest_of
from emulator.media.boxes import boxes
from emulator.media.mp4 import encode
from tests.support.processes import ROOT, clean_environment

SMALL = Picture(width=96, height=64, fps=24, num_frames=24)
FIRST = Order(digest_of(None), "a pier at dawn", 3, picture=SMALL)

TIMESCALES = (12288, 48000)
"""Of the tracks: what FFmpeg makes of 24 frames a second, and the sound's rate."""

ELSEWHERE = """
from tests.emulator.media.test_mp4 import FIRST, encode, whole
import hashlib
print(hashlib.sha256(whole(encode(FIRST))).hexdigest())
"""


def whole(segment: Segment) -> bytes:
    return segment.init + b"".join(segment.chunks)


def following(segment: Segment, prompt: str) -> Segment:
    return encode(Order(segment.digest, prompt, number=1, picture=SMALL))


def later(chunk: bytes, *, seconds: int) -> bytes:
    """The chunk as a player puts it behind what came before: its tracks begin later (ISO/IEC 14496-12,
    8.8.12)."""
    shifted = bytearray(chunk)
    start = 0
    for timescale in TIMESCALES:
        start = chunk.index(b"tfdt", start) + 4
        assert chunk[start] == 1, "a time of 64 bits"
        time = int.from_bytes(chunk[start + 4 : start + 12]) + seconds * timescale
        shifted[start + 4 : start + 12] = time.to_bytes(8)
    return bytes(shifted)


def frames_in(data: bytes) -> tuple[int, int]:
    """Pictures and samples that a decoder makes of it."""
    with av.open(io.BytesIO(data), "r") as file:
        pictures = len(list(file.decode(video=0)))
    with av.open(io.BytesIO(data), "r") as file:
        samples = sum(frame.samples for frame in file.decode(audio=0))
    return pictures, samples


def test_a_segment_is_a_file_that_plays() -> None:
    data = whole(encode(FIRST))
    with av.open(io.BytesIO(data), "r") as file:
        video, audio = file.streams.video[0], file.streams.audio[0]
        assert (video.codec_context.name, audio.codec_context.name) == ("h264", "aac")
        assert (video.width, video.height, video.pix_fmt) == (96, 64, "yuv420p")
        pictures = list(file.decode(video=0))
    assert pictures[0].pts == 0
    assert [index for index, picture in enumerate(pictures) if picture.key_frame] == [0, 8, 16]
    assert frames_in(data) == (24, 47 * 1024)


def test_sound_and_picture_begin_at_once() -> None:
    with av.open(io.BytesIO(whole(encode(FIRST))), "r") as file:
        assert {packet.pts for packet in file.demux() if packet.pts is not None and packet.pts <= 0} == {0}
        assert [stream.start_time for stream in file.streams] == [0, 0]


def test_two_segments_are_a_file_that_plays_too() -> None:
    first = encode(FIRST)
    second = following(first, "the same, in rain")
    # Segments of one shape have one initialisation part, which a file needs once.
    assert second.init == first.init
    both = whole(first) + b"".join(later(chunk, seconds=1) for chunk in second.chunks)
    assert frames_in(both) == (48, 2 * 47 * 1024)
    with av.open(io.BytesIO(both), "r") as file:
        times = [float(picture.time or 0) for picture in file.decode(video=0)]
    assert times == pytest.approx([number / 24 for number in range(48)])


def test_the_parts_are_what_a_player_is_given() -> None:
    segment = encode(FIRST)
    assert [kind for kind, _ in boxes(segment.init)] == [b"ftyp", b"moov"]
    assert [[kind for kind, _ in boxes(chunk)] for chunk in segment.chunks] == [[b"moof", b"mdat"]] * 3
    # Each chunk can be the first that a player gets to see.
    assert frames_in(segment.init + segment.chunks[2])[0] == 8


@pytest.mark.parametrize(("chunks", "frames", "made"), [(1, 24, 1), (5, 24, 5), (3, 25, 3), (9, 4, 4)])
def test_there_are_as_many_chunks_as_asked_for_and_frames_to_begin_them(
    chunks: int, frames: int, made: int
) -> None:
    shape = Picture(width=64, height=64, num_frames=frames)
    segment = encode(Order(digest_of(None), "p", chunks=chunks, picture=shape))
    assert len(segment.chunks) == made
    assert frames_in(whole(segment))[0] == frames


@pytest.mark.parametrize("shape", [Picture(66, 70), Picture(256, 256), Picture(640, 360), Picture(1280, 720)])
def test_the_mime_type_is_that_of_the_stream(shape: Picture) -> None:
    shape = Picture(shape.width, shape.height, 24, 2)
    segment = encode(Order(digest_of(None), "p", chunks=1, picture=shape))
    with av.open(io.BytesIO(whole(segment)), "r") as file:
        context = file.streams.video[0].codec_context
        extradata = context.extradata
        assert extradata is not None
        codec = f"avc1.{extradata[1:4].hex().upper()}"
        assert (context.width, context.height) == (shape.width, shape.height)
    assert segment.mime == f'video/mp4; codecs="{codec},mp4a.40.2"'
    assert codec.startswith("avc1.42C0"), "constrained baseline, which everything plays"


def test_it_goes_on_in_the_chain_of_the_filler() -> None:
    filler = media.generate(FIRST.digest, prompt=FIRST.prompt, seed=3, chunks=1, chunk_bytes=1)
    assert encode(FIRST).digest == filler.digest


def test_the_same_order_makes_the_same_bytes_in_another_process() -> None:
    here = whole(encode(FIRST))
    assert whole(encode(FIRST)) == here
    there = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        cwd=ROOT,
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert there.stdout.split() == [hashlib.sha256(here).hexdigest()]


def test_the_same_order_makes_the_same_bytes_however_often_it_is_asked_for() -> None:
    made = {whole(encode(FIRST)) for _ in range(40)}
    assert len(made) == 1


def test_the_encoder_does_nothing_that_depends_on_its_process() -> None:
    """It writes what it was told into the stream."""
    (told,) = re.findall(rb"options: ([^\0]+)", whole(encode(FIRST)))
    assert {b"threads=1", b"sliced_threads=0", b"mbtree=0"} <= set(told.split())


@pytest.mark.parametrize(
    "other",
    [
        Order("0" * 64, "a pier at dawn", 3, picture=SMALL),
        Order(digest_of(None), "a pier at dusk", 3, picture=SMALL),
        Order(digest_of(None), "a pier at dawn", 4, picture=SMALL),
        Order(digest_of(None), "a pier at dawn", 3, number=1, picture=SMALL),
        Order(digest_of(None), "a pier at dawn", 3, picture=SMALL, watermark="a"),
    ],
)
def test_every_part_of_the_order_shows_in_the_bytes(other: Order) -> None:
    assert whole(encode(other)) != whole(encode(FIRST))


def test_watermarks_of_two_replicas_differ() -> None:
    made = [encode(Order(digest_of(None), "p", picture=SMALL, watermark=name)) for name in ("a", "b")]
    assert whole(made[0]) != whole(made[1])
    assert made[0].digest == made[1].digest, "the session goes on alike"
