"""Reads scenario files: the scenario, or everything that is wrong with the file, each with its place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from emulator.scenario.checks import broken_rules
from emulator.scenario.model import Scenario
from emulator.scenario.text import Path, Place, Text, read_text
from emulator.scenario.words import dotted, told

MOST_BYTES = 1024 * 1024
EXAMPLE = """\
    replicas: {count: 2}
    sessions:
      - {name: s, prompts: 2}
    timeline:
      - {when: {replica: a, event: segment_start}, kill: a}
    expect:
      sessions: {s: {segments: all}}"""
"""A whole scenario, for the message about an empty file."""
_NAME = re.compile(r"[^a-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a scenario file."""

    file: str
    place: Place | None
    """None for the file as a whole."""
    key: str
    """As in `timeline[0].kill`; empty for the file as a whole."""
    message: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}" if self.place else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class BrokenScenario(Exception):
    """A scenario file cannot be used; it has every problem of it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def read_scenario(path: FilePath) -> Scenario:
    """The scenario in `path`. Raises BrokenScenario with every problem of it."""
    try:
        text = _content(path).decode("utf-8-sig")
    except _Unreadable as why:
        raise _whole(path, str(why)) from None
    except FileNotFoundError:
        raise _whole(path, "there is no such file") from None
    except UnicodeDecodeError as error:
        raise _whole(path, f"is not UTF-8 text (at byte {error.start + 1}); save it as UTF-8") from None
    except OSError as error:
        raise _whole(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # a name with a zero byte
        raise _whole(path, f"is not the name of a file: {error}") from None
    return scenario_from(text, file=str(path))


def scenario_from(text: str, *, file: str = "scenario.yaml") -> Scenario:
    """The scenario that `text` says. Raises BrokenScenario with every problem of it; `file` is its name in
    messages, and the scenario's where it has none."""
    read = read_text(text)
    problems = [Problem(file, fault.place, dotted(fault.path), fault.message) for fault in read.faults]
    if read.is_readable and not isinstance(read.tree, dict):
        problems.append(Problem(file, None, "", _not_a_mapping(read.tree)))
    if not isinstance(read.tree, dict):
        raise BrokenScenario(tuple(problems))
    tree = {"name": _name_of(file), **read.tree}
    scenario, found = _checked(tree, read, file)
    problems += (problem for problem in found if problem not in problems)
    if problems or scenario is None:
        raise BrokenScenario(tuple(sorted(problems, key=lambda one: one.place or Place(0, 0))))
    return scenario


class _Unreadable(Exception):
    """The file as a whole cannot be used; the text says why."""


def _whole(path: FilePath, message: str) -> BrokenScenario:
    return BrokenScenario((Problem(str(path), None, "", message),))


def _content(path: FilePath) -> bytes:
    """The bytes of a regular file, or of what is piped in, never more than a scenario has."""
    kind = path.stat()
    if stat.S_ISDIR(kind.st_mode):
        raise _Unreadable("is a directory; name the files in it")
    if not stat.S_ISREG(kind.st_mode) and not stat.S_ISFIFO(kind.st_mode):
        raise _Unreadable("is a device or a socket; name a file")
    with open(path, "rb", buffering=0) as file:
        content = bytearray()
        while len(content) <= MOST_BYTES and (piece := os.read(file.fileno(), MOST_BYTES + 1)):
            content += piece
    if len(content) > MOST_BYTES:
        raise _Unreadable(f"is above {MOST_BYTES // 1024} KiB, which is too large for a scenario")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Unreadable("is UTF-16 text; save it as UTF-8")
    return bytes(content)


def _not_a_mapping(tree: object) -> str:
    if tree is None:
        return f"is empty; this would do:\n{EXAMPLE}"
    kind = "a list" if isinstance(tree, list) else "a single value"
    return f"should be a mapping with keys such as sessions: and timeline:, not {kind}"


def _name_of(file: str) -> str:
    """The file's stem, as far as a name can be made of it."""
    name = _NAME.sub("-", FilePath(file).stem.lower()).strip("-.")[:64]
    return name if name and name[0].isalnum() else "scenario"


def _checked(tree: dict[str, Any], read: Text, file: str) -> tuple[Scenario | None, list[Problem]]:
    """The scenario where there is one, and what is wrong. Rules between values are held against what is left
    when the wrong values are out of the way."""
    problems: list[Problem] = []
    unsure = {str(fault.path[0]) for fault in read.faults if fault.path}
    scenario: Scenario | None = None
    # Each round puts away all that the one before complained of; what hides behind it is told in the next.
    for _ in range(4):
        try:
            scenario = Scenario.model_validate(tree)
            break
        except ValidationError as error:
            wrong = list(told(error, tree))
        problems += (
            Problem(file, read.place_of(path, key=key), dotted(path), text) for path, text, key in wrong
        )
        unsure |= {str(path[0]) for path, _, _ in wrong if path}
        tree = _without(tree, (path for path, _, _ in wrong))
    if scenario is not None:
        problems += (
            Problem(file, read.place_of(path), dotted(path), text)
            for path, text in broken_rules(scenario, unsure)
        )
    return scenario, problems


def _without(tree: dict[str, Any], wrong: Iterable[Path]) -> dict[str, Any]:
    """`tree` with defaults in the places of what is wrong."""
    found = dict(tree)
    for path in wrong:
        match path:
            case ("timeline" | "sessions" as section, int(index), *_) if isinstance(found[section], list):
                entries = list(found[section])
                entries[index] = _stand_in(section, index)
                found[section] = entries
            case ("expect", "sessions" | "replicas" as section, str(pattern), *_):
                expect = found.get("expect", {})
                kept = {key: value for key, value in expect.get(section, {}).items() if key != pattern}
                found["expect"] = {**expect, section: kept}
            case (str(section), *_):
                found.pop(section, None)
            case _:
                pass
    return found


def _stand_in(section: str, index: int) -> dict[str, Any]:
    """In place of an entry of a list that is wrong, while the rest is looked at."""
    return {"name": f"stand-in-{index}"} if section == "sessions" else {"at": 0, "reset": "*"}


SHIPPED = FilePath(__file__).resolve().parents[1] / "scenarios"
"""The scenarios that come with the emulator."""


def files_in(paths: Iterable[FilePath]) -> Iterator[FilePath]:
    """The files that are named, and in place of a directory the scenario files in it, by name."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
        else:
            yield path
