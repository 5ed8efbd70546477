"""The transparency cases, against the real gateway process: which replica gets a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway import ReplicaEndpoint, RouterConfig
from gateway.wiring import Gateway
from tests.support.expectations import first_choice, refusal, told_in_band
from tests.support.gateway_process import GatewayProcess
from tests.support.in_process import gateway_in_process
from tests.support.peer import Ending
from tests.support.raw_client import raw_client
from tests.support.scripted_replica import Hang, Health, Refuse, Reset, ScriptedReplica, UpgradeAnswer
from tests.support.standing_gateway import StandingGateway
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("each_protocol")]

RARE_PROBES: dict[str, object] = {
    "router__health_check__interval_seconds": 15,
    "router__health_check__timeout_seconds": 1,
    "router__health_check__failure_threshold": 2,
}
"""One probe at start and none by schedule within a test's life: whatever else happens needs another cause."""


# 7: warming is not ready


async def test_a_warming_replica_gets_no_session_until_its_body_says_ready(tmp_path: Path) -> None:
    warming = Health(200, b'{"status": "warming"}')
    async with ScriptedReplica(health=warming) as first, ScriptedReplica() as second:
        replicas = first_choice(first, second)
        async with GatewayProcess(tmp_path, replicas) as gateway:
            async with raw_client(gateway.port):
                await second.session()
            first.health = Health(200, b'{"status": "ready"}')
            await gateway.until_status(first.url, "healthy")
            async with raw_client(gateway.port):
                await first.session()
            assert (len(first.upgrades), len(second.upgrades)) == (1, 1)


# 8: killed between two probes


async def test_a_replica_killed_between_probes_costs_the_next_session_nothing(tmp_path: Path) -> None:
    async with ScriptedReplica() as first, ScriptedReplica() as second:
        replicas = first_choice(first, second)
        async with GatewayProcess(tmp_path, replicas, settings=RARE_PROBES) as gateway:
            await first.kill()
            async with raw_client(gateway.port) as client:
                session = await second.session()
                await session.send("served by the second")
                assert await client.recv() == "served by the second"
            # One refused connect and the probe that it triggered make two failures; none was due by schedule.
            await gateway.until_status(first.url, "unhealthy")
            async with raw_client(gateway.port):
                await second.session()


# 9: one hung replica


async def test_a_replica_that_never_answers_health_holds_nobody_up(tmp_path: Path) -> None:
    patient = {"router__health_check__timeout_seconds": 3}
    async with ScriptedReplica(health=Health(hang=True)) as hung, ScriptedReplica() as well:
        urls = [hung.url, well.url]
        async with GatewayProcess(tmp_path, urls, settings=patient, wait_for="/healthz") as gateway:
            await eventually(lambda: len(hung.health_requests) >= 1, "the hung replica is probed")
            before = len(well.health_requests)
            while len(hung.health_requests) < 2:
                assert (await gateway.get("/healthz")).status_code == 200
                await asyncio.sleep(0.05)
            # One probe of the hung replica lasts fifteen intervals of the other.
            assert len(well.health_requests) - before >= 7


# 10: a refused upgrade


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_the_replicas_status_is_the_clients_when_nobody_else_can_take_it(
    standing: StandingGateway, status: int
) -> None:
    async with standing.serving(upgrade=Refuse(status)) as (replica, gateway):
        assert (await refusal(gateway.port)).status == status
        await gateway.until_no_sessions()
        assert (await gateway.statuses())[replica.url] == "healthy"


async def test_a_redirect_is_502_and_leads_nowhere(standing: StandingGateway) -> None:
    async with ScriptedReplica() as elsewhere:
        moved = Refuse(302, [("Location", f"{elsewhere.url}/v1/stream")])
        async with standing.serving(upgrade=moved) as (_, gateway):
            refused = await refusal(gateway.port)
            assert (refused.status, refused.header("Location")) == (502, None)
        assert elsewhere.connections == 0


@pytest.mark.parametrize("status", [401, 403])
async def test_a_replicas_word_on_the_clients_rights_is_final(tmp_path: Path, status: int) -> None:
    async with ScriptedReplica(upgrade=Refuse(status)) as first, ScriptedReplica() as second:
        async with GatewayProcess(tmp_path, [first.url, second.url]) as gateway:
            assert (await refusal(gateway.port)).status == status
        assert second.upgrades == []


@pytest.mark.parametrize("path", ["/nope", "/", "/healthz", "/schema", "/V1/STREAM", "/v1/stream/more"])
async def test_a_path_without_sessions_is_a_404(standing: StandingGateway, path: str) -> None:
    async with standing.serving() as (replica, gateway):
        refused = await refusal(gateway.port, path)
        assert refused.status == 404
        assert b"session.paths" in refused.body
        assert replica.upgrades == []


async def test_after_the_attempts_the_last_status_counts(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        answers = [503, 500, 429, 503]
        replicas = [
            await stack.enter_async_context(ScriptedReplica(upgrade=Refuse(answer))) for answer in answers
        ]
        attempts = {"session__connect_attempts": 3}
        async with GatewayProcess(tmp_path, [r.url for r in replicas], settings=attempts) as gateway:
            assert (await refusal(gateway.port)).status == 429
        assert [len(replica.upgrades) for replica in replicas] == [1, 1, 1, 0]


@pytest.mark.parametrize("answer", [Reset(), Hang()], ids=["reset", "hang"])
async def test_no_http_answer_from_anybody_is_told_in_band(tmp_path: Path, answer: UpgradeAnswer) -> None:
    quick = {"session__connect_timeout_seconds": 0.5}
    async with ScriptedReplica(upgrade=answer) as replica:
        async with GatewayProcess(tmp_path, [replica.url], settings=quick) as gateway:
            async with raw_client(gateway.port, subprotocols=["a", "b"]) as client:
                # Accepted before a replica chose: the first subprotocol is answered.
                assert client.subprotocol == "a"
                assert await told_in_band(client, "gpu_unavailable") == Ending(1013, "no_healthy_replica")


# 11: another replica takes it


@pytest.mark.parametrize("answer", [Refuse(503), Refuse(429), Refuse(302), Reset(), Hang()], ids=repr)
async def test_a_refused_session_opens_on_the_next_replica(tmp_path: Path, answer: UpgradeAnswer) -> None:
    quick = {"session__connect_timeout_seconds": 0.5}
    async with ScriptedReplica(upgrade=answer) as first, ScriptedReplica() as second:
        replicas = first_choice(first, second)
        async with GatewayProcess(tmp_path, replicas, settings=quick) as gateway:
            async with raw_client(gateway.port) as client:
                session = await second.session()
                await session.send("only this")
                await session.close(1000, "done")
                assert await client.recv() == "only this"
                assert await client.ended() == Ending(1000, "done")
        assert len(first.upgrades) == 1


REJECTED = '{"type":"error","code":"session_rejected","message":"max sessions reached (1)","retryable":false}'
INIT = '{"type":"session_init_v2","client_id":"c","x_unknown":[1,  2]}'
PROMPT = '{"type":"segment_prompt_source","prompt":"p"}'


@pytest.mark.parametrize("told", [True, False], ids=["told in band", "by the close alone"])
async def test_a_session_refused_in_band_opens_on_the_next_replica(
    tmp_path: Path, each_protocol: str, told: bool
) -> None:
    async with ScriptedReplica() as first, ScriptedReplica() as second:
        async with GatewayProcess(tmp_path, first_choice(first, second)) as gateway:
            async with raw_client(gateway.port) as client:
                await client.send(INIT)
                await client.send(PROMPT)
                refusing = await first.session()
                assert [await refusing.recv(), await refusing.recv()] == [INIT, PROMPT]
                if told:
                    await refusing.send(REJECTED)
                await refusing.close(1013, "session_rejected")
                if each_protocol == "passthrough":
                    # It looks at no message, and takes this one for the session's first.
                    assert not told or await client.recv() == REJECTED
                    assert await client.ended() == Ending(1013, "session_rejected")
                    return
                session = await second.session()
                assert [await session.recv(), await session.recv()] == [INIT, PROMPT]
                await session.send('{"type":"queue_status","position":0,"queue_depth":0}')
                await session.close(1000, "done")
                assert "queue_status" in str(await client.recv())
                assert await client.ended() == Ending(1000, "done")
            assert set((await gateway.statuses()).values()) == {"healthy"}


async def test_a_session_is_never_retried_once_the_client_has_a_byte_of_it(tmp_path: Path) -> None:
    async with ScriptedReplica() as first, ScriptedReplica() as second:
        async with GatewayProcess(tmp_path, [first.url, second.url]) as gateway:
            async with raw_client(gateway.port) as client:
                session = await first.session()
                await session.send(b"one byte is enough")
                await client.recv()
                session.abort()
                assert await client.ended() == Ending(1011, "replica_lost")
        assert second.upgrades == []


# 15: a newcomer is filled


async def test_least_sessions_fills_a_newcomer(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(ScriptedReplica()) for _ in range(3)]
        await replicas[2].kill()
        policy = {"selection__policy": "least_sessions"}
        gateway = await stack.enter_async_context(
            GatewayProcess(tmp_path, [replica.url for replica in replicas], settings=policy)
        )
        for _ in range(4):
            await stack.enter_async_context(raw_client(gateway.port))
        assert _open_counts(replicas) == [2, 2, 0]
        await replicas[2].start()
        await gateway.until_status(replicas[2].url, "healthy")
        for _ in range(2):
            await stack.enter_async_context(raw_client(gateway.port))
        assert _open_counts(replicas) == [2, 2, 2]
        counts = await gateway.sessions()
        assert [counts[replica.url]["active_sessions"] for replica in replicas] == [2, 2, 2]


def _open_counts(replicas: Sequence[ScriptedReplica]) -> list[int]:
    return [replica.open_sessions for replica in replicas]


# 14: replicas come and go


async def test_a_stream_is_untouched_by_replicas_that_come_and_go(tmp_path: Path) -> None:
    async with ScriptedReplica() as streaming, ScriptedReplica() as leaving, ScriptedReplica() as joining:
        urls = {name: replica.url for name, replica in (("s", streaming), ("l", leaving), ("j", joining))}
        endpoints = {name: ReplicaEndpoint(url, name) for name, url in urls.items()}
        config = RouterConfig(
            replicas=[endpoints["s"], endpoints["l"]],
            health_check_interval_seconds=0.2,
        )
        async with gateway_in_process(config) as (gateway, port), AsyncExitStack() as stack:
            client = await stack.enter_async_context(raw_client(port))
            session = await streaming.session()
            gateway.registry.drain(urls["s"])
            on_leaving = await stack.enter_async_context(raw_client(port))
            leaving_session = await leaving.session()

            gateway.registry.reconcile([endpoints["s"], endpoints["j"]])
            await eventually(lambda: _healthy(gateway, urls["j"]), "the newcomer is healthy")

            # The stream on the replica that stays, and the session on the one that goes, both go on.
            for peer, other in ((client, session), (on_leaving, leaving_session)):
                await other.send(b"frame" * 20_000)
                assert await peer.recv() == b"frame" * 20_000
                await peer.send("and back")
                assert await other.recv() == "and back"
            # The removed one takes nobody any more; the newcomer does.
            async with raw_client(port):
                await joining.session()
            assert len(leaving.upgrades) == 1
            # With its last session it is gone.
            assert gateway.registry.get(urls["l"]) is not None
            await leaving_session.close(1000, "done")
            assert await on_leaving.ended() == Ending(1000, "done")
            await eventually(lambda: gateway.registry.get(urls["l"]) is None, "the removed replica is gone")
            assert client.open


def _healthy(gateway: Gateway, url: str) -> bool:
    replica = gateway.registry.get(url)
    return replica is not None and replica.is_healthy
