"""Finds the configuration, lays the environment over the file, and says where each problem comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from gateway.errors import Problem, SettingsInvalid
from gateway.settings.checking import check
from gateway.settings.environment import CONFIG, Variables, read_environment
from gateway.settings.settings import Settings
from gateway.settings.tree import Path, dotted, with_value
from gateway.settings.words import STARTER
from gateway.settings.yaml_file import YamlFile, read_yaml_file

FILE_NAME = "gateway.yaml"

_CREDENTIALS = re.compile(r"""(?<=['"])(\w+://)?[^'"\n]*@|(?<=://)\S*@""")
"""What may be a user name and a password in a value that is no proper URL, up to the last @."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A configuration that was looked at whole, usable or not."""

    settings: Settings
    """The settings when there are no problems; otherwise what was well-formed, with defaults for the rest."""
    problems: tuple[Problem, ...]
    sources: tuple[str, ...]
    """The file, where there is one, and the variables that were read, without their values."""


def load(environ: Mapping[str, str], directory: FilePath) -> Settings:
    """The settings of `gateway.yaml` in `directory`, or of the file that GATEWAY_CONFIG names, under
    `environ`.

    Raises SettingsInvalid with every problem.
    """
    inspection = inspect(environ, directory)
    if inspection.problems:
        raise SettingsInvalid(inspection.problems)
    return inspection.settings


def inspect(environ: Mapping[str, str], directory: FilePath) -> Inspection:
    """As `load`, but with the problems as a value, beside the settings that are left without them."""
    variables = read_environment(environ, Settings)
    file = _file(environ, directory)
    sources = tuple(name for name in (file.source if file else "", *variables.names.values()) if name)
    if file is None and not sources and not variables.problems:
        return Inspection(_defaults(), (_no_configuration(directory),), ())

    tree: object = file.tree if file else {}
    for path, value in variables.values.items():
        tree = with_value(tree, path, value)
    known_bad = set(variables.unreadable)
    if file and not file.readable and ("router", "replicas") not in variables.values:
        known_bad.add(("router", "replicas"))
    checked = check(tree if isinstance(tree, dict) else {}, known_bad)
    found = [
        *(file.problems if file else ()),
        *variables.problems,
        *(Problem(_source(path, variables, file), dotted(path), text) for path, text in checked.broken),
    ]
    problems = [Problem(one.source, one.key, _CREDENTIALS.sub(r"\1***@", one.message)) for one in found]
    return Inspection(checked.settings, tuple(sorted(problems, key=_line)), sources)


def _line(problem: Problem) -> tuple[bool, int]:
    """Problems of the file come in the order of its lines, then those of variables; a stable sort keeps the
    rest.
    """
    _, colon, line = problem.source.rpartition(":")
    return (problem.source.startswith("GATEWAY_"), int(line) if colon and line.isdigit() else 0)


def _file(environ: Mapping[str, str], directory: FilePath) -> YamlFile | None:
    """The file that holds the configuration; None when none is named and the usual one is not there."""
    if named := environ.get(CONFIG):
        file = read_yaml_file(directory / named, shown_as=named)
        if not file.readable:
            file.problems = [
                Problem(one.source, one.key, f"{one.message} ({CONFIG} names this file)") if not at else one
                for at, one in enumerate(file.problems)
            ]
        return file
    usual = directory / FILE_NAME
    return read_yaml_file(usual, shown_as=FILE_NAME) if os.path.lexists(usual) else None


def _no_configuration(directory: FilePath) -> Problem:
    other = directory / "gateway.yml"
    near = "; gateway.yml is here and is not read, rename it" if other.exists() else ""
    return Problem(
        FILE_NAME,
        "",
        f"there is no such file here, {CONFIG} names no other, and no variable sets a replica{near}. "
        f"With these lines in {FILE_NAME} the gateway starts:\n{STARTER}",
    )


def _defaults() -> Settings:
    return check({}).settings


def _source(path: Path, variables: Variables, file: YamlFile | None) -> str:
    """The variable that set what is at `path`, else the file with the line of the nearest key."""
    above = [path[:length] for length in range(len(path), 0, -1)]
    for known in above:
        if known in variables.names:
            return variables.names[known]
    if file is None:
        return "environment"
    for known in above:
        if known in file.lines:
            return f"{file.source}:{file.lines[known]}"
    return file.source
