"""The published schema: valid itself, up to date, and of one mind with the reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from jsonschema.validators import Draft7Validator

from emulator.faults import CATALOGUE
from emulator.scenario.reading import SHIPPED, BrokenScenario, files_in, scenario_from
from emulator.scenario.schema import schema
from emulator.scenario.text import read_text
from scripts.reference import DOCS, SCHEMA

SCHEMA_VALUE: dict[str, Any] = schema()
VALIDATOR = Draft7Validator(SCHEMA_VALUE)
FILES = list(files_in([SHIPPED]))


def complaints(text: str) -> list[str]:
    """What an editor would mark."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(read_text(text).tree)]


def test_the_published_file_is_what_the_models_say() -> None:
    assert json.loads(SCHEMA.read_text()) == SCHEMA_VALUE, "python -m scripts.reference makes it anew"


def test_it_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA_VALUE)


def test_every_reference_leads_somewhere() -> None:
    def references(node: Any) -> set[str]:
        match node:
            case dict():
                own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
                return own.union(*(references(value) for value in node.values()))
            case list():
                return set().union(*(references(value) for value in node))
            case _:
                return set()

    named = {reference.removeprefix("#/definitions/") for reference in references(SCHEMA_VALUE)}
    assert named == set(SCHEMA_VALUE["definitions"])


def test_every_key_is_explained() -> None:
    for name, definition in {"": SCHEMA_VALUE, **SCHEMA_VALUE["definitions"]}.items():
        fields = definition if "properties" in definition else definition.get("anyOf", [{}])[0]
        for key, value in fields.get("properties", {}).items():
            is_fault = "$ref" in value and "fault_" in value["$ref"]
            assert is_fault or value.get("description"), f"{name}.{key}"


@pytest.mark.parametrize("fault", CATALOGUE)
def test_a_fault_has_its_fields_in_the_schema(fault: str) -> None:
    assert complaints(f"replicas: {{faults: {{{fault}: {{}}}}}}") == []
    assert complaints(f"replicas: {{faults: {{{fault}: {{probability: 0.5, for_seconds: 2s}}}}}}") == []
    assert complaints(f"timeline: [{{at: 1, fault: {{replica: a, {fault}: {{nonsense: 1}}}}}}]")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_scenarios_fit_it(file: Any) -> None:
    assert complaints(file.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "deadline: 1m\nlasts: 300ms",
        "replicas: {faults: {abort: , stall: {seconds: 2s, for_seconds: 1}}}",
        "replicas: {each: {'[ab]': {subprotocols: [x], gateway: {primary: true}}}}",
        "sessions: [{prompts: 3}, {name: t, prompts: [a, {prompt: b, seed: 1}, {send: x}, {wait: 1s}]}]",
        "sessions: [{read: slow, reconnect: 2}, {name: t, read: {how: stopped, for: 1s}, reconnect: {}}]",
        "sessions: [{init: null}, {name: t, when: {session: s, event: closed}}]",
        "timeline: [{at: 1, kill: a, lift: {replica: [a, b], fault: abort}, pause: {replica: c, for: 1s}}]",
        "timeline: [{when: {replica: a, event: open}, fault: {replica: a, abort: {}}, gateway: SIGHUP}]",
        "sessions: [{}]\nexpect: {sessions: {s: {close: 1000, errors: [an_error], refused: [401, 503]}}}",
        "sessions: [{}]\nexpect: {sessions: {s: {close: none, errors: {x: some}, refused: none}}}",
        "sessions: [{}]\nexpect: {sessions: {s: [{segments: all}, {segments: {at_least: 1}, how_many: 1}]}}",
        "expect: {replicas: {a: {closes: {1000: 1}, headers: {x: null}}}}",
        "expect: {status: [{replicas: {a: healthy}, at: 1s}, {replicas: {b: unknown}}]}",
    ],
)
def test_what_the_reader_takes_the_schema_takes(text: str) -> None:
    scenario_from(text)
    assert complaints(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "seed: x",
        "nonsense: 1",
        "deadline: 2h",
        "replicas: {count: 0}",
        "replicas: {faults: {abrt: {}}}",
        "replicas: {faults: {latency: {seconds: -1}}}",
        "sessions: [{prompts: [3]}]",
        "sessions: [{prompts: [{sed: 1}]}]",
        "sessions: [{read: fast}]",
        "timeline: [{kill: a}]",
        "timeline: [{at: 1s}]",
        "timeline: [{at: 1s, when: {session: s, event: opened}, kill: a}]",
        "timeline: [{when: {replica: a, event: nothing}, kill: a}]",
        "timeline: [{at: 1, lift: {replica: a, fault: abrt}}]",
        "expect: {sessions: {s: {errors: nine}}}",
        "expect: {sessions: {s: {errors: {a: b}}}}",
        "expect: {sessions: {s: {refused: [99]}}}",
        "expect: {sessions: {s: {close: {cod: 1}}}}",
        "expect: {sessions: {s: [{resumed: -1}]}}",
        "expect: {status: {replicas: {a: sick}}}",
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(text: str) -> None:
    assert complaints(text)
    with pytest.raises(BrokenScenario):
        scenario_from(text)


def test_a_plain_yaml_reader_sees_the_same_values() -> None:
    """Editors read YAML by libraries of their own; the files have to mean the same to all."""
    for file in files_in([SHIPPED]):
        assert yaml.safe_load(file.read_text()).keys() == read_text(file.read_text()).tree.keys()


def test_the_example_in_the_docs_is_right_and_fits() -> None:
    page = (DOCS / "scenarios.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        scenario_from(example)
        assert complaints(example) == []
