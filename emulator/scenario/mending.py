"""PURE. A scenario without what is wrong in it, so that what is wrong in the rest can be told at once.

What is taken away goes with the nearest key that may be left out: never so much that something else would be
complained of which is right as it stands.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from typing import Any

from emulator.scenario.text import Path
from emulator.scenario.timeline import Step

_TRIGGERS = ("at", "when")
_ACTIONS = frozenset(Step.model_fields) - {*_TRIGGERS}


def without(tree: dict[str, Any], wrong: Iterable[Path]) -> dict[str, Any]:
    """`tree` without what stands at these places."""
    found = copy.deepcopy(tree)
    for path in wrong:
        match path:
            case ("timeline", int(index), *rest) if isinstance(found.get("timeline"), list):
                steps = found["timeline"]
                steps[index] = _step(steps[index], rest)
            case ("sessions", int(index), *rest) if isinstance(found.get("sessions"), list):
                entries = found["sessions"]
                entries[index] = _entry(entries[index], rest, index)
            case ("expect", "status", int(index), *_) if isinstance(found["expect"]["status"], list):
                found["expect"]["status"][index] = {"replicas": {"*": "healthy"}}
            case (str(section), *_):
                if not _cut(found, _optional(path)):
                    found.pop(section, None)
            case _:
                pass
    return found


def unsure_names(tree: dict[str, Any], wrong: Iterable[Path]) -> frozenset[str]:
    """The sections, of `replicas` and `sessions`, whose names nobody can know because of what is wrong."""
    found = set()
    for path in wrong:
        match path:
            case ("replicas" | "sessions",):
                found.add(str(path[0]))
            case ("replicas", str(key)) | ("sessions", _, str(key)) if _is_near(key, ("name", "count")):
                found.add(str(path[0]))
            case ("sessions", int(index)) if not isinstance(tree["sessions"][index], dict):
                found.add("sessions")
            case _:
                pass
    return frozenset(found)


def _is_near(key: str, names: tuple[str, ...]) -> bool:
    """It is one of them, or may be meant to be."""
    return bool(difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6))


def _step(step: object, rest: list[str | int]) -> dict[str, Any]:
    """The step that is left; of a trigger or an action that was wrong, another one takes the place."""
    kept = dict(step) if isinstance(step, dict) else {}
    match rest:
        case [("at" | "when") as trigger, *_]:
            kept.pop(trigger, None)
            if not any(other in kept for other in _TRIGGERS):
                kept["at"] = 0
            return kept
        case [str(key), *_]:
            kept.pop(key, None)
            return kept if _ACTIONS & kept.keys() else {**kept, "reset": "*"}
        case _:
            actions = {key: value for key, value in kept.items() if key in _ACTIONS}
            return {"at": 0, **(actions or {"reset": "*"})}


def _entry(entry: object, rest: list[str | int], index: int) -> dict[str, Any]:
    """The sessions that are left."""
    stand_in = f"stand-in-{index}"
    if not isinstance(entry, dict):
        return {"name": stand_in}
    gone = str(rest[0]) if rest else "at"
    kept = {key: value for key, value in entry.items() if key != gone}
    return {**kept, "name": stand_in} if gone == "name" else kept


def _optional(path: Path) -> Path:
    """The place of the nearest key, here or above, that may be left out."""
    match path:
        case ("expect", "sessions" | "replicas", _, int(), str(), *_) | (
            "replicas",
            "each",
            _,
            "faults",
            _,
            *_,
        ):
            return path[:5]
        case ("expect", "sessions" | "replicas", _, str(), *_) | ("replicas", "each", _, str(), *_):
            return path[:4]
        case (
            ("expect", "sessions" | "replicas" | "gateway", _, *_)
            | ("replicas", "each" | "faults", _, *_)
            | ("gateway", "environment", _, *_)
        ):
            return path[:3]
        case ("expect" | "replicas" | "gateway", _, *_):
            return path[:2]
        case _:
            return path[:1]


def _cut(tree: dict[str, Any], path: Path) -> bool:
    """Whether there was something to take away."""
    node: Any = tree
    for part in path[:-1]:
        match node:
            case dict() if part in node:
                node = node[part]
            case list() if isinstance(part, int) and part < len(node):
                node = node[part]
            case _:
                return False
    return isinstance(node, dict) and node.pop(path[-1], path) is not path
