from __future__ import annotations

import asyncio

from emulator.farm import Farm
from emulator.faults import Bandwidth, Latency, Stall, StopReading
from emulator.replica.replica import Replica
from tests.emulator.faults.breaking import PROMPT, SHORT_SECONDS, arm, kinds, lift, stays_away
from tests.emulator.sessions import INIT, session
from tests.support.waiting import eventually


async def test_latency_that_is_lifted_ends_in_the_middle_of_its_wait(replica: Replica) -> None:
    await arm(replica, Latency(seconds=3600))
    async with session(replica.ws_url) as client:
        await client.send(INIT)
        assert await stays_away(client.socket.recv())
        await lift(replica, "latency")
        assert (await client.receive_until("ltx2_stream_start")).messages


async def test_latency_that_is_changed_is_the_new_one_at_once(replica: Replica) -> None:
    await arm(replica, Latency(seconds=3600))
    async with session(replica.ws_url) as client:
        await client.send(INIT)
        await eventually(lambda: replica.status()["faults"]["latency"]["struck"] == 1, "it waits")
        await arm(replica, Latency(seconds=0.01))
        assert (await client.receive_until("ltx2_stream_start")).messages
        assert replica.status()["faults"]["latency"]["struck"] == 1


async def test_latency_ends_with_its_time(replica: Replica) -> None:
    await arm(replica, Latency(seconds=3600, for_seconds=0.2))
    async with session(replica.ws_url) as client:
        assert (await client.open()).messages


async def test_latency_may_be_for_one_session_by_its_number(replica: Replica) -> None:
    await arm(replica, Latency(seconds=3600, session=2))
    async with session(replica.ws_url) as first, session(replica.ws_url) as second:
        await second.send(INIT)
        assert (await first.open()).messages
        assert await stays_away(second.socket.recv())


async def test_a_narrow_bandwidth_cuts_messages_into_slices_and_what_comes_is_whole(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        whole = await client.segment("p")
    await arm(replica, Bandwidth(bytes_per_second=200_000))
    loop = asyncio.get_running_loop()
    async with session(replica.ws_url) as client:
        await client.open()
        began = loop.time()
        assert await client.segment("p") == whole
        assert loop.time() - began >= 0.8 * len(whole) / 200_000


async def test_bandwidth_is_changed_and_lifted_within_a_message(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        await arm(replica, Bandwidth(bytes_per_second=1))
        await client.send(PROMPT)
        assert await stays_away(client.socket.recv()), "the first message takes a minute"
        await arm(replica, Bandwidth(bytes_per_second=100_000))
        await client.receive_until("media_init")
        await arm(replica, Bandwidth(bytes_per_second=10))
        assert await stays_away(client.receive_until("ltx2_segment_complete"))
        await lift(replica, "bandwidth")
        seen = await client.receive_until("ltx2_segment_complete")
        assert seen.types[-1] == "ltx2_segment_complete"


async def test_pongs_and_closes_do_not_come_into_the_middle_of_a_slow_message(replica: Replica) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        await arm(replica, Bandwidth(bytes_per_second=50))
        await client.send(PROMPT)
        await eventually(lambda: replica.status()["faults"]["bandwidth"]["struck"] == 1, "it is slow")
        pong = await client.socket.ping()
        assert await stays_away(asyncio.shield(pong))
        await lift(replica, "bandwidth")
        await pong
        await client.receive_until("ltx2_segment_complete")


async def test_a_replica_that_stops_reading_hears_neither_prompts_nor_pings_until_it_reads_again(
    isolated: Farm, replica: Replica
) -> None:
    async with session(replica.ws_url) as client:
        await client.open()
        await arm(replica, StopReading())
        await eventually(lambda: "fault_struck" in kinds(isolated), "the idle session has stopped reading")
        await client.send(PROMPT)
        pong = await client.socket.ping()
        assert await stays_away(asyncio.shield(pong))
        await lift(replica, "stop_reading")
        await pong
        assert (await client.receive_until("ltx2_segment_complete")).media


async def test_a_replica_that_stops_reading_goes_on_sending(replica: Replica) -> None:
    await arm(replica, StopReading(point="segment_start"))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        await client.receive_until("ltx2_segment_start")
        await client.send(PROMPT)
        assert (await client.receive_until("ltx2_segment_complete")).media
        assert await stays_away(client.socket.recv())
        await lift(replica, "stop_reading")
        assert (await client.receive_until("ltx2_segment_complete")).media


async def test_a_replica_reads_again_after_its_time(replica: Replica) -> None:
    await arm(replica, StopReading(point="segment_start", seconds=SHORT_SECONDS, times=1))
    async with session(replica.ws_url) as client:
        await client.open()
        for _ in range(2):
            await client.send(PROMPT)
            assert (await client.receive_until("ltx2_segment_complete")).media


async def test_a_socket_that_is_not_read_pushes_back(replica: Replica) -> None:
    await arm(replica, StopReading(point="open"))
    async with session(replica.ws_url) as client:

        async def flood() -> None:
            while True:
                await client.socket.send("x" * 1_000_000)

        assert await stays_away(flood(), seconds=1)
        client.socket.transport.abort()


async def test_a_stall_that_is_changed_is_the_new_one_at_once(replica: Replica) -> None:
    await arm(replica, Stall(seconds=3600))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        await eventually(lambda: replica.status()["faults"]["stall"]["struck"] == 1, "it is quiet")
        await arm(replica, Stall(seconds=SHORT_SECONDS))
        seen = await client.receive_until("ltx2_segment_complete")
        assert seen.media
        assert replica.status()["faults"]["stall"]["struck"] == 1, "the new one struck this session as well"


async def test_a_stall_ends_with_the_time_of_the_fault_and_resets_nobody(replica: Replica) -> None:
    await arm(replica, Stall(for_seconds=0.3, then="reset"))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.send(PROMPT)
        assert (await client.receive_until("ltx2_segment_complete")).media


async def test_a_stall_now_strikes_a_session_once(replica: Replica) -> None:
    await arm(replica, Stall(point="now", seconds=0.05))
    async with session(replica.ws_url) as client:
        await client.open()
        await client.segment("p")
    assert replica.status()["faults"]["stall"]["struck"] == 1
