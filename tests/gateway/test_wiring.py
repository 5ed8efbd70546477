"""The whole gateway in one process: what it answers before it runs, and what it does while it does."""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from litestar import Litestar
from litestar.exceptions import WebSocketDisconnect
from litestar.testing import AsyncTestClient, TestClient
from pydantic import ValidationError

from gateway.replicas.config import RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.settings import Settings
from gateway.settings.sections import AdmissionSettings, AffinitySettings, SessionSettings
from gateway.wiring import Gateway, build_app
from tests.gateway.session.asgi_server import SCOPE, Server
from tests.support.ports import free_port
from tests.support.scripted_replica import ScriptedReplica
from tests.support.waiting import eventually

URLS = ["http://127.0.0.1:9101", "http://127.0.0.1:9102"]


def settings(
    *urls: str,
    interval_seconds: float = 5,
    limit: int | None = None,
    session: SessionSettings | None = None,
    affinity: AffinitySettings | None = None,
    admission: AdmissionSettings | None = None,
) -> Settings:
    """Replicas at `urls` with `limit` places each, named a, b and so on, and the defaults for the rest."""
    replicas = [
        ReplicaEndpoint(url, name=name, max_sessions=limit)
        for name, url in zip(string.ascii_lowercase, urls, strict=False)
    ]
    config = RouterConfig(replicas=replicas, health_check_interval_seconds=interval_seconds)
    return Settings(
        router=Settings.for_router(config).router,
        session=session or SessionSettings(),
        affinity=affinity or AffinitySettings(),
        admission=admission or AdmissionSettings(),
    )


@pytest.fixture
def idle() -> TestClient[Litestar]:
    """A client of a gateway whose lifespan does not run."""
    return TestClient(build_app(settings(*URLS)))


def test_without_its_lifespan_it_answers_with_every_replica_unknown(idle: TestClient[Litestar]) -> None:
    answer = idle.get("/status")
    assert answer.status_code == 200
    assert [(replica["url"], replica["status"]) for replica in answer.json()["replicas"]] == [
        (url, "unknown") for url in URLS
    ]
    assert idle.get("/healthz").status_code == 200
    assert idle.get("/readyz").status_code == 503


@pytest.mark.parametrize("path", ["/v1/stream", "/ws"])
def test_without_its_lifespan_it_refuses_sessions_in_band(idle: TestClient[Litestar], path: str) -> None:
    with idle.websocket_connect(path, subprotocols=["a", "b"]) as session:
        assert session.accepted_subprotocol == "a"
        message = json.loads(session.receive_text())
        assert (message["type"], message["code"], message["retryable"]) == ("error", "gpu_unavailable", True)
        with pytest.raises(WebSocketDisconnect) as closed:
            session.receive_text()
    assert (closed.value.code, closed.value.detail) == (1013, "no_healthy_replica")


@pytest.mark.parametrize("path", ["/v1/stream", "/ws"])
def test_a_plain_request_to_a_session_path_is_told_to_upgrade(idle: TestClient[Litestar], path: str) -> None:
    answer = idle.get(path)
    assert answer.status_code == 426
    assert answer.headers["upgrade"] == "websocket"
    assert answer.json()["status_code"] == 426


def test_other_paths_are_nobodys(idle: TestClient[Litestar]) -> None:
    assert idle.get("/v1/stream/more").status_code == 404
    assert idle.get("/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz?own=1", "/status"])
def test_head_is_answered_as_get_without_the_body(idle: TestClient[Litestar], path: str) -> None:
    head, whole = idle.head(path), idle.get(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers == whole.headers


def test_the_schema_describes_the_http_surface(idle: TestClient[Litestar]) -> None:
    paths = idle.get("/schema/openapi.json").json()["paths"]
    assert {"/status", "/healthz", "/readyz", "/router/replicas/sessions"} <= set(paths)


def test_no_route_of_the_gateway_itself_can_be_a_session_path() -> None:
    gateway = Gateway(settings(*URLS))
    own = {route.path for route in gateway.app.routes} - set(gateway.settings.session.paths)
    assert {"/status", "/healthz", "/schema/openapi.json", "/schema/{path:str}"} <= own
    for path in own:
        path = path.replace("{path:str}", "x")
        with pytest.raises(ValidationError, match=r"own paths|without a slash at its end"):
            SessionSettings(paths=(path,))


def test_a_registry_that_is_given_is_the_one_that_is_used() -> None:
    registry = ReplicaRegistry([ReplicaEndpoint(URLS[1], name="given")])
    gateway = Gateway(settings(URLS[0]), registry=registry)
    assert gateway.registry is registry
    answer = TestClient(gateway.app).get("/status").json()
    assert [replica["name"] for replica in answer["replicas"]] == ["given"]


def test_building_it_reads_no_file_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gateway.yaml").write_text("router: [this, would, be, refused")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWAY_CONFIG", str(tmp_path / "missing.yaml"))
    monkeypatch.setenv("GATEWAY_ROUTER__REPLICAS", "not JSON")
    monkeypatch.setenv("GATEWAY_SESSION__PATHS", '["/elsewhere"]')
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "x")
    client = TestClient(build_app(settings(*URLS)))
    assert len(client.get("/status").json()["replicas"]) == 2
    assert client.get("/ws").status_code == 426


def test_building_it_needs_no_event_loop_and_starts_nothing() -> None:
    gateway = Gateway(settings(*URLS))
    assert not gateway.monitor.running
    assert not gateway.roster.draining


# -- while it runs


def test_it_can_be_started_again_in_another_event_loop() -> None:
    gateway = Gateway(settings(f"http://127.0.0.1:{free_port()}"))

    async def once() -> int:
        async with running(gateway):
            answer = await AsyncTestClient(gateway.app).get("/readyz?own=1")
            return answer.status_code

    for _ in range(2):
        assert asyncio.run(once()) == 200
        assert not gateway.monitor.first_round_done.is_set()


@asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[None]:
    async with gateway.app.lifespan():
        await eventually(gateway.monitor.first_round_done.is_set, "the first probe round is done")
        yield


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[Server]:
    """A client's WebSocket to `gateway`, without a network in between."""
    server = Server()
    scope: dict[str, Any] = {
        **SCOPE,
        "path": "/v1/stream",
        "raw_path": b"/v1/stream",
        "state": {},
        "extensions": {},
    }
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(gateway.app(scope, server.receive, server.send))  # type: ignore[arg-type]
        yield server


async def test_a_session_goes_through_the_whole_gateway_and_leaves_nothing() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url))
        async with running(gateway):
            assert gateway.registry.all()[0].is_healthy
            async with connected(gateway) as client:
                peer = await replica.session()
                client.says("hello")
                assert await peer.recv() == "hello"
                await peer.send(b"media")
                await eventually(lambda: client.delivered == [b"media"], "the client has it")
                assert gateway.registry.all()[0].sessions == 1
                await peer.close(4001, "session_gone")
            assert client.sent[-1] == {"type": "websocket.close", "code": 4001, "reason": "session_gone"}
            assert replica.upgrades[0].target == "/v1/stream?t=a%2Fb&t=c"
            assert gateway.registry.all()[0].sessions == 0
            assert len(gateway.roster) == 0
        assert not gateway.monitor.running
        assert not replica.open_sessions
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left")


async def test_a_replica_that_refuses_is_probed_at_once_and_told_as_none() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url, interval_seconds=3600))
        async with running(gateway):
            await replica.kill()
            async with connected(gateway) as client:
                pass
            assert json.loads(client.delivered[0])["code"] == "gpu_unavailable"
            assert client.sent[-1] == {
                "type": "websocket.close",
                "code": 1013,
                "reason": "no_healthy_replica",
            }
            health = gateway.registry.all()[0]
            # One for the session's own try, one for the probe that it caused.
            await eventually(lambda: health.health.consecutive_failures >= 2, "the probe has confirmed it")


async def test_a_drain_closes_the_door_to_new_sessions_and_ends_the_open_ones() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url))
        async with running(gateway), connected(gateway) as client:
            await replica.session()
            drain = asyncio.create_task(gateway.drain())
            await eventually(lambda: gateway.roster.draining, "it drains")
            async with connected(gateway) as late:
                pass
            assert late.sent[0]["status"] == 503
            gateway.hurry()
            await drain
            assert client.sent[-1] == {
                "type": "websocket.close",
                "code": 1012,
                "reason": "gateway_restarting",
            }
        assert len(gateway.roster) == 0


async def test_a_client_waits_for_a_place_and_is_told_so() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url, limit=1))
        async with running(gateway), connected(gateway) as first:
            peer = await replica.session()
            async with connected(gateway) as second:
                await eventually(lambda: second.delivered, "it is told its place")
                told = json.loads(second.delivered[0])
                assert (told["type"], told["position"]) == ("queue_status", 0)
                second.says("meanwhile")
                assert gateway.admission.waiting == 1
                first.vanishes(1000)
                assert (await peer.ended()).code == 1000
                peer = await replica.session()
                assert await peer.recv() == "meanwhile"
                await peer.close(1000, "done")
        assert second.sent[-1]["reason"] == "done"
        assert (gateway.admission.waiting, len(gateway.roster)) == (0, 0)
        assert gateway.registry.all()[0].sessions == 0


async def test_without_a_queue_a_full_house_is_told_at_once() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url, limit=1, admission=AdmissionSettings(queue_size=0)))
        async with running(gateway), connected(gateway) as first:
            await replica.session()
            async with connected(gateway) as second:
                pass
            assert second.sent[-1]["reason"] == "queue_full"
            first.vanishes()


async def test_clients_that_still_wait_as_the_gateway_stops_are_told_why() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url, limit=1))
        async with running(gateway), connected(gateway) as first:
            await replica.session()
            async with connected(gateway) as second:
                await eventually(lambda: second.delivered, "it waits")
                gateway.hurry()
                await gateway.drain()
        assert (first.sent[-1]["reason"], second.sent[-1]["reason"]) == (
            "gateway_restarting",
            "gateway_restarting",
        )


async def test_a_replica_that_is_lost_before_a_word_was_said_is_changed_for_the_next() -> None:
    async with ScriptedReplica() as replica, ScriptedReplica() as other:
        gateway = Gateway(settings(replica.url, other.url))
        async with running(gateway), connected(gateway) as client:
            (await replica.session()).abort()
            peer = await other.session()
            client.says("hello")
            assert await peer.recv() == "hello"
            assert [r.sessions for r in gateway.registry.all()] == [0, 1]
            client.vanishes()


async def test_under_passthrough_a_lost_replica_ends_the_session() -> None:
    async with ScriptedReplica() as replica, ScriptedReplica() as other:
        gateway = Gateway(settings(replica.url, other.url, session=SessionSettings(protocol="passthrough")))
        async with running(gateway):
            async with connected(gateway) as client:
                (await replica.session()).abort()
            assert client.sent[-1]["reason"] == "replica_lost"
            assert other.upgrades == []


@pytest.mark.parametrize(("policy", "ends"), [("keep", False), ("close", True)])
async def test_sessions_of_an_unhealthy_replica_and_no_others_are_treated_by_the_policy(
    policy: Literal["keep", "close"], ends: bool
) -> None:
    async with ScriptedReplica() as replica, ScriptedReplica() as other:
        session = SessionSettings(protocol="passthrough", on_unhealthy=policy)
        gateway = Gateway(settings(replica.url, other.url, limit=1, session=session))
        async with running(gateway), connected(gateway) as first:
            await replica.session()
            async with connected(gateway) as second:
                peer = await other.session()
                gateway.registry.note_failure(gateway.registry.all()[0], failure_threshold=1, reason="test")
                second.says("still here")
                assert await peer.recv() == "still here"

                async def told() -> bool:
                    closed = [message for message in first.sent if message["type"] == "websocket.close"]
                    return [message["reason"] for message in closed] == (["replica_lost"] if ends else [])

                await eventually(told, "the first client is told, or is not")
                first.vanishes()
                second.vanishes()


async def test_a_client_is_placed_by_the_key_in_its_first_message() -> None:
    async with ScriptedReplica() as replica, ScriptedReplica() as other:
        gateway = Gateway(settings(replica.url, other.url, affinity=AffinitySettings(key="init:client_id")))
        chosen: dict[str, set[str]] = {}
        async with running(gateway):
            for client_id in [*"abcdefgh"] * 2:
                init = json.dumps({"type": "session_init_v2", "client_id": client_id})
                async with connected(gateway) as client:
                    await eventually(client.sent.__len__, "it is answered first")
                    assert gateway.registry.all()[0].sessions + gateway.registry.all()[1].sessions == 0
                    client.says(init)
                    async with asyncio.TaskGroup() as tasks:
                        asked = {tasks.create_task(house.session()): house.url for house in (replica, other)}
                        done, left = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                        for task in left:
                            task.cancel()
                    (found,) = done
                    chosen.setdefault(client_id, set()).add(asked[found])
                    assert await found.result().recv() == init
                    client.vanishes()
        assert all(len(urls) == 1 for urls in chosen.values())
        assert set.union(*chosen.values()) == {replica.url, other.url}


async def test_a_client_may_have_so_many_sessions() -> None:
    async with ScriptedReplica() as replica:
        gateway = Gateway(settings(replica.url, admission=AdmissionSettings(max_sessions_per_client=1)))
        async with running(gateway), connected(gateway) as first:
            await replica.session()
            async with connected(gateway) as second:
                pass
            assert second.sent[0]["status"] == 429
            first.vanishes()
