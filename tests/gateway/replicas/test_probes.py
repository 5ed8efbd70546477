from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from gateway.replicas.config import HealthPolicy
from gateway.replicas.probes import MAX_BODY_BYTES, HttpxProbe, RememberingProbe, body_problem, status_problem
from tests.support.http_peer import Exchange, Serve, answer, http_peer, keep_answering
from tests.support.waiting import eventually

EXPECTED = HealthPolicy().expect_body
PATIENCE = 20.0
"""Deadline of probes that are to succeed."""
SOON = 0.2
"""Deadline of probes that are to miss it."""


async def verdict(
    serve: Serve, *, policy: HealthPolicy | None = None, timeout: float = PATIENCE
) -> str | None:
    async with http_peer(serve) as peer, HttpxProbe(policy or HealthPolicy()) as probe:
        latency_ms, reason = await probe(f"{peer.url}/health", timeout=timeout)
        assert latency_ms > 0
        return reason


@pytest.mark.parametrize(
    "body",
    [
        b'{"status": "ok"}',
        b'{"status": "ready", "gpus": 8}',
        b'{"other": "warming"}',
        b"[]",
        b'"warming"',
        b"",
        b"OK",
        b'{"status": "ok"',
        b"\xff\xfe\x00\x80",
        b"[" * 60_000,
        b'{"a":' * 10_000,
        '{"status": "ok", "name": "\xfc"}'.encode("latin-1"),
    ],
)
async def test_a_200_is_ready_unless_its_body_says_otherwise(body: bytes) -> None:
    assert await verdict(keep_answering(answer(body))) is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"status": "warming"}', 'says status "warming"'),
        (b'\xef\xbb\xbf{"status": "warming"}', 'says status "warming"'),
        (b'{"status": null}', "says status null"),
        (b'{"status": ["ok"]}', 'says status ["ok"]'),
        (b'{"status": "OK"}', 'says status "OK"'),
        (json.dumps({"status": "x" * 500}).encode(), "..."),
    ],
)
async def test_a_200_whose_body_says_otherwise_is_not_ready(body: bytes, told: str) -> None:
    reason = await verdict(keep_answering(answer(body)))
    assert reason is not None
    assert told in reason
    assert len(reason) < 150


def test_true_and_one_are_different_values() -> None:
    assert body_problem(b'{"ready": true}', complete=True, expect_body={"ready": (1,)})
    assert body_problem(b'{"ready": 1}', complete=True, expect_body={"ready": (True,)})
    assert body_problem(b'{"ready": true}', complete=True, expect_body={"ready": (True,)}) is None


def test_without_expectations_the_body_does_not_count() -> None:
    assert body_problem(b'{"status": "warming"}', complete=True, expect_body={}) is None
    assert body_problem(b'{"status": ', complete=False, expect_body={}) is None


async def test_a_204_without_a_body_is_ready() -> None:
    assert await verdict(keep_answering(b"HTTP/1.1 204 No Content\r\n\r\n")) is None


@pytest.mark.parametrize("status", [201, 400, 401, 404, 429, 500, 503])
async def test_another_status_is_not_ready(status: int) -> None:
    assert await verdict(keep_answering(answer(status=status))) == f"its health path answered {status}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    asked: list[bytes | None] = []

    async def serve(exchange: Exchange) -> None:
        asked.append(await exchange.request())
        await exchange.send(answer(status=status, headers=b"Location: /elsewhere\r\n"))

    reason = await verdict(serve)
    assert reason == f"its health path answered {status}: redirects are not followed"
    assert len(asked) == 1


async def test_the_statuses_that_count_can_be_set() -> None:
    policy = HealthPolicy(expect_status=(299,))
    assert await verdict(keep_answering(answer(status=299)), policy=policy) is None
    assert status_problem(200, expect_status=(299,)) is not None


async def test_a_body_that_drips_in_is_late() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            await exchange.send(b" ")
            await asyncio.sleep(SOON / 20)

    assert await verdict(serve, timeout=SOON) == f"no complete answer to the health probe within {SOON} s"


async def test_headers_that_drip_in_are_late() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        while True:
            await exchange.send(b"H")
            await asyncio.sleep(SOON)

    assert await verdict(serve, timeout=SOON) is not None


async def test_a_replica_that_never_answers_is_late() -> None:
    async def serve(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    assert await verdict(serve, timeout=SOON) == f"no complete answer to the health probe within {SOON} s"


def endless(first: bytes) -> tuple[Serve, list[int]]:
    sent = [0]

    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + first)
        while True:
            await exchange.send(b"x" * 16_384)
            sent[0] += 16_384

    return serve, sent


async def test_a_huge_body_is_read_up_to_the_bound_and_its_connection_given_up() -> None:
    serve, sent = endless(b"")
    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        assert (await probe(peer.url, timeout=PATIENCE))[1] is None
        await eventually(lambda: peer.open_connections == 0, "the connection is closed")
    assert sent[0] < 64_000_000  # the rest is socket buffers, not ours


async def test_a_json_object_above_the_bound_cannot_be_judged() -> None:
    serve, _ = endless(b' \n{"status": "ok", "padding": "')
    assert await verdict(serve) == f"its health body is a JSON object above {MAX_BODY_BYTES} bytes"


async def test_a_body_of_exactly_the_bound_is_judged() -> None:
    body = b'{"status": "warming"}'.ljust(MAX_BODY_BYTES)
    reason = await verdict(keep_answering(answer(body)))
    assert reason == 'its health body says status "warming"'


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-made-up, identity"])
async def test_a_body_that_cannot_be_read_is_not_ready_unless_it_does_not_count(coding: str) -> None:
    body = gzip.compress(b'{"status": "warming"}')
    serve = keep_answering(answer(body, headers=f"Content-Encoding: {coding}\r\n".encode()))
    assert await verdict(serve) == f"its health body has the content coding {coding}"
    assert await verdict(serve, policy=HealthPolicy(expect_body={})) is None


async def test_a_coding_that_is_none_or_of_no_body_is_fine() -> None:
    plain = answer(b'{"status": "ok"}', headers=b"Content-Encoding: Identity\r\n")
    assert await verdict(keep_answering(plain)) is None
    assert await verdict(keep_answering(answer(b"", headers=b"Content-Encoding: gzip\r\n"))) is None


async def test_a_compressed_body_is_not_asked_for_and_not_unpacked() -> None:
    heads: list[bytes | None] = []

    async def serve(exchange: Exchange) -> None:
        heads.append(await exchange.request())
        await exchange.send(answer(gzip.compress(b"0" * 10_000_000), headers=b"Content-Encoding: gzip\r\n"))

    assert await verdict(serve) == "its health body has the content coding gzip"
    assert heads[0] is not None
    assert b"Accept-Encoding: identity" in heads[0]


async def test_a_chunked_body_counts_as_one() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = head + b'9\r\n{"status"\r\nb\r\n: "warming"\r\n1\r\n}\r\n0\r\n\r\n'
    assert await verdict(keep_answering(chunks)) == 'its health body says status "warming"'


async def test_an_http_1_0_peer_that_ends_the_body_by_closing_is_ready() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b'HTTP/1.0 200 OK\r\n\r\n{"status": "ok"}')

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        for _ in range(3):
            assert (await probe(peer.url, timeout=PATIENCE))[1] is None
        assert peer.connections == 3


async def test_a_body_that_ends_early_is_a_failure() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")

    reason = await verdict(serve)
    assert reason is not None
    assert "health probe failed" in reason


async def test_an_answer_that_is_not_http_is_a_failure() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    assert await verdict(serve) is not None


async def test_a_refused_connect_is_told_as_such() -> None:
    async with http_peer(keep_answering(answer())) as peer:
        pass
    async with HttpxProbe(HealthPolicy()) as probe:
        assert (await probe(peer.url, timeout=PATIENCE))[1] == "health probe failed: Connection refused"


async def test_a_connection_is_kept_for_the_next_probe() -> None:
    async with http_peer(keep_answering(answer())) as peer, HttpxProbe(HealthPolicy()) as probe:
        for _ in range(5):
            assert (await probe(f"{peer.url}/health", timeout=PATIENCE))[1] is None
        assert peer.connections == 1
        await probe.forget(f"{peer.url}/health")
        await probe.forget(f"{peer.url}/health")
        await eventually(lambda: peer.open_connections == 0, "the connection is closed")
        assert isinstance(probe, RememberingProbe)


async def test_leaving_closes_every_connection() -> None:
    async with http_peer(keep_answering(answer())) as one, http_peer(keep_answering(answer())) as two:
        async with HttpxProbe(HealthPolicy()) as probe:
            await asyncio.gather(*(probe(peer.url, timeout=PATIENCE) for peer in (one, two)))
        await eventually(lambda: one.open_connections + two.open_connections == 0, "all are closed")


async def test_wherever_a_probe_is_cut_short_the_next_one_is_made() -> None:
    """Its connection, new or kept, may be in any state then."""
    asked = 0

    async def serve(exchange: Exchange) -> None:
        nonlocal asked
        while await exchange.request() is not None:
            asked += 1
            await exchange.send(answer())

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        for turns in range(60):
            await probe.forget(peer.url)
            before = asked
            cut = asyncio.ensure_future(probe(peer.url, timeout=10))
            for _ in range(turns):
                await asyncio.sleep(0)
            cut.cancel()
            await asyncio.wait({cut})
            assert (await probe(peer.url, timeout=2))[1] is None, f"after {turns} turns of the loop"
            if asked == before + 2:
                return
    raise AssertionError("no probe had asked before it was cut short")


async def test_a_cancelled_probe_closes_its_connection() -> None:
    asked = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        asked.set()
        await exchange.reader.read()

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(probe(peer.url, timeout=PATIENCE))
            await asked.wait()
            task.cancel()
        await eventually(lambda: peer.open_connections == 0, "the connection is closed")


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("when", ["while idle", "at the next request"])
async def test_a_kept_connection_that_its_peer_ended_is_no_failure(ending: str, when: str) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(answer())
        if when == "at the next request":
            await exchange.request()
        if ending == "reset":
            exchange.reset()

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        for count in range(1, 4):
            assert (await probe(peer.url, timeout=PATIENCE))[1] is None
            if when == "while idle":
                await eventually(lambda: peer.open_connections == 0, "the peer has closed")
            assert peer.connections == count


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_new_connection_that_its_peer_ends_is_a_failure(ending: str) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        if ending == "reset":
            exchange.reset()

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        assert (await probe(peer.url, timeout=PATIENCE))[1] is not None
        assert peer.connections == 1


async def test_a_replica_that_died_behind_a_kept_connection_is_a_failure() -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.request()
        if exchange.number == 0:
            await exchange.send(answer())
            await exchange.request()

    async with http_peer(serve) as peer, HttpxProbe(HealthPolicy()) as probe:
        assert (await probe(peer.url, timeout=PATIENCE))[1] is None
        assert (await probe(peer.url, timeout=PATIENCE))[1] is not None
        assert peer.connections == 2


async def test_a_probe_goes_straight_to_its_replica_whatever_proxy_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert await verdict(keep_answering(answer())) is None


async def test_a_probe_outside_its_block_is_refused() -> None:
    with pytest.raises(RuntimeError, match="context manager"):
        await HttpxProbe(HealthPolicy())("http://127.0.0.1:9", timeout=1)
