"""PURE. Reads `GATEWAY_SECTION__FIELD` variables: where each value goes, and what is wrong with them.

pydantic-settings' own reader stops at the first bad variable and ignores misspelt ones.

Only names with `__` after `GATEWAY_` are ours, because others put variables beside them that are not:
Kubernetes sets `GATEWAY_PORT=tcp://...` when a Service is called gateway. So `GATEWAY_CONFIG` is known by
name, and a whole section as a JSON object (`GATEWAY_ROUTER={...}`) by its value. No message repeats a
value: it may be a token.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin

from pydantic import BaseModel

from gateway.errors import Problem
from gateway.settings.fields import Section, later_in, section_in
from gateway.settings.tree import Path, Tree, dotted, with_value
from gateway.settings.words import MOST_DIGITS, MOST_GUESSES, did_you_mean

PREFIX = "GATEWAY_"
CONFIG = "GATEWAY_CONFIG"


@dataclass(slots=True)
class Variables:
    """What the environment sets."""

    values: dict[Path, object] = field(default_factory=dict)
    """In the order in which they are laid over one another: the more specific one later."""
    names: dict[Path, str] = field(default_factory=dict)
    """The variable behind each of `values`, and behind each value that could not be read."""
    problems: list[Problem] = field(default_factory=list)
    unreadable: set[Path] = field(default_factory=set)
    """Settings whose variable has a problem, so that nothing more is said of them."""

    def tree(self) -> Tree:
        """The values in their places."""
        tree: Tree = {}
        for path, value in self.values.items():
            tree = with_value(tree, path, value)
        return tree

    def whole(self) -> list[Path]:
        """The mappings that are set as one, and so replace the file's."""
        return [path for path, value in self.values.items() if isinstance(value, dict)]


def read_environment(environ: Mapping[str, str], model: type[BaseModel]) -> Variables:
    """Every variable of ours in `environ`, for the settings of `model`."""
    found = Variables()
    # Sorted, so that GATEWAY_ROUTER__HEALTH_CHECK comes before GATEWAY_ROUTER__HEALTH_CHECK__PATH.
    for name in sorted(name for name in environ if name.startswith(PREFIX) and name != CONFIG):
        value = environ[name]
        path: Path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if len(path) == 1 and not (path[0] in model.model_fields and value.lstrip().startswith("{")):
            continue
        annotation = _annotation_at(model, path) if name == name.upper() else None
        if annotation is None and not _is_later(model, path):
            guess = len(found.problems) < MOST_GUESSES
            found.problems.append(Problem(name, "", _unknown(name, path, model, guess=guess)))
            continue
        found.names[path] = name
        try:
            found.values[path] = _decoded(value, annotation)
        except ValueError as error:
            found.problems.append(Problem(name, dotted(path), str(error)))
            found.unreadable.add(path)
    return found


def _annotation_at(model: type[BaseModel], path: Path) -> Any:
    """The type of the setting at `path`, None where there is no such setting."""
    annotation: Any = model
    for part in path:
        section = section_in(annotation)
        field_info = section.model_fields.get(str(part)) if section is not None else None
        if field_info is None:
            return None
        annotation = field_info.annotation
    return annotation


def _is_later(model: type[BaseModel], path: Path) -> bool:
    return path[-1] in later_in(_annotation_at(model, path[:-1]))


def _decoded(value: str, annotation: Any) -> object:
    """`value` as text for a plain setting, read as JSON for a list or a mapping. Raises ValueError in our
    words.
    """
    if value.strip() == "null" and (annotation is None or NoneType in get_args(annotation)):
        return None
    container = get_origin(annotation)
    if container is tuple:
        example = '["/v1/stream", "/ws"]'
        kind = "list"
    elif container is dict or section_in(annotation) is not None:
        example = '{"path": "/health"}'
        kind = "mapping"
    else:
        return value
    try:
        return json.loads(
            value,
            object_pairs_hook=_without_duplicates,
            parse_int=_whole,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        message = f"is not JSON ({where}); a {kind} is written like {example}"
        raise ValueError(message) from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        # A key that is no setting's may be anything, a token as well.
        told = f"the key {twice!r}" if twice in _names() else "a key"
        raise ValueError(f"has {told} twice in one JSON object; keep one of the two")
    return read


def _names() -> set[str]:
    return {name for section in Section.__subclasses__() for name in section.model_fields}


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"has a number of {len(digits)} digits, which no setting takes")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"has {name}, which is not JSON")


def _unknown(name: str, path: Path, model: type[BaseModel], *, guess: bool) -> str:
    for length in range(len(path) - 1, 0, -1):
        holder = _annotation_at(model, path[:length])
        if get_origin(holder) in (tuple, dict):
            whole = PREFIX + "__".join(str(part) for part in path[:length]).upper()
            return f"is not a setting: set {whole} as a whole, as JSON"
    return f"is not a setting{_guess(name, str(path[-1]), model) if guess else ''}"


def _guess(name: str, last: str, model: type[BaseModel]) -> str:
    """The nearest variable. What all have in common makes none of them near, nor does the section alone."""
    known = [
        "__".join(setting).upper()
        for setting in _settings(model)
        if setting[-1].startswith(f"{last}_") or did_you_mean(last, setting[-1:])
    ]
    return did_you_mean(name.removeprefix(PREFIX), known).replace("mean ", f"mean {PREFIX}")


def _settings(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field_info in model.model_fields.items():
        section = section_in(field_info.annotation)
        if section is not None:
            yield from _settings(section, (*above, name))
        yield (*above, name)
