"""Reads scenario files: the scenario, or everything that is wrong with the file, each with its place."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from emulator.scenario.checks import broken_rules
from emulator.scenario.mending import unsure_names, without
from emulator.scenario.model import Scenario
from emulator.scenario.text import Place, Text, printable, read_text
from emulator.scenario.values import did_you_mean
from emulator.scenario.words import dotted, told

MOST_BYTES = 1024 * 1024
MOST_TOLD = 50
"""Problems of one file that are told; nobody mends more in one go."""
ROUNDS = 6
BEGIN = Place(1, 1)
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
    """None where nothing of the file could be read."""
    key: str
    """As in `timeline[0].kill`; empty for the file as a whole."""
    message: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        file = printable(self.file)
        where = f"{file}:{self.place.line}:{self.place.column}" if self.place else file
        message = "\n".join(printable(line) for line in self.message.split("\n"))
        return f"{where}: {printable(self.key)}: {message}" if self.key else f"{where}: {message}"


class BrokenScenario(Exception):
    """Scenario files cannot be used; it has every problem of them, and tells so many of each."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(_told(problems)))
        self.problems = problems


def _told(problems: tuple[Problem, ...]) -> Iterator[str]:
    for file, group in itertools.groupby(problems, lambda one: one.file):
        of_file = list(group)
        yield from map(str, of_file[:MOST_TOLD])
        if len(of_file) > MOST_TOLD:
            yield f"{printable(file)}: and {len(of_file) - MOST_TOLD} more problems"


def read_scenario(path: FilePath) -> Scenario:
    """The scenario in `path`. Raises BrokenScenario with every problem of it."""
    content = b""
    try:
        content = _content(path)
        text = content.decode("utf-8-sig")
    except _Unreadable as why:
        raise _whole(path, str(why), why.place) from None
    except FileNotFoundError:
        raise _whole(path, f"there is no such file{_guess(path)}") from None
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise _whole(path, "is not UTF-8 text; save it as UTF-8", place) from None
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
        problems.append(Problem(file, read.place_of(()) or BEGIN, "", _not_a_mapping(read.tree)))
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

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


def _whole(path: FilePath, message: str, place: Place | None = None) -> BrokenScenario:
    return BrokenScenario((Problem(str(path), place, "", message),))


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
        raise _Unreadable(f"is above {MOST_BYTES // 1024} KiB, which is too large for a scenario", BEGIN)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Unreadable("is UTF-16 text; save it as UTF-8", BEGIN)
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
    wrong = [fault.path for fault in read.faults if fault.path]
    known = frozenset(wrong)
    unsure = unsure_names(tree, wrong)
    scenario: Scenario | None = None
    # Each round puts away all that the one before complained of; what hides behind it is told in the next.
    for _ in range(ROUNDS):
        try:
            scenario = Scenario.model_validate(tree)
            break
        except ValidationError as error:
            found = list(told(error, tree))
        problems += (
            Problem(file, read.place_of(path, key=key), dotted(path), text)
            for path, text, key in found
            if path not in known
        )
        paths = [path for path, _, _ in found]
        wrong += paths
        unsure |= unsure_names(tree, paths)
        tree = without(tree, paths)
    if scenario is not None:
        problems += (
            Problem(file, read.place_of(path), dotted(path), text)
            for path, text in broken_rules(scenario, wrong=wrong, unsure=unsure)
        )
    return scenario, problems


SHIPPED = FilePath(__file__).resolve().parents[1] / "scenarios"
"""The scenarios that come with the emulator."""


def files_in(paths: Iterable[FilePath]) -> Iterator[FilePath]:
    """The files that are named, and in place of a directory the scenario files in it, by name."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
        else:
            yield located(path) or path


def located(path: FilePath, *, beside: FilePath = FilePath()) -> FilePath | None:
    """The file that is named, in `beside`; for a name alone, with or without its suffix, it may be one that
    comes with the emulator. None where there is none."""
    folders = (beside,) if path.name != str(path) else (beside, SHIPPED)
    names = (path, path.with_name(f"{path.name}.yaml")) if len(folders) > 1 else (path,)
    return next((file for folder in folders for name in names if (file := folder / name).is_file()), None)


def _guess(path: FilePath) -> str:
    """The name of one that comes with the emulator, where a name alone is nearly that."""
    if path.name != str(path):
        return ""
    return did_you_mean(path.stem, [file.stem for file in files_in([SHIPPED])], always=False)
