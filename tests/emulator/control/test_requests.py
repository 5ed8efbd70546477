from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from emulator.control.answers import Problem, ReplicaStatus
from emulator.control.feed import MAX_WAITING
from emulator.control.problems import PROBLEM_CODES
from emulator.events import KINDS
from emulator.farm import Farm
from emulator.faults import CATALOGUE
from tests.emulator.sessions import session


async def test_replicas_are_listed_and_shown(api: httpx.AsyncClient, farm: Farm) -> None:
    listed = (await api.get("/replicas")).json()
    assert [replica["name"] for replica in listed] == ["a", "b"]
    shown = (await api.get("/replicas/a")).json()
    assert shown == listed[0]
    assert shown["url"] == farm.replicas["a"].url
    assert (shown["state"], shown["sessions"], shown["faults"]) == ("running", 0, {})


async def test_a_gateways_environment_is_told_where_there_is_one(api: httpx.AsyncClient, farm: Farm) -> None:
    nowhere = await api.get("/environment")
    assert (nowhere.status_code, nowhere.json()["error"]) == (404, "not_listed")
    assert "start the emulator with --cloudmap" in nowhere.json()["detail"]
    farm.environment = {"AWS_REGION": "us-east-1", "GATEWAY_ROUTER__REPLICAS": "[]"}
    told = await api.get("/environment")
    assert told.text == "export AWS_REGION=us-east-1\nexport GATEWAY_ROUTER__REPLICAS='[]'\n"


async def test_a_fault_is_armed_replaced_and_lifted(api: httpx.AsyncClient) -> None:
    armed = (await api.put("/replicas/a/faults/stall", json={"seconds": 5})).json()
    assert armed["faults"]["stall"]["seconds"] == 5
    replaced = (await api.put("/replicas/a/faults/stall")).json()
    assert replaced["faults"]["stall"]["seconds"] is None
    assert (await api.delete("/replicas/a/faults/stall")).json()["faults"] == {}
    assert (await api.delete("/replicas/a/faults/stall")).status_code == 200


async def test_what_stands_can_be_asked_for(api: httpx.AsyncClient) -> None:
    assert (await api.get("/replicas/a/faults")).json() == {}
    shown = (await api.put("/replicas/a/faults/stall", json={"seconds": 5})).json()
    assert (await api.get("/replicas/a/faults")).json() == shown["faults"]
    assert (await api.get("/replicas/a/faults/stall")).json() == shown["faults"]["stall"]


async def test_a_body_beyond_all_bounds_is_refused_in_words(api: httpx.AsyncClient) -> None:
    deep = await api.put("/replicas/a/faults/stall", content=b"[" * 100_000)
    assert (deep.status_code, "is no JSON" in deep.json()["detail"]) == (400, True)
    large = await api.put("/replicas/a/faults/bad_json", content=b"{" + b" " * 11_000_000)
    assert (large.status_code, "too large" in large.json()["detail"]) == (413, True)


async def test_a_header_is_named_as_it_was_written(api: httpx.AsyncClient) -> None:
    answer = await api.get("/events/stream", headers={"Last-Event-ID": "x"})
    assert answer.json()["detail"] == 'Last-Event-ID: must be a whole number, not "x"'


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
        ("PUT", "/replicas/a/faults/stall", [1], 400, "must be a JSON object or empty, not [1]"),
        ("PUT", "/replicas/a/faults/stall", {"point": "opn"}, 400, 'not "opn"; did you mean open?'),
        ("POST", "/replicas/a/kill", {"after": 1}, 400, "its fields: restart_after_seconds, warming_seconds"),
        ("POST", "/replicas/a/restart", {"after_seconds": -1}, 400, "must be a number of 0 or more, not -1"),
        ("POST", "/replicas/a/pause", {"for_seconds": "x"}, 400, 'must be a number above 0 or null, not "x"'),
        ("POST", "/replicas/a/pause", {"for_second": 1}, 400, "did you mean for_seconds?"),
        ("POST", "/replicas/zz/kill", None, 404, "there are: a, b"),
        ("POST", "/replicas", {"name": "a"}, 409, "choose another name"),
        (
            "POST",
            "/replicas",
            {"name": "no/slash"},
            400,
            "a name of 1 to 64 letters, digits, - and _ or null, not",
        ),
        ("POST", "/replicas", {"port": 65536}, 400, "port must be a whole number from 0 to 65535, not 65536"),
        ("POST", "/replicas", {"capacity": 0}, 400, "a whole number of 1 or more or null, not 0"),
        ("DELETE", "/replicas/zz", None, 404, "there are: a, b"),
        ("DELETE", "/replicas/zz/faults", None, 404, "there are: a, b"),
        ("GET", "/replicas/zz/sessions", None, 404, "there are: a, b"),
        ("GET", "/events?replica=zz", None, 404, "there are: a, b"),
        ("GET", "/events?kind=died", None, 400, "there are: state_changed"),
        ("GET", "/events?limit=0", None, 400, 'limit: must be a whole number of 1 or more, not "0"'),
        ("GET", "/events?after=-1", None, 400, 'after: must be a whole number of 0 or more, not "-1"'),
        ("GET", "/events?after=1000000", None, 400, "begin with 0"),
        (
            "GET",
            "/events?wait_seconds=61",
            None,
            400,
            'wait_seconds: must be a number of 60 at most, not "61"',
        ),
        ("GET", "/events?session=x", None, 400, 'session: must be a whole number, not "x"'),
        ("GET", "/events?limit=x", None, 400, 'limit: must be a whole number, not "x"'),
        ("GET", "/events?replicas=a", None, 400, "replicas: is no parameter here; did you mean replica?"),
        (
            "GET",
            "/events/stream?limit=1",
            None,
            400,
            "limit: is no parameter here; there are: after, replica",
        ),
        ("GET", "/events?kind=session_open", None, 400, "did you mean session_opened?"),
        ("GET", "/faults/stahl", None, 404, "there is no fault 'stahl'; did you mean stall?"),
        ("GET", "/replicas/zz/faults", None, 404, "there are: a, b"),
        ("GET", "/replicas/a/faults/stahl", None, 404, "did you mean stall?"),
        ("GET", "/replicas/a/faults/stall", None, 404, "stall does not stand on replica a: a PUT arms it"),
        ("GET", "/events/stream?replica=zz", None, 404, "there are: a, b"),
        ("GET", "/replica", None, 404, "there is no /replica; the routes are described at /schema"),
        ("POST", "/replicas/a", {}, 405, "does not take POST"),
    ],
)
async def test_a_wrong_request_is_told_what_would_be_right(
    api: httpx.AsyncClient, method: str, path: str, body: Any, status: int, text: str
) -> None:
    answer = await (api.request(method, path, json=body) if body is not None else api.request(method, path))
    assert answer.status_code == status
    problem = msgspec.json.decode(answer.content, type=Problem)
    assert problem.status == status
    assert text in problem.detail
    assert problem.error in PROBLEM_CODES


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


async def test_a_replica_joins_over_the_api_and_leaves(api: httpx.AsyncClient, farm: Farm) -> None:
    joined = await api.post("/replicas", json={"capacity": 1})
    assert (joined.status_code, joined.json()["name"], joined.json()["capacity"]) == (201, "c", 1)
    async with session(farm.replicas["c"].ws_url) as client:
        await client.open()
        assert (await api.delete("/replicas/c")).status_code == 204
        assert (await client.to_the_end()).code == 1001
    assert [replica["name"] for replica in (await api.get("/replicas")).json()] == ["a", "b"]


async def test_a_port_that_somebody_holds_is_refused(api: httpx.AsyncClient, farm: Farm) -> None:
    answer = await api.post("/replicas", json={"name": "x", "port": farm.replicas["a"].port})
    assert (answer.status_code, answer.json()["error"]) == (409, "port_busy")
    assert "0 for any free one" in answer.json()["detail"]


async def test_all_faults_of_a_replica_are_lifted(api: httpx.AsyncClient) -> None:
    for fault in ("latency", "stall"):
        await api.put(f"/replicas/a/faults/{fault}")
    assert (await api.delete("/replicas/a/faults")).json()["faults"] == {}


async def test_everything_is_seen_at_a_glance(api: httpx.AsyncClient, farm: Farm) -> None:
    async with session(farm.replicas["b"].ws_url + "?room=1") as client:
        await client.open()
        media = await client.segment("p")
        seen = (await api.get("/farm")).json()
        assert [replica["sessions"] for replica in seen["replicas"]] == [0, 1]
        assert seen["last_event"] == farm.log.last
        (shown,) = seen["sessions"]
        assert (shown["replica"], shown["session"], shown["path"]) == ("b", 1, "/v1/stream?room=1")
        assert (shown["received"], shown["segments"]) == (2, 1)
        assert shown["sent_bytes"] > len(media)
        assert (await api.get("/sessions")).json() == seen["sessions"]
        assert (await api.get("/replicas/b/sessions")).json() == seen["sessions"]
        assert (await api.get("/replicas/a/sessions")).json() == []


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
        "type": "a number or null",
        "default": None,
        "means": "How long; null for until the client leaves or the fault is lifted.",
        "choices": None,
    }
    assert served["stall"]["fields"]["then"]["choices"] == ["continue", "reset"]
    assert (await api.get("/faults/stall")).json() == served["stall"]
    assert (await api.get("/events/kinds")).json() == dict(KINDS)


async def test_what_is_said_of_a_replica_has_its_place_in_the_description(farm: Farm) -> None:
    known = {entry.name for entry in msgspec.structs.fields(ReplicaStatus)}
    assert set(farm.replicas["a"].status()) == known


async def test_a_defect_of_ours_is_told_as_one_and_logged(
    api: httpx.AsyncClient, farm: Farm, caplog: pytest.LogCaptureFixture
) -> None:
    farm.replicas["x"] = None  # type: ignore[assignment]
    try:
        answer = await api.get("/replicas/x")
    finally:
        del farm.replicas["x"]
    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert "AttributeError" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:evil"},
        {"Host": "127.0.0.1:70000"},
        {"Host": ""},
        {"Origin": "http://localhost:3000"},
    ],
)
@pytest.mark.parametrize("path", ["/reset", "/nowhere", "/player", "/schema"])
async def test_who_may_not_ask_is_told_so_on_every_route(
    api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, path: str, headers: dict[str, str]
) -> None:
    answer = await api.request("POST" if path == "/reset" else "GET", path, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
    assert "only" in answer.json()["detail"]
    assert caplog.text == ""


async def test_the_emulators_own_page_may_ask_under_each_of_its_names(api: httpx.AsyncClient) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{api.base_url.port}"
        answer = await api.post("/reset", headers={"Host": host, "Origin": f"http://{host}"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/farm", "/replicas/a", "/faults", "/events?wait_seconds=0", "/player", "/schema", "/replicas/zz"],
)
async def test_head_is_get_without_its_body(api: httpx.AsyncClient, path: str) -> None:
    got, head = await api.get(path), await api.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]
    assert (await api.get("/farm")).status_code == 200  # on the same connection


async def test_head_of_a_stream_ends(api: httpx.AsyncClient) -> None:
    # More than may wait at a time: none of them is left behind.
    for _ in range(MAX_WAITING + 1):
        head = await api.head("/events/stream?after=0")
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream")


async def test_what_a_route_takes_is_told(api: httpx.AsyncClient) -> None:
    allowed = (await api.options("/farm")).headers["allow"]
    assert set(allowed.split(", ")) == {"GET", "HEAD", "OPTIONS"}
    refused = await api.head("/reset")
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"POST", "OPTIONS"})


@pytest.mark.parametrize("path", ["/", "/farm", "/replicas/zz", "/nowhere", "/schema/openapi.json"])
async def test_json_ends_with_its_line(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.content.endswith(b"}\n")
    answer.json()


async def test_an_answer_to_nobody_ends_with_its_line(api: httpx.AsyncClient) -> None:
    assert (await api.get("/farm", headers={"Host": "x"})).content.endswith(b"}\n")


async def test_every_place_that_is_named_first_is_there(api: httpx.AsyncClient) -> None:
    for name, path in (await api.get("/")).json().items():
        assert (await api.get(path)).status_code == 200, name
