from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Opcode

from emulator.farm import Farm
from emulator.faults import CorruptMedia, FragmentStorm, NoPong, Oversized
from emulator.replica.frames import PING, blank_frame, fragments
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import PROMPT, UPGRADE, arm, kinds, lift
from tests.emulator.sessions import Client, session
from tests.support.waiting import eventually


@given(st.binary(max_size=300), st.integers(1, 400), st.integers(0, 5))
def test_fragments_are_the_message(data: bytes, fragment_bytes: int, ping_every: int) -> None:
    wire = b"".join(fragments(Opcode.BINARY, data, fragment_bytes, ping_every))
    found, opcodes, at = b"", [], 0
    while at < len(wire):
        size, head = wire[at + 1], 2
        if size == 126:
            size, head = int.from_bytes(wire[at + 2 : at + 4], "big"), 4
        opcodes.append(wire[at])
        found += wire[at + head : at + head + size]
        at += head + size
    assert found == data
    messages = [opcode for opcode in opcodes if opcode != PING[0]]
    assert messages[0] & 0x0F == Opcode.BINARY
    assert all(opcode & 0x0F == Opcode.CONT for opcode in messages[1:])
    assert [bool(opcode & 0x80) for opcode in messages] == [False] * (len(messages) - 1) + [True]
    assert len(opcodes) - len(messages) == ((len(messages) - 1) // ping_every if ping_every else 0)


@pytest.mark.parametrize("size", [0, 5, 126, 65536, 100_000])
def test_a_blank_frame_has_its_size(size: int) -> None:
    wire = b"".join(blank_frame(Opcode.TEXT, size))
    assert wire.endswith(b" " * size)
    assert len(wire) - size in (2, 4, 10)


@given(st.binary(min_size=1, max_size=200), st.integers(1, 300))
def test_corrupted_media_differ_and_keep_their_size(media: bytes, flipped: int) -> None:
    broken = CorruptMedia(flipped_bytes=flipped).broken(media)
    assert len(broken) == len(media)
    differing = sum(before != after for before, after in zip(media, broken, strict=True))
    assert differing == min(flipped, len(media))
    assert len(CorruptMedia(how="cut").broken(media)) == len(media) // 2


async def test_corrupt_media_are_those_of_one_segment_and_nothing_else_is_broken(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        whole = [await client.segment(prompt) for prompt in ("one", "two", "three")]
        state = await client.snapshot()
    await arm(replica, CorruptMedia(segment=1))
    async with session(replica.ws_url) as client:
        await client.open()
        broken = [await client.segment(prompt) for prompt in ("one", "two", "three")]
        assert await client.snapshot() == state
    assert [a == b for a, b in zip(whole, broken, strict=True)] == [True, False, True]
    assert len(broken[1]) == len(whole[1])


async def test_corrupt_media_may_be_short(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        whole = await client.segment("one")
        await arm(replica, CorruptMedia(how="cut"))
        assert len(await client.segment("two")) == len(whole) // 2
        await lift(replica, "corrupt_media")
        assert len(await client.segment("three")) == len(whole)


async def test_a_fragment_storm_is_made_of_many_frames_with_pings_in_between(replica: Replica) -> None:
    await arm(replica, FragmentStorm(fragment_bytes=10, ping_every=3))
    async with session(replica.ws_url) as client:
        await client.send({"type": "session_init_v2"})
        frames = [frame async for frame in client.socket.recv_streaming(decode=False)]
        assert len(frames) > 5
        assert b'"queue_status"' in b"".join(frames)
        await client.receive_until("ltx2_stream_start")
        stormy = await client.segment("p")
        await lift(replica, "fragment_storm")
    async with session(replica.ws_url) as client:
        await client.open()
        assert await client.segment("p") == stormy


async def test_a_storms_pings_are_answered(replica: Replica) -> None:
    await arm(replica, FragmentStorm(fragment_bytes=1, ping_every=1))
    reader, writer = await asyncio.open_connection(replica.spec.host, replica.port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    mask = bytes(4)
    text = b'{"type":"session_init_v2"}'
    writer.write(bytes([0x81, 0x80 | len(text)]) + mask + text)
    assert await reader.readexactly(7) == b"\x01\x01{" + PING + b"\x00\x01"
    writer.close()


@pytest.mark.parametrize("binary", [True, False])
async def test_an_oversized_message_is_one_message_more(replica: Replica, binary: bool) -> None:
    await arm(replica, Oversized(size_bytes=3_000_000, binary=binary, segment=0))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        seen: list[str | bytes] = []
        while len(seen) < 20:
            received = await client.socket.recv()
            seen.append(received)
            if len(received) == 3_000_000:
                break
        assert isinstance(seen[-1], bytes) is binary
        assert (await client.receive_until("ltx2_segment_complete")).media
        assert len(await client.segment("another")) < 100_000


async def receive_for_ever(client: Client) -> None:
    while True:
        await client.socket.recv()


async def test_a_client_with_a_limit_closes_with_1009_and_the_replica_understands(
    isolated: Farm, replica: Replica
) -> None:
    await arm(replica, Oversized(size_bytes=5_000_000), NoPong())
    async with session(replica.ws_url) as client:
        client.socket.protocol.max_message_size = 1_000_000
        await client.open()
        await client.send(PROMPT)
        with pytest.raises(ConnectionClosedError) as end:
            await receive_for_ever(client)
        assert end.value.sent is not None
        assert end.value.sent.code == 1009
    await eventually(lambda: kinds(isolated)[-1] == "connection_closed", "the session is over")
    assert "close_received" in kinds(isolated)
