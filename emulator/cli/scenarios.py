"""`python -m emulator validate` and `list`: are these scenario files right, and which are there."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from emulator.scenario import Scenario
from emulator.scenario.reading import SHIPPED, BrokenScenario, files_in, read_scenario
from emulator.scenario.schema import schema_text
from emulator.scenario.text import printable

RIGHT, BROKEN = 0, 2
UNREAD = 141
"""Exit statuses; the last is what a shell says of a program that SIGPIPE ended."""

Command = Callable[[Sequence[str]], int]


def quiet_when_unread(command: Command) -> Command:
    """`command`, which ends without a word when nobody reads its output any more (`| head`)."""

    @functools.wraps(command)
    def run(arguments: Sequence[str]) -> int:
        try:
            status = command(arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still to be written at the exit has to go somewhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return UNREAD
        return status

    return run


@quiet_when_unread
def validate(arguments: Sequence[str]) -> int:
    """The exit status: 0 when every file is right, 2 with every problem on stderr otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m emulator validate",
        description="Checks scenario files, and prints everything that is wrong with them.",
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="a scenario, or a directory of them"
    )
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of scenario files, for editors"
    )
    options = parser.parse_args(arguments)
    if options.schema:
        sys.stdout.write(schema_text())
        return RIGHT
    if not options.files:
        parser.error(f"name a scenario file, or a directory of them; those that come along are in {SHIPPED}")
    good = 0
    broken = 0
    for file, scenario in _read(options.files):
        if scenario is None:
            broken += 1
        else:
            good += 1
            print(f"{printable(str(file))}: {scenario.name}: right")
            for warning in scenario.warnings:
                print(f"{printable(str(file))}: note: {warning}")
    if good + broken == 0:
        return _nothing_in(options.files)
    return BROKEN if broken else RIGHT


@quiet_when_unread
def list_scenarios(arguments: Sequence[str]) -> int:
    """The exit status: 0 with a line for each scenario, 2 when one of them is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m emulator list",
        description="Lists scenarios: name, what a gateway has to be able to do for it, description.",
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="DIR", help="where they are; left out: those that come along"
    )
    options = parser.parse_args(arguments)
    paths = options.paths or [SHIPPED]
    found = list(_read(paths))
    scenarios = [one for _, one in found if one is not None]
    rows = [(one.name, ", ".join(one.needs) or "-", printable(one.description)) for one in scenarios]
    if not found:
        return _nothing_in(paths)
    if rows:
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        for name, needs, description in rows:
            print(f"{name:<{widths[0]}}  {needs:<{widths[1]}}  {description}".rstrip())
    return RIGHT if len(rows) == len(found) else BROKEN


def _read(paths: Iterable[Path]) -> Iterator[tuple[Path, Scenario | None]]:
    """Each file with its scenario; None for one that is broken, whose problems are told."""
    for file in files_in(paths):
        try:
            yield file, read_scenario(file)
        except BrokenScenario as broken:
            print(broken, file=sys.stderr)
            yield file, None


def _nothing_in(paths: Iterable[Path]) -> int:
    where = printable(", ".join(map(str, paths)))
    print(f"{where}: no scenario file there; they end in .yaml or .yml", file=sys.stderr)
    return BROKEN
