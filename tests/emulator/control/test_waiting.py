"""Long-polled and streamed events, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from emulator.control.feed import MAX_WAITING
from emulator.control.server import ControlServer
from emulator.farm import Farm
from tests.support.waiting import eventually

PATIENCE_SECONDS = 20.0


async def waiting(api: httpx.AsyncClient) -> int:
    """Requests that wait now."""
    return int((await api.get("/farm")).json()["waiting"])


async def poll(api: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await api.get("/events", params={"wait_seconds": 20, **query})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_what_is_there_already_is_told_at_once(api: httpx.AsyncClient) -> None:
    page = await poll(api, kind="port_opened", replica="b")
    assert [event["replica"] for event in page["events"]] == ["b"]


async def test_a_poll_ends_with_the_first_event_that_matches(api: httpx.AsyncClient, farm: Farm) -> None:
    async with asyncio.TaskGroup() as group:
        polled = group.create_task(
            poll(api, after=farm.log.last, replica="b", kind=["fault_lifted", "fault_armed"])
        )
        await eventually(lambda: waiting(api), "the poll waits")
        await api.put("/replicas/a/faults/latency")
        await api.post("/replicas/b/kill")
        assert not polled.done()
        await api.put("/replicas/b/faults/stall")
    (event,) = polled.result()["events"]
    assert (event["kind"], event["replica"], event["detail"]["fault"]) == ("fault_armed", "b", "stall")
    assert polled.result()["last"] == event["seq"]
    assert await waiting(api) == 0


async def test_a_poll_without_an_event_ends_in_its_time(api: httpx.AsyncClient, farm: Farm) -> None:
    page = await poll(api, after=farm.log.last, wait_seconds=0.01)
    assert (page["events"], page["last"]) == ([], farm.log.last)


async def test_a_client_that_leaves_frees_its_place(api: httpx.AsyncClient, farm: Farm) -> None:
    task = asyncio.create_task(poll(api, after=farm.log.last))
    await eventually(lambda: waiting(api), "the poll waits")
    task.cancel()

    async def nobody_waits() -> bool:
        return await waiting(api) == 0

    await eventually(nobody_waits, "the place is free")


async def test_too_many_are_told_to_come_later(server: ControlServer, farm: Farm) -> None:
    limits = httpx.Limits(max_connections=MAX_WAITING + 2)
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20, limits=limits) as api:
        after = farm.log.last
        async with asyncio.TaskGroup() as group:
            polls = [group.create_task(poll(api, after=after)) for _ in range(MAX_WAITING)]

            async def all_wait() -> bool:
                return await waiting(api) == MAX_WAITING

            await eventually(all_wait, "every place is taken")
            for path in ("/events?wait_seconds=20", "/events/stream?"):
                answer = await api.get(f"{path}&after={after}")
                assert (answer.status_code, answer.json()["error"]) == (429, "too_many_waiting")
            assert (await api.get("/events", params={"after": after})).status_code == 200, "without waiting"
            await api.post("/replicas/a/kill")
    assert all(each.result()["events"] for each in polls)


async def test_the_end_of_the_server_ends_polls_and_streams_at_once(
    api: httpx.AsyncClient, farm: Farm, server: ControlServer
) -> None:
    async with asyncio.TaskGroup() as group:
        polled = group.create_task(poll(api, after=farm.log.last))
        streamed = group.create_task(_whole_stream(api, farm.log.last))

        async def both_wait() -> bool:
            return await waiting(api) == 2

        await eventually(both_wait, "both wait")
        server.stop()
    assert polled.result()["events"] == []
    assert streamed.result() == b""


async def _whole_stream(api: httpx.AsyncClient, after: int) -> bytes:
    async with api.stream("GET", "/events/stream", params={"after": after}) as answer:
        return b"".join([chunk async for chunk in answer.aiter_bytes()])


async def told(lines: AsyncIterator[str]) -> dict[str, str]:
    """The next server-sent event."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while line := await anext(lines):
            name, _, value = line.partition(": ")
            fields[name] = value
    return fields


async def test_a_stream_tells_what_was_and_what_comes(api: httpx.AsyncClient, farm: Farm) -> None:
    query = {"replica": "a", "kind": ["port_opened", "port_closed"]}
    async with api.stream("GET", "/events/stream", params=query) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        opened = await told(lines)
        await api.post("/replicas/b/kill")
        await api.post("/replicas/a/kill")
        closed = await told(lines)
    assert (opened["event"], closed["event"]) == ("port_opened", "port_closed")
    event = json.loads(closed["data"])
    assert (event["replica"], event["seq"]) == ("a", int(closed["id"]))

    async def nobody_waits() -> bool:
        return await waiting(api) == 0

    await eventually(nobody_waits, "the reader that left is forgotten")


async def test_a_browser_that_comes_back_goes_on_where_it_was(api: httpx.AsyncClient, farm: Farm) -> None:
    first = next(event for event in farm.events().events if event.kind == "port_opened")
    headers = {"Last-Event-ID": str(first.seq)}
    query: dict[str, Any] = {"kind": "port_opened", "after": 0}
    async with api.stream("GET", "/events/stream", params=query, headers=headers) as answer:
        assert int((await told(answer.aiter_lines()))["id"]) > first.seq
