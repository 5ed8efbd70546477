"""What is wrong in one place brings about no complaint about another, wherever it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from emulator.scenario.mending import without
from emulator.scenario.reading import SHIPPED, BrokenScenario, scenario_from
from emulator.scenario.text import Path, read_text

RICH = ("all-down", "drain", "flap", "queue-left", "rolling-deploy", "stall", "unhealthy-in-status")
"""Scenarios that between them have nearly every key."""


def inside(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below, with its place."""
    yield path, node
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from inside(node[key], (*path, key))


def put(tree: Any, path: Path, value: object) -> Any:
    """`tree` with this value at that place."""
    found = node = copy.deepcopy(tree)
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return found


def problems(text: str) -> list[str]:
    """All that is told of it."""
    try:
        scenario_from(text)
    except BrokenScenario as broken:
        return list(map(str, broken.problems))
    return []


@pytest.mark.parametrize("name", RICH)
def test_one_mistake_is_one_problem(name: str) -> None:
    tree = read_text((SHIPPED / f"{name}.yaml").read_text()).tree
    for path, value in inside(tree):
        wrong: list[Any] = []
        if isinstance(value, dict):
            wrong.append(put(tree, (*path, "zzzz"), 1))
        elif path and not isinstance(value, list):
            wrong += [put(tree, path, [{"zz": [1]}]), put(tree, path, float("nan"))]
        for each in wrong:
            told = problems(json.dumps(each).replace("NaN", ".nan"))
            # There is none where any value may stand, as in a session's init.
            assert len(told) == 1 or "init" in path or "environment" in path, (path, told)


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (("seed",), {"timeline": [{"at": 1, "kill": "a"}], "sessions": [{"name": "s", "at": 2}]}),
        (("timeline", 0, "kill", "replica"), {"timeline": [{"at": 1, "reset": "*"}]}),
        (("timeline", 0, "at"), {"timeline": [{"at": 0, "kill": "a"}]}),
        (("timeline", 0), {"timeline": [{"at": 0, "kill": "a"}]}),
        (("timeline",), {"sessions": [{"name": "s", "at": 2}]}),
        (("sessions", 0, "at"), {"sessions": [{"name": "s"}]}),
        (("sessions", 0, "name"), {"sessions": [{"name": "stand-in-0", "at": 2}]}),
        (("sessions", 0), {"sessions": [{"name": "s"}]}),
    ],
)
def test_what_is_taken_away_is_no_more_than_has_to_be(wrong: Path, left: dict[str, Any]) -> None:
    tree = {"seed": "x", "timeline": [{"at": 1, "kill": "a"}], "sessions": [{"name": "s", "at": 2}]}
    found = without(tree, [wrong])
    assert {key: found[key] for key in left} == left
    assert (wrong[0] in found) is (len(wrong) > 1)
    assert tree["seed"] == "x", "the tree itself stays"
