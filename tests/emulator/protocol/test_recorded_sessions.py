"""Each recorded conversation of the real server, replayed against a replica over a socket."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulator.farm import Farm
from emulator.protocol.script import Generation
from tests.emulator.sessions import Client, session

LINES = [
    json.loads(line) for line in Path(__file__).with_name("recorded-sessions.jsonl").read_text().splitlines()
]
CONVERSATIONS = [line for line in LINES if "conversation" in line]
REQUESTS = [line for line in LINES if "http" in line]

FREE = {"stream_id", "generation_time_ms", "e2e_latency_ms", "duration_ms", "message", "ts"}
"""Keys whose values the recording does not fix: ids, timings, texts for people."""
ADDED = {"digest", "segments_made"}
"""Keys that the emulator's continuation state has beside the recorded ones: its generator's past."""


def fixed(value: Any) -> Any:
    """`value` with what the recording leaves open taken out; the keys stay."""
    if not isinstance(value, dict):
        return value
    return {key: ... if key in FREE else fixed(item) for key, item in value.items() if key not in ADDED}


def recorded_server() -> Farm:
    """One replica with the recorded server's settings: one session, one step a segment."""
    return Farm(1, capacity=1, generation=Generation(segment_seconds=0, steps=1))


async def play(client: Client, steps: list[dict[str, Any]]) -> None:
    for step in steps:
        if "c" in step:
            await client.send(step["c"])
        elif "c_text" in step:
            await client.send(step["c_text"])
        elif "s" in step:
            received = await client.receive()
            assert fixed(received) == fixed(step["s"])
        elif "s_bytes" in step:
            assert isinstance(await client.receive(), bytes)
        else:
            code, reason = step["s_close"]
            end = await client.to_the_end()
            assert (end.messages, end.media) == ([], [])
            assert (1006 if end.code is None else end.code, end.reason) == (code, reason)


async def prepare(name: str, client: Client, url: str, stack: AsyncExitStack) -> Client:
    """What had happened before a recording begins."""
    if name.startswith("unknown type"):
        await client.open()
    if name.startswith("a second session"):
        return await stack.enter_async_context(session(url))
    return client


@pytest.mark.parametrize("line", CONVERSATIONS, ids=lambda line: line["conversation"])
async def test_a_replica_says_what_the_real_server_said(line: dict[str, Any]) -> None:
    async with recorded_server() as farm, AsyncExitStack() as stack:
        url = farm.replicas["a"].ws_url
        first = await stack.enter_async_context(session(url))
        client = await prepare(line["conversation"], first, url, stack)
        await play(client, line["steps"])


@pytest.mark.parametrize("line", REQUESTS, ids=lambda line: line["http"])
async def test_a_replica_answers_requests_as_the_real_server_did(line: dict[str, Any]) -> None:
    method, path = line["http"].split()
    async with recorded_server() as farm, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.request(method, farm.replicas["a"].url + path)
    assert answer.status_code == line["status"]
    assert fixed(answer.json()) == fixed(line["body"])


async def test_the_unknown_type_is_answered_and_the_session_goes_on() -> None:
    async with recorded_server() as farm, session(farm.replicas["a"].ws_url) as client:
        await client.open()
        await client.send({"type": "nonsense"})
        answer = await client.receive()
        assert isinstance(answer, dict)
        assert (answer["code"], answer["retryable"]) == ("invalid_message", True)
        assert await client.segment("still here")
