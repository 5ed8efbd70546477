"""PURE. Real video: a fragmented MP4 with H.264 and AAC, the same bytes for the same order, in every process.

One thread and "bitexact" everywhere: no clock, no name of a version, nothing that depends on who came first.
Needs PyAV (the extra `media`), which brings FFmpeg with libx264.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from emulator.media import scene, tone
from emulator.media.boxes import avc_codec, parts
from emulator.media.canvas import Canvas
from emulator.media.chain import digest_after
from emulator.media.segment import Order, Segment

AAC_CODEC = "mp4a.40.2"
AUDIO_BITS = 64_000
FRAME_SAMPLES = 1024
"""Of an AAC frame."""

_X264 = {
    "preset": "veryfast",
    "crf": "23",
    "profile": "baseline",
    "threads": "1",
    # With it, x264 165 on a CPU with AVX-512 makes other bytes of the same pictures now and then, the more so
    # the more its process has done before (up to 4 in 10 segments; 0 of 800 without it).
    "mbtree": "0",
    "forced-idr": "1",
    # Keyframes stand where a fragment begins, and nowhere else.
    "g": "100000",
    "sc_threshold": "0",
    "flags": "+bitexact",
}
_MP4 = {"movflags": "frag_keyframe+empty_moov+default_base_moof+skip_trailer", "fflags": "+bitexact"}


def encode(order: Order) -> Segment:
    """The segment, in as many fragments as chunks were asked for (no more than it has frames). Takes about
    0.1 s of CPU."""
    digest = digest_after(order.digest, prompt=order.prompt, seed=order.seed)
    shape = order.picture
    written = io.BytesIO()
    with av.open(written, "w", format="mp4", options=_MP4) as file:
        video = file.add_stream("libx264", rate=shape.fps, options=_X264)
        video.width, video.height, video.pix_fmt = shape.width, shape.height, "yuv420p"
        audio = file.add_stream("aac", rate=tone.RATE, options={"flags": "+bitexact"})
        audio.layout, audio.bit_rate = "mono", AUDIO_BITS
        for packet in _in_order(_video(video, order, digest), _audio(audio, order, digest)):
            file.mux(packet)
    init, chunks = parts(written.getvalue())
    return Segment(init, chunks, digest, mime=f'video/mp4; codecs="{avc_codec(init)},{AAC_CODEC}"')


def _video(stream: VideoStream, order: Order, digest: str) -> Iterator[Packet[Any]]:
    shape = order.picture
    chunks = min(order.chunks, shape.num_frames)
    starts = {shape.num_frames * chunk // chunks for chunk in range(chunks)}
    for number, canvas in enumerate(scene.frames(order, digest)):
        frame = _frame(canvas)
        frame.pts, frame.time_base = number, Fraction(1, shape.fps)
        frame.pict_type = PictureType.I if number in starts else PictureType.NONE
        yield from stream.encode(frame)
    yield from stream.encode(None)


def _frame(canvas: Canvas) -> VideoFrame:
    frame = VideoFrame(canvas.width, canvas.height, "yuv420p")
    for plane, dots in zip(frame.planes, (canvas.y, canvas.u, canvas.v), strict=True):
        width, gap = plane.width, plane.line_size - plane.width
        if gap:
            rows = (bytes(dots[start : start + width]) for start in range(0, len(dots), width))
            plane.update(bytes(gap).join(rows) + bytes(gap))
        else:
            plane.update(bytes(dots))
    return frame


def _audio(stream: AudioStream, order: Order, digest: str) -> Iterator[Packet[Any]]:
    count = tone.RATE * order.picture.num_frames // order.picture.fps
    wave = tone.samples(digest, count)
    for start in range(0, count, FRAME_SAMPLES):
        piece = wave[start * 4 : (start + FRAME_SAMPLES) * 4]
        frame = AudioFrame("fltp", "mono", len(piece) // 4)
        frame.planes[0].update(piece + bytes(frame.planes[0].buffer_size - len(piece)))
        frame.sample_rate, frame.pts, frame.time_base = tone.RATE, start, Fraction(1, tone.RATE)
        yield from _audible(stream.encode(frame))
    yield from _audible(stream.encode(None))


def _audible(packets: list[Packet[Any]]) -> Iterator[Packet[Any]]:
    """Without the encoder's run-up: sound and picture begin at 0, and no edit list has to say otherwise."""
    return (packet for packet in packets if packet.pts is not None and packet.pts >= 0)


def _in_order(*streams: Iterator[Packet[Any]]) -> list[Packet[Any]]:
    """By their time, as a file has them."""
    packets = [packet for stream in streams for packet in stream]
    return sorted(packets, key=lambda packet: (packet.dts or 0) * (packet.time_base or Fraction(1)))
