from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from emulator.control.server import ControlServer
from emulator.events import KINDS
from emulator.farm import Farm
from emulator.faults import CATALOGUE
from emulator.replica.server import bind
from tests.emulator.sessions import session


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2) as running:
        yield running


@pytest.fixture
async def api(farm: Farm) -> AsyncIterator[httpx.AsyncClient]:
    with bind("127.0.0.1", 0) as bound:
        server = ControlServer(farm, bound)
        running = asyncio.create_task(server.run())
        await server.wait_until_up()
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20) as client:
            yield client
        server.stop()
        await running


async def test_replicas_are_listed_and_shown(api: httpx.AsyncClient, farm: Farm) -> None:
    listed = (await api.get("/replicas")).json()
    assert [replica["name"] for replica in listed] == ["a", "b"]
    shown = (await api.get("/replicas/a")).json()
    assert shown == listed[0]
    assert shown["url"] == farm.replicas["a"].url
    assert (shown["state"], shown["sessions"], shown["faults"]) == ("running", 0, {})


async def test_a_fault_is_armed_replaced_and_lifted(api: httpx.AsyncClient) -> None:
    armed = (await api.put("/replicas/a/faults/stall", json={"seconds": 5})).json()
    assert armed["faults"]["stall"]["seconds"] == 5
    replaced = (await api.put("/replicas/a/faults/stall")).json()
    assert replaced["faults"]["stall"]["seconds"] is None
    assert (await api.delete("/replicas/a/faults/stall")).json()["faults"] == {}
    assert (await api.delete("/replicas/a/faults/stall")).status_code == 200


async def test_every_fault_can_be_armed_with_its_defaults(api: httpx.AsyncClient) -> None:
    for name in CATALOGUE:
        assert (await api.put(f"/replicas/b/faults/{name}")).status_code == 200
    assert list((await api.get("/replicas/b")).json()["faults"]) == list(CATALOGUE)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/replicas/zz", None, 404, "there are: a, b"),
        ("PUT", "/replicas/zz/faults/stall", None, 404, "there are: a, b"),
        ("PUT", "/replicas/a/faults/stahl", None, 404, "there are: refuse, "),
        ("DELETE", "/replicas/a/faults/stahl", None, 404, "there are: refuse, "),
        ("PUT", "/replicas/a/faults/stall", {"secs": 1}, 400, "its fields: probability"),
        ("PUT", "/replicas/a/faults/close", {"code": 1006}, 400, "code may be"),
        ("PUT", "/replicas/a/faults/stall", [1], 400, "must be a JSON object"),
        ("POST", "/replicas/a/kill", {"after": 1}, 400, "may have: restart_after_seconds, warming_seconds"),
        ("POST", "/replicas/a/restart", {"after_seconds": -1}, 400, ">= 0"),
        ("POST", "/replicas/a/pause", {"for_seconds": "x"}, 400, "may have: for_seconds"),
        ("POST", "/replicas/zz/kill", None, 404, "there are: a, b"),
        ("GET", "/events?replica=zz", None, 404, "there are: a, b"),
        ("GET", "/events?limit=0", None, 400, ">= 1"),
        ("GET", "/events?after=-1", None, 400, ">= 0"),
    ],
)
async def test_a_wrong_request_is_told_what_would_be_right(
    api: httpx.AsyncClient, method: str, path: str, body: Any, status: int, text: str
) -> None:
    answer = await (api.request(method, path, json=body) if body is not None else api.request(method, path))
    assert answer.status_code == status
    assert text in answer.text


async def test_a_body_that_is_no_json_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.put("/replicas/a/faults/stall", content=b"seconds=5")
    assert (answer.status_code, "JSON object" in answer.json()["detail"]) == (400, True)


async def test_a_replica_is_killed_restarted_paused_and_resumed(api: httpx.AsyncClient) -> None:
    async def state_after(command: str, **body: float) -> str:
        return str((await api.post(f"/replicas/a/{command}", json=body)).json()["state"])

    assert await state_after("kill") == "killed"
    for command in ("pause", "resume"):
        answer = await api.post(f"/replicas/a/{command}")
        assert (answer.status_code, "restart first" in answer.text) == (409, True)
    assert await state_after("restart", warming_seconds=60) == "running"
    assert (await api.get("/replicas/a")).json()["warming"]
    assert await state_after("pause") == "paused"
    assert await state_after("resume") == "running"
    assert await state_after("kill", restart_after_seconds=60) == "killed"
    after = (await api.post("/reset")).json()
    assert [(replica["state"], replica["faults"]) for replica in after] == [("running", {})] * 2


async def test_events_show_what_a_replica_saw(api: httpx.AsyncClient, farm: Farm) -> None:
    async with session(farm.replicas["a"].ws_url, additional_headers={"Authorization": "Bearer t"}) as client:
        await client.open()
        await client.segment("p")
        await client.socket.close(4000, "done")
    page = (await api.get("/events", params={"replica": "a"})).json()
    kinds = [event["kind"] for event in page["events"]]
    assert set(kinds) <= set(KINDS)
    for kind in ("upgrade_received", "upgrade_answered", "message_received", "message_sent", "binary_sent"):
        assert kind in kinds
    (upgrade,) = [event for event in page["events"] if event["kind"] == "upgrade_received"]
    assert ["Authorization", "Bearer t"] in upgrade["detail"]["headers"]
    later = (await api.get("/events", params={"after": page["last"]})).json()
    assert later["events"] == []
    assert (await api.get("/events", params={"replica": "b", "limit": 1})).json()["events"][0][
        "replica"
    ] == "b"


async def test_the_catalogues_are_served(api: httpx.AsyncClient) -> None:
    served = (await api.get("/faults")).json()
    assert list(served) == list(CATALOGUE)
    assert served["stall"]["fields"]["seconds"] == {
        "type": "float | None",
        "default": None,
        "means": "How long; null for until the client leaves or the fault is lifted.",
    }
    assert (await api.get("/events/kinds")).json() == dict(KINDS)


async def test_the_routes_are_described(api: httpx.AsyncClient) -> None:
    described = (await api.get("/schema/openapi.json")).json()
    assert {"/replicas", "/replicas/{name}/faults/{fault}", "/events", "/reset"} <= set(described["paths"])


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://["},
        {"Origin": "null"},
    ],
)
async def test_web_pages_of_others_are_kept_out(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await api.post("/reset", headers=headers)
    assert (answer.status_code, "only" in answer.text) == (403, True)
