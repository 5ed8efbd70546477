"""Replicas that stream real video: the same bytes on each of them, in this process and in their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from emulator.farm import HEIGHT, WIDTH, Farm, Isolation
from emulator.media import Order, Picture, digest_of
from emulator.media.mp4 import encode
from emulator.protocol.script import Generation
from tests.emulator.sessions import session

SMALL = Generation(segment_seconds=0, steps=1, width=96, height=64)
SHAPE = Picture(96, 64)


def expected(*prompts: str) -> list[bytes]:
    """The media of a session that asked for these, with its number as seed each."""
    made, digest = [], digest_of(None)
    for number, prompt in enumerate(prompts):
        segment = encode(Order(digest, prompt, number, number=number, picture=SHAPE))
        made.append(segment.init + b"".join(segment.chunks))
        digest = segment.digest
    return made


@pytest.mark.parametrize("isolate", ["none", "process"])
async def test_a_session_that_goes_on_elsewhere_gets_the_same_bytes(isolate: Isolation) -> None:
    async with Farm(2, generation=SMALL, media="mp4", isolate=isolate) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            got = [await client.segment("one", 0), await client.segment("two", 1)]
            state = await client.snapshot()
        async with session(farm.replicas["b"].ws_url) as client:
            await client.open(continuation_state=state)
            got.append(await client.segment("three", 2))
    assert got == expected("one", "two", "three")


async def test_the_messages_around_it_say_what_comes() -> None:
    async with Farm(1, generation=SMALL, media="mp4") as farm, session(farm.replicas["a"].ws_url) as client:
        await client.open()
        await client.send({"type": "segment_prompt_source", "prompt": "one", "seed": 0})
        heard = await client.receive_until("ltx2_segment_complete")
    segment = encode(Order(digest_of(None), "one", 0, picture=SHAPE))
    by_type = {message["type"]: message for message in heard.messages}
    assert by_type["media_init"]["mime"] == segment.mime
    assert by_type["media_init"]["mode"] == "av_fmp4"
    assert by_type["media_segment_complete"]["chunks"] == len(heard.media) - 1 == 3
    assert by_type["media_segment_complete"]["duration_ms"] == 1000.0
    assert heard.media == [segment.init, *segment.chunks]


async def test_a_watermark_makes_each_replicas_bytes_its_own() -> None:
    async with Farm(2, generation=SMALL, media="mp4", watermark=True) as farm:
        got = []
        for replica in farm.replicas.values():
            async with session(replica.ws_url) as client:
                await client.open()
                got.append(await client.segment("one", 0))
    assert len({*got, *expected("one")}) == 3


async def test_pictures_by_themselves_are_filler() -> None:
    async with Farm(1, generation=SMALL, media="mp4") as farm, session(farm.replicas["a"].ws_url) as client:
        await client.open(stream_mode="legacy_jpeg")
        media = await client.segment("one", 0)
    assert b"ftyp" not in media


async def test_a_kill_does_not_wait_for_a_segment_that_is_being_made() -> None:
    async with Farm(1, segment_seconds=0, media="mp4") as farm:
        assert (farm.replicas["a"].spec.generation.width, farm.replicas["a"].spec.generation.height) == (
            WIDTH,
            HEIGHT,
        )
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            await client.send({"type": "segment_prompt_source", "prompt": "never made", "seed": 9})
            await client.receive_until("step_complete")
            await farm.kill("a")
            assert (await client.to_the_end()).code is None
        await farm.restart("a")
        async with asyncio.timeout(20), session(farm.replicas["a"].ws_url) as client:
            await client.open()
            assert await client.segment("made", 0)


def test_a_watermark_needs_video() -> None:
    with pytest.raises(ValueError, match="a watermark needs a picture"):
        Farm(1, watermark=True)


@pytest.mark.parametrize(
    "shape",
    [
        replace(SMALL, width=65),
        replace(SMALL, height=30),
        replace(SMALL, fps=0),
        replace(SMALL, num_frames=0),
    ],
)
def test_a_shape_that_video_cannot_have_is_refused(shape: Generation) -> None:
    with pytest.raises(ValueError, match="real video must be"):
        replace(shape, media="mp4")
