"""PURE. The JSON Schema of scenario files, for editors, made from the models and the catalogue of faults.

Draft 7, which the language servers of all editors know. `schema.json` beside this file is what it makes;
`python -m emulator validate --schema` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from emulator.described import field_docs, summary
from emulator.faults import CATALOGUE, Fault
from emulator.scenario.faults import FAULT_KEY
from emulator.scenario.model import Scenario
from emulator.scenario.values import Duration

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TEMPLATE = "#/definitions/{model}"


def schema() -> dict[str, Any]:
    """The schema as JSON values."""
    raw = Scenario.model_json_schema(by_alias=True, ref_template=_TEMPLATE)
    definitions = raw.pop("$defs")
    faults = {_fault_definition(name): _fault_schema(kind) for name, kind in CATALOGUE.items()}
    whole = {
        "$schema": _DRAFT,
        **raw,
        "title": "Scenario of the emulator",
        "definitions": {**definitions, **faults},
    }
    tidy: dict[str, Any] = _tidied(whole)
    return tidy


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _fault_definition(name: str) -> str:
    return f"fault_{name}"


def _fault_schema(kind: type[Fault]) -> dict[str, Any]:
    """What may stand under the fault's name: its fields, or nothing for their defaults."""
    made = TypeAdapter(kind).json_schema()
    duration = TypeAdapter(Duration).json_schema()
    said = field_docs(kind)
    for name, field in made["properties"].items():
        if name == "seconds" or name.endswith("_seconds"):
            default = field.get("default")
            optional = [{"type": "null"}] if default is None else []
            field = {"anyOf": [*duration["anyOf"], *optional], "default": default}
        made["properties"][name] = {**field, "description": said.get(name, "")}
    fields = {**made, "additionalProperties": False}
    return {"anyOf": [fields, {"type": "null"}], "description": summary(kind)}


def _tidied(node: Any) -> Any:
    """Descriptions in one line, no titles that repeat a key, faults in their places, and nothing beside a
    reference, which draft 7 would not see."""
    match node:
        case Mapping() if FAULT_KEY in node:
            return {"$ref": _TEMPLATE.format(model=_fault_definition(node[FAULT_KEY]))}
        case Mapping():
            found = {key: _told(key, value) for key, value in node.items() if not _is_title(key, value)}
            if "$ref" in found and len(found) > 1:
                found = {"allOf": [{"$ref": found.pop("$ref")}], **found}
            return found
        case list():
            return [_tidied(item) for item in node]
        case _:
            return node


def _told(key: str, value: Any) -> Any:
    if key == "description" and isinstance(value, str):
        return " ".join(value.split())
    return value if key in ("default", "examples") else _tidied(value)


def _is_title(key: str, value: object) -> bool:
    """Of pydantic's own making; a property may be called so as well, and is a mapping."""
    return key == "title" and isinstance(value, str) and not value.startswith("Scenario of")
