"""Sessions over real sockets: order, capacity, continuation, bounds, and the ends that no fault makes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from emulator.farm import Farm
from emulator.faults import Warming
from emulator.protocol.script import MAX_BACKLOG, Generation
from tests.emulator.sessions import INIT, SNAPSHOT, session
from tests.support.waiting import eventually


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2, subprotocols=("v2", "v1")) as running:
        yield running


async def test_a_session_continued_on_another_replica_makes_the_bytes_that_the_first_would_have(
    farm: Farm,
) -> None:
    prompts = [("one", 1), ("two", None), ("three", 3)]
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        whole = [await client.segment(*prompt) for prompt in prompts]
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        first = await client.segment(*prompts[0])
        state = await client.snapshot()
    async with session(farm.replicas["b"].ws_url) as client:
        await client.open(continuation_state=state)
        assert await client.snapshot() == state
        rest = [await client.segment(*prompt) for prompt in prompts[1:]]
    assert [first, *rest] == whole
    assert len(set(whole)) == 3


async def test_segment_numbers_start_at_zero_in_every_session(farm: Farm) -> None:
    for _ in range(2):
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            await client.send({"type": "segment_prompt_source", "prompt": "p"})
            start = await client.receive()
            assert isinstance(start, dict)
            assert start["segment_idx"] == 0


async def test_one_session_more_than_the_capacity_is_rejected_and_a_freed_place_is_given_again() -> None:
    async with Farm(1, capacity=2) as farm:
        url = farm.replicas["a"].ws_url
        async with session(url) as one, session(url) as two:
            await one.open()
            await two.open()
            async with session(url) as three:
                end = await three.to_the_end()
                assert (end.messages[0]["code"], end.code, end.reason) == (
                    "session_rejected",
                    1013,
                    "session_rejected",
                )
        await eventually(lambda: farm.replicas["a"].sessions == 0, "the places are free")
        async with session(url) as client:
            await client.open()


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["v1", "v2"], "v2"), (["v1"], "v1"), (["other"], None), (None, None)]
)
async def test_the_subprotocol_is_the_replicas_best_of_those_offered(
    farm: Farm, offered: list[str] | None, chosen: str | None
) -> None:
    async with session(farm.replicas["a"].ws_url, subprotocols=offered) as client:
        assert client.socket.subprotocol == chosen


async def test_the_event_log_has_the_upgrade_byte_for_byte(farm: Farm) -> None:
    headers = {"Authorization": "Bearer t", "Cookie": "c=1", "X-Custom": "Über"}
    async with session(farm.replicas["a"].ws_url + "?t=a%2Fb&t=c", additional_headers=headers):
        pass
    (upgrade,) = [event for event in farm.events().events if event.kind == "upgrade_received"]
    assert (upgrade.detail["path"], upgrade.detail["query"]) == ("/v1/stream", "t=a%2Fb&t=c")
    found = {name.lower(): value for name, value in upgrade.detail["headers"]}
    assert (found["authorization"], found["cookie"]) == ("Bearer t", "c=1")
    assert found["x-custom"] == "Über"


async def test_sessions_are_opened_on_their_paths_only(farm: Farm) -> None:
    async with session(farm.replicas["a"].url.replace("http", "ws") + "/ws") as client:
        await client.open()
    with pytest.raises(InvalidStatus) as refusal:
        async with session(farm.replicas["a"].url.replace("http", "ws") + "/elsewhere"):
            pass
    assert refusal.value.response.status_code == 404


async def test_an_opening_message_with_a_large_picture_is_taken(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open(initial_image={"data": "A" * (32 * 1024 * 1024)})


async def test_a_message_above_the_limit_is_refused_with_1009(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        fragment = "x" * (8 * 1024 * 1024)
        with contextlib.suppress(ConnectionClosed):
            await client.socket.send(fragment for _ in range(9))
        assert (await client.to_the_end()).code == 1009


async def test_fragments_are_joined(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        text = json.dumps(INIT)
        await client.socket.send([text[:5], text[5:9], "", text[9:]])
        await client.receive_until("ltx2_stream_start")


async def test_text_that_is_no_utf8_ends_the_session_with_1007(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.socket.send(b"\xff\xfe", text=True)
        assert (await client.to_the_end()).code == 1007


async def test_more_messages_than_may_wait_are_all_answered_in_order(farm: Farm) -> None:
    count = MAX_BACKLOG * 3
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        await client.send(*[SNAPSHOT] * count)
        for _ in range(count):
            answer = await client.receive()
            assert isinstance(answer, dict)
            assert answer["code"] == "internal_error"


async def test_a_client_that_does_not_read_holds_up_its_own_session_only() -> None:
    big = Generation(segment_seconds=0, chunks=64, chunk_bytes=1024 * 1024)
    async with Farm(1, generation=big) as farm:
        async with session(farm.replicas["a"].ws_url, max_queue=1) as stalled:
            await stalled.open()
            await stalled.send({"type": "segment_prompt_source", "prompt": "p"})
            await eventually(lambda: "binary_sent" in [e.kind for e in farm.events().events], "media is sent")
            async with session(farm.replicas["a"].ws_url) as other:
                await other.open()
            sent = sum(e.detail["size_bytes"] for e in farm.events().events if e.kind == "binary_sent")
            assert sent < 32 * 1024 * 1024
            stalled.socket.transport.abort()


async def test_a_silent_session_times_out_in_band() -> None:
    async with Farm(1, generation=Generation(segment_seconds=0, session_timeout_seconds=0.2)) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            end = await client.to_the_end()
    assert (end.types, end.code, end.reason) == (["session_timeout"], 1000, "session_timeout")


async def test_a_client_without_pongs_is_closed() -> None:
    async with Farm(1, ping_interval_seconds=0.05, ping_timeout_seconds=0.05) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            client.socket.transport.pause_reading()
            await eventually(
                lambda: [e.detail["code"] for e in farm.events().events if e.kind == "close_sent"] == [1011],
                "the session is closed for its silence",
            )
            client.socket.transport.abort()


async def test_a_client_with_pongs_stays() -> None:
    async with Farm(1, ping_interval_seconds=0.02, ping_timeout_seconds=5) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
            await eventually(lambda: client.socket.protocol.state.name == "OPEN", "still open")
            assert await client.segment("p")


async def test_a_client_that_leaves_gives_its_place_back(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        await client.socket.close(4002, "bye")
    await eventually(lambda: farm.replicas["a"].sessions == 0, "the place is free")
    closes = [event.detail for event in farm.events().events if event.kind == "close_received"]
    assert closes == [{"code": 4002, "reason": "bye"}]


async def test_a_client_that_leaves_in_the_middle_of_a_segment_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Farm(1, generation=Generation(segment_seconds=0, chunks=500)) as farm:
        for _ in range(20):
            async with session(farm.replicas["a"].ws_url, max_queue=None) as client:
                await client.open()
                await client.send({"type": "segment_prompt_source", "prompt": "p"})
                await client.receive_until("media_init")
                await client.socket.close(4002)
                assert client.socket.close_code == 4002
        await eventually(lambda: farm.replicas["a"].sessions == 0, "the place is free")
    assert caplog.records == []


async def test_a_client_that_vanishes_gives_its_place_back(farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url) as client:
        await client.open()
        client.socket.transport.abort()
        await eventually(lambda: farm.replicas["a"].sessions == 0, "the place is free")


async def test_a_warming_replica_lets_a_session_wait_for_its_gpu(farm: Farm) -> None:
    farm.set_fault("a", Warming())
    async with session(farm.replicas["a"].ws_url) as client:
        await client.send(INIT)
        assert (await client.receive_until("queue_status")).types == ["queue_status"]
        farm.clear_fault("a", "warming")
        assert (await client.receive_until("ltx2_stream_start")).types == [
            "gpu_assigned",
            "ltx2_stream_start",
        ]


async def test_a_stop_tells_sessions_that_it_goes_away_even_in_the_middle_of_a_segment() -> None:
    async with Farm(1, segment_seconds=60) as farm:
        idle = await (idle_session := session(farm.replicas["a"].ws_url)).__aenter__()
        busy = await (busy_session := session(farm.replicas["a"].ws_url)).__aenter__()
        await idle.open()
        await busy.open()
        await busy.send({"type": "segment_prompt_source", "prompt": "p"})
        await busy.receive_until("ltx2_segment_start")
        ends = [asyncio.create_task(client.to_the_end()) for client in (idle, busy)]
    for end in ends:
        assert ((await end).code, (await end).reason) == (1001, "going_away")
    await idle_session.__aexit__(None, None, None)
    await busy_session.__aexit__(None, None, None)
