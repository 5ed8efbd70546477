"""PURE. What pydantic found, in the reader's words: where it is, what is wrong, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from emulator.scenario.model import Scenario
from emulator.scenario.text import Path
from emulator.scenario.values import PATTERN_WORDS, Inside, Part, but, did_you_mean

MOST_GUESSES = 200
"""Misspelt keys for which the nearest one is looked up; nobody reads that many."""

_WORDS: Mapping[str, str] = {
    "int_type": "should be a whole number{but}",
    "int_parsing": "should be a whole number{but}",
    "int_from_float": "should be a whole number{but}",
    "float_type": "should be a number{but}",
    "float_parsing": "should be a number{but}",
    "finite_number": "should be a finite number{but}",
    "greater_than": "should be more than {gt:g}{but}",
    "greater_than_equal": "should be {ge:g} or more{but}",
    "less_than": "should be less than {lt:.15g}{but}",
    "less_than_equal": "should be at most {le:.15g}{but}",
    "bool_type": "should be true or false{but}",
    "bool_parsing": "should be true or false{but}",
    "string_type": "should be text{but}",
    "string_unicode": "should be text that UTF-8 can carry",
    "string_too_short": "should not be empty",
    "string_too_long": "should have at most {max_length} characters",
    "string_pattern_mismatch": "should match {pattern}{but}",
    "literal_error": "should be {expected}{but}",
    "too_short": "should have {min_length} at least",
    "too_long": "should have {max_length} at most",
    "tuple_type": "should be a list{but}",
    "list_type": "should be a list{but}",
    "dict_type": "should be a mapping of keys to values{but}",
    "model_type": "should be a mapping of keys to values{but}",
    "model_attributes_type": "should be a mapping of keys to values{but}",
    "line": "should be text, or a mapping with prompt, send, binary_bytes or wait{but}",
    "when": "should be a mapping with replica and event, session and event, or status{but}",
}
"""By pydantic's name for the error."""
_KEYS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "line": (
        ("prompt", "send", "binary_bytes", "wait"),
        "should have one of the keys prompt, send, binary_bytes and wait",
    ),
    "when": (
        ("replica", "session", "status", "event"),
        "should have replica and event, session and event, or status",
    ),
}
"""What a mapping needs that can be one of several things, by the name of the error."""
_FORMS: Mapping[str, str] = {
    "close": "none, a code, a list of codes, or a mapping with code, reason and by",
    "refused": "none, an HTTP status, or a list of them",
    "errors": "none, some, a list of codes, or a mapping of codes to counts",
    "exit": "none, or an exit status",
}
"""What expectations may be that have several forms, by their keys."""
_QUOTED = re.compile(r"'([^']*)'")


def told(error: ValidationError, tree: object) -> Iterator[tuple[Path, str, bool]]:
    """Place, text, and whether the key itself is wrong, of each error in the values of `tree`."""
    guesses = MOST_GUESSES
    for details in error.errors(include_url=False):
        path = _path(details["loc"], tree)
        last = str(details["loc"][-1]) if details["loc"] else ""
        match details["type"]:
            case "extra_forbidden":
                guesses -= 1
                known = sorted(_keys_at(details["loc"][:-1]))
                yield path, f"is not a key here{did_you_mean(last, known, guess=guesses > 0)}", True
            case "missing":
                yield path, f"needs {last}", False
            case "value_error" if isinstance(inside := details["ctx"]["error"], Inside):
                yield from (((*path, key), text, is_key) for key, text, is_key in inside.problems)
            case _:
                yield path, _in_words(details), _is_about_key(details)


def dotted(path: Path) -> str:
    """`path` as people write it: `timeline[0].kill`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _in_words(details: ErrorDetails) -> str:
    value, context = details["input"], details.get("ctx", {})
    if details["type"] in _KEYS and isinstance(value, Mapping):
        keys, text = _KEYS[details["type"]]
        guesses = (did_you_mean(str(key), keys, always=False) for key in value)
        return text + next(filter(None, guesses), "")
    if details["type"] == "literal_error" and isinstance(value, str):
        known = _QUOTED.findall(str(context["expected"]))
        if near := did_you_mean(value, known, always=False):
            return f"has no {value!r} to choose{near}"
    if details["type"] == "string_pattern_mismatch" and context["pattern"] in PATTERN_WORDS:
        return f"should be {PATTERN_WORDS[str(context['pattern'])]}{but(value)}"
    if details["loc"][:1] == ("expect",) and details["type"] in ("literal_error", "model_type", "dict_type"):
        names = (str(part) for part in reversed(details["loc"]) if not str(part).startswith("("))
        if (forms := _FORMS.get(next(names, ""))) is not None:
            return f"should be {forms}{but(value)}"
    words = _WORDS.get(details["type"])
    if words is not None:
        return words.format_map({**context, "but": but(value)})
    if details["type"] == "value_error":
        return str(context["error"])
    return details["msg"].replace("Input should", "should")


def _is_about_key(details: ErrorDetails) -> bool:
    return bool(details["loc"]) and details["loc"][-1] == "[key]"


def _path(loc: tuple[str | int, ...], tree: object) -> Path:
    """Pydantic's location without the names of types and tags in it, as far as the values go."""
    path: list[str | int] = []
    for part in loc:
        match tree:
            case dict() if str(part) in tree:
                path.append(str(part))
                tree = tree[str(part)]
            case list() if isinstance(part, int) and part < len(tree):
                path.append(part)
                tree = tree[part]
            case _:
                pass
    return tuple(path)


def _keys_at(loc: tuple[str | int, ...]) -> set[str]:
    """The keys that a mapping at this place may have."""
    here: list[type[Part]] = [Scenario]
    for part in loc:
        named = [kind for kind in here if kind.__name__ == str(part).strip("()")]
        below = [inner for kind in here for inner in _inside(kind, str(part))]
        here = below or named or here
    return {_key_of(name, field) for kind in here for name, field in kind.model_fields.items()}


def _inside(kind: type[Part], key: str) -> Iterator[type[Part]]:
    """The parts that the field with this key can hold."""
    for name, field in kind.model_fields.items():
        if _key_of(name, field) == key:
            yield from _parts(field.annotation)


def _key_of(name: str, field: FieldInfo) -> str:
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def _parts(annotation: Any) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)
