"""Finds the configuration, has pydantic-settings lay the environment over the file, and says where each
problem comes from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from gateway.errors import Problem, SettingsInvalid
from gateway.settings.checking import check
from gateway.settings.environment import CONFIG, Variables, read_environment
from gateway.settings.settings import Broken, Settings
from gateway.settings.tree import Path, Tree, dotted, value_at, without
from gateway.settings.words import STARTER, not_a_mapping
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
        return Inspection(check({}).settings, (_no_configuration(directory),), ())

    told = [*(file.problems if file else ()), *variables.problems]
    written = FileSource(Settings, file.tree if file else {}, variables)
    layers = Layers(Settings)
    try:
        settings = Settings.read_from(EnvironmentSource(Settings, variables), written, layers)
    except ValidationError:
        known_bad = set(variables.unreadable)
        if file and not file.readable and ("router", "replicas") not in variables.values:
            known_bad.add(("router", "replicas"))
        checked = check(layers.current_state, known_bad)
        settings = checked.settings
        told += (Problem(_source(path, variables, file), dotted(path), text) for path, text in checked.broken)
        if not told:  # The second pass knows less than the first: a defect of ours, and no reason to start.
            raise
    told += (Problem(_source(path, None, file), dotted(path), text) for path, text in written.covered())
    problems = [Problem(one.source, one.key, _CREDENTIALS.sub(r"\1***@", one.message)) for one in told]
    return Inspection(settings, tuple(sorted(problems, key=_line)), sources)


class _Source(PydanticBaseSettingsSource):
    """A source that gives all that it has at once, not field by field."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False


class EnvironmentSource(_Source):
    """What the variables set, the more specific one over the other."""

    def __init__(self, settings_cls: type[BaseSettings], variables: Variables) -> None:
        super().__init__(settings_cls)
        self._tree = variables.tree()

    def __call__(self) -> Tree:
        return self._tree


class FileSource(_Source):
    """What the file sets, without the mappings that `variables` replace as a whole: pydantic-settings would
    merge the two.
    """

    def __init__(self, settings_cls: type[BaseSettings], tree: Tree, variables: Variables) -> None:
        super().__init__(settings_cls)
        for path in variables.whole():
            tree = without(tree, path)
        self._tree = tree
        self._variables = variables

    def __call__(self) -> Tree:
        return self._tree

    def covered(self) -> Iterator[Broken]:
        """What stands where a section should, and is hidden by a variable of that section."""
        paths = self._variables.values
        for section in sorted({path[:length] for path in paths for length in range(1, len(path))}):
            value = value_at(self._tree, section)
            if not (value is None or isinstance(value, dict)):
                yield section, not_a_mapping(value)


class Layers(_Source):
    """Sets nothing. Placed last, it has in `current_state` what the sources before it come to, merged but not
    validated, for the second pass.
    """

    def __call__(self) -> Tree:
        return {}


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
                Problem(one.source, one.key, _remarked(one.message)) if not at else one
                for at, one in enumerate(file.problems)
            ]
        return file
    usual = directory / FILE_NAME
    return read_yaml_file(usual, shown_as=FILE_NAME) if os.path.lexists(usual) else None


def _remarked(message: str) -> str:
    """What is wrong with the file, and then what would be right, which may end in lines to copy."""
    wrong, semicolon, right = message.partition("; ")
    return f"{wrong} ({CONFIG} names this file){semicolon}{right}"


def _no_configuration(directory: FilePath) -> Problem:
    other = directory / "gateway.yml"
    near = "; gateway.yml is here and is not read, rename it" if other.exists() else ""
    return Problem(
        FILE_NAME,
        "",
        f"there is no such file here, {CONFIG} names no other, and no variable sets a replica{near}. "
        f"With these lines in {FILE_NAME} the gateway starts:\n{STARTER}",
    )


def _source(path: Path, variables: Variables | None, file: YamlFile | None) -> str:
    """The variable that set what is at `path`, else the file with the line of the nearest key."""
    above = [path[:length] for length in range(len(path), 0, -1)]
    for known in above:
        if variables is not None and known in variables.names:
            return variables.names[known]
    if file is None:
        return "environment"
    for known in above:
        if known in file.lines:
            return f"{file.source}:{file.lines[known]}"
    return file.source
