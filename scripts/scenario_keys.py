"""Every key of a scenario file with its values, its default and its meaning, from the published schema."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from emulator.faults import CATALOGUE
from emulator.scenario.schema import schema
from emulator.scenario.values import Duration

_PREFIX = "#/definitions/"
_DURATION = TypeAdapter(Duration).json_schema()["anyOf"]
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "null": "`null`",
    "object": "mapping",
    "array": "list",
}


@dataclass(slots=True)
class _Sections:
    """Walks the schema, and gives each kind of mapping the place where it was met first."""

    definitions: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    """Definition to the path of the key under which it stands."""
    waiting: list[str] = field(default_factory=list)

    def words(self, node: dict[str, Any], path: str) -> str:
        """What may stand there."""
        if (name := _reference(node)) is not None:
            return self._named(name, path)
        if values := node.get("enum") or [node[key] for key in ("const",) if key in node]:
            return (
                "name of a fault"
                if values == list(CATALOGUE)
                else ", ".join(f"`{value}`" for value in values)
            )
        choices = node.get("anyOf") or node.get("oneOf")
        if choices is not None:
            return self._choices([each for each in choices if each.get("type") != "null"], path)
        match node.get("type"):
            case "array":
                return f"list of {self.words(node['items'], path + '[]')}"
            case "object":
                inner = node.get("additionalProperties") or next(
                    iter(node.get("patternProperties", {}).values()), None
                )
                if not isinstance(inner, dict):
                    return "mapping"
                return f"mapping of names to {self.words(inner, path + '.NAME')}"
            case "string" if node.get("pattern") == "^(none|some)$":
                return "`none`, `some`"
            case None:
                return "anything"
            case kind:
                return _TYPES[str(kind)]

    def _choices(self, choices: list[dict[str, Any]], path: str) -> str:
        if choices == _DURATION:
            return "duration"
        if any(_reference(each) == "Count" for each in choices):
            return "count"
        told = [self.words(each, path) for each in choices]
        if len(told) == 2 and told[1] == f"list of {told[0]}":
            return f"{told[0]}, or a list of them"
        return " or ".join(dict.fromkeys(told))

    def _named(self, name: str, path: str) -> str:
        if name.startswith("fault_"):
            return "its fields"
        if name not in self.places:
            self.places[name] = path
            self.waiting.append(name)
        return f"[{_KINDS.get(name, f'`{self.places[name]}`')}](#{_anchor(self.places[name], name)})"


def scenario_keys() -> str:
    """A section for each mapping of a scenario file, with a table of its keys."""
    whole = schema()
    sections = _Sections(whole["definitions"])
    parts = [_section("A scenario", whole, sections, "")]
    while sections.waiting:
        name = sections.waiting.pop(0)
        path = sections.places[name]
        parts.append(_section(_heading(path, name), whole["definitions"][name], sections, path))
    return "\n".join(parts)


_WHENS = {"ReplicaWhen": "at a replica", "ClientWhen": "at a client", "StatusWhen": "in the gateway's status"}
_LINES = {"Prompt": "a prompt", "Say": "a message", "Binary": "a binary message", "Wait": "a pause"}
_KINDS = {**_WHENS, **_LINES}


def _heading(path: str, name: str) -> str:
    return f"`{path}`, {_KINDS[name]}" if name in _KINDS else f"`{path}`"


def _anchor(path: str, name: str) -> str:
    """As GitHub makes it of the heading."""
    heading = _heading(path, name).replace("`", "").lower()
    return "".join(letter for letter in heading if letter.isalnum() or letter in " -_").replace(" ", "-")


def _section(heading: str, node: dict[str, Any], sections: _Sections, path: str) -> str:
    if node == sections.definitions["Own"]:
        kept = [f"`{key}`" for key in node["properties"]]
        keys = _wrapped(f"Some of the keys of `replicas`: {', '.join(kept)}.")
        return f"### {heading}\n\n{keys}\n"
    said = f"{_wrapped(node['description'])}\n\n" if node.get("description") else ""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|", *_rows(node, sections, path)]
    return f"### {heading}\n\n{said}" + "\n".join(rows) + "\n"


def _wrapped(paragraph: str) -> str:
    """In lines that fit a screen."""
    return textwrap.fill(paragraph, 124, break_long_words=False, break_on_hyphens=False)


def _rows(node: dict[str, Any], sections: _Sections, path: str) -> Iterator[str]:
    has_faults = False
    for key, value in node["properties"].items():
        if (_reference(value) or "").startswith("fault_"):
            has_faults = True
            continue
        inner = f"{path}.{key}" if path else key
        cells = [f"`{key}`", sections.words(value, inner), _default(key, node), value.get("description", "")]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    if has_faults:
        fault = "the name of a [fault](faults.md#faults)"
        yield f"| {fault} | mapping of its fields, `{{}}` for the defaults | | the fault stands |"


def _default(key: str, holder: dict[str, Any]) -> str:
    """Empty where the meaning says what is when the key is left out."""
    if key in holder.get("required", ()):
        return "required"
    value = holder["properties"][key].get("default")
    return "" if value in (None, [], "") or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _reference(node: dict[str, Any]) -> str | None:
    """The definition that the node stands for."""
    for holder in (node, *node.get("allOf", [])):
        if "$ref" in holder:
            return str(holder["$ref"]).removeprefix(_PREFIX)
    optional = [each for each in node.get("anyOf", []) if each.get("type") != "null"]
    return _reference(optional[0]) if len(optional) == 1 else None
