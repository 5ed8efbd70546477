"""The API's description is valid, whole and true."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from emulator.control.description import schemas
from emulator.faults import CATALOGUE, fields_of

METHODS = ("get", "put", "post", "delete", "patch")


@pytest.fixture
async def described(api: httpx.AsyncClient) -> dict[str, Any]:
    return dict((await api.get("/schema/openapi.json")).json())


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        for method, operation in item.items():
            assert method in METHODS, f"{path}: {method}"
            yield f"{method.upper()} {path}", operation


def references(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        case list():
            for inner in value:
                yield from references(inner)
        case _:
            pass


async def test_it_has_the_shape_of_openapi_3_1(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.1.")
    assert described["info"]["title"]
    assert {tag["name"] for tag in described["tags"]} == {"replicas", "faults", "events", "farm"}
    for name, operation in operations(described):
        assert operation["responses"], name
        for status, response in operation["responses"].items():
            assert status.isdigit()
            assert response["description"], f"{name} {status}"
        for parameter in operation.get("parameters", []):
            assert parameter["in"] in ("path", "query", "header")
            assert parameter["required"] or parameter["in"] != "path"
            assert parameter["description"], f"{name} {parameter['name']}"
            jsonschema.Draft202012Validator.check_schema(parameter["schema"])


async def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    places = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    used = set(references(described))
    assert used <= places
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_every_operation_has_an_id_a_tag_and_a_word(described: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(described)]
    assert len(ids) == len(set(ids))
    for name, operation in operations(described):
        assert operation["operationId"].isidentifier(), name
        assert operation["tags"], name
        assert operation["description"], name
        assert (operation["responses"]["403"]["content"]["application/json"]["schema"]) == {
            "$ref": "#/components/schemas/Problem"
        }, name


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_has_a_schema_with_all_its_fields_and_what_they_mean(name: str) -> None:
    kind = CATALOGUE[name]
    schema = schemas()[kind.__name__]
    assert set(schema["properties"]) == {entry.name for entry in dataclasses.fields(kind)}
    assert schema["description"]
    for field, default in fields_of(kind()).items():
        said = schema["properties"][field]
        assert said["default"] == default
        assert said["description"], field
    jsonschema.validate(fields_of(kind()), schema)
    with pytest.raises(jsonschema.ValidationError, match="unexpected"):
        jsonschema.validate({"no_such_field": 1}, schema)


async def test_every_example_is_taken(api: httpx.AsyncClient, described: dict[str, Any]) -> None:
    for path, item in described["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody")
            if body is None:
                continue
            assert not body["required"]
            for name, example in body["content"]["application/json"]["examples"].items():
                where = path.replace("{name}", "a").replace("{fault}", name)
                given = {**example["value"], "port": 0} if path == "/replicas" else example["value"]
                await api.post("/reset")
                answer = await api.request(method, where, json=given)
                assert answer.is_success, f"{method} {where} {given}: {answer.text}"


async def test_answers_are_as_described(api: httpx.AsyncClient, described: dict[str, Any]) -> None:
    await api.put("/replicas/a/faults/stall", json={"seconds": 5})
    for path, item in described["paths"].items():
        if "get" not in item or path in ("/events/stream", "/environment"):
            continue
        answer = await api.get(path.replace("{name}", "a").replace("{fault}", "stall"))
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": described["components"]})
    problem = await api.get("/replicas/zz")
    jsonschema.validate(problem.json(), described["components"]["schemas"]["Problem"])


async def test_the_page_for_people_is_there(api: httpx.AsyncClient) -> None:
    answer = await api.get("/schema")
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/html")
