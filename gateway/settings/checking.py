"""PURE. Checks a whole configuration tree and finds everything wrong with it, not only the first thing.

pydantic checks no rule between fields while a field is wrong. So each setting that failed is put back to its
default once its problem is noted, and the rules then look at what is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.settings.rules import Broken
from gateway.settings.sections import LATER_KEYS, LATER_VALUES
from gateway.settings.settings import WITHOUT_RULES, Settings, broken_rules
from gateway.settings.tree import Path, dotted, value_at, with_value, without
from gateway.settings.words import did_you_mean, in_words, listed, shown

_NOT_YET = "is not available in this version"
_SECRETS: tuple[Path, ...] = (("clients", "tokens"),)
_NO_SUCH_KEY = ("extra_forbidden", "invalid_key")


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check."""

    settings: Settings
    """Valid when nothing is broken; otherwise what was well-formed, with defaults in place of the rest."""
    broken: tuple[Broken, ...]


def check(tree: dict[str, object], known_bad: Iterable[Path] = ()) -> Checked:
    """Every problem of `tree`. Nothing is said of the settings in `known_bad`: they have been told
    already.
    """
    silent = frozenset(known_bad)
    failed: set[Path] = set(silent)
    broken: dict[Broken, None] = {}
    left: object = _text_keys(tree)
    for path, message in _later_keys(left):
        broken[path, message] = None
    for section, keys in LATER_KEYS.items():
        for key in keys:
            left = without(left, (section, key))
    left = _null_sections_empty(left, Settings)
    while True:
        try:
            settings = Settings.model_validate(left, context=WITHOUT_RULES)
            break
        except ValidationError as error:
            found = error.errors(include_url=False)
        repaired = left
        for details in found:
            place = _place(details["loc"])
            failed.add(place.setting)
            if not any(place.told[: len(path)] == path for path in silent):
                broken[place.told, _told(details, place)] = None
            repaired = _put_back(repaired, place.setting)
        # Each round removes what it complained of; a round that cannot would go on for ever.
        left = repaired if repaired != left else {}
    for rule in broken_rules(settings, failed):
        broken[rule] = None
    return Checked(settings, tuple(broken))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an error lies."""

    told: Path
    """As precise as the reader can use it: down to the entry of a list."""
    setting: Path
    """The setting that has to be put back."""
    annotation: Any
    """The setting's type, None where there is no such setting."""
    holder: type[BaseModel] | None
    """The section that the last key of `setting` is, or is not, a field of."""


def _place(loc: tuple[str | int, ...]) -> _Place:
    """Follow pydantic's location as far as it goes along sections; it goes on with names of types."""
    annotation: Any = Settings
    holder: type[BaseModel] | None = None
    length = 0
    for part in loc:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            holder = annotation
            field = annotation.model_fields.get(str(part))
            annotation = field.annotation if field is not None else None
        elif isinstance(part, int) and _entry_model(annotation) is not None:
            annotation = _entry_model(annotation)
        else:
            break
        length += 1
    entry = loc[length : length + 1]
    told = (*loc[:length], *(part for part in entry if isinstance(part, int)))
    return _Place(told, tuple(loc[:length]), annotation, holder)


def _entry_model(annotation: Any) -> type[BaseModel] | None:
    """The section that each entry of a list is; None for lists of plain values."""
    if get_origin(annotation) is not tuple:
        return None
    entry = get_args(annotation)[0]
    return entry if isinstance(entry, type) and issubclass(entry, BaseModel) else None


def _told(details: ErrorDetails, place: _Place) -> str:
    kind, value = details["type"], details["input"]
    key = str(place.setting[-1]) if place.setting else ""
    if kind in _NO_SUCH_KEY and place.holder is not None:
        return f"is not a setting{did_you_mean(key, place.holder.model_fields)}"
    if kind == "literal_error":
        return _choice(dotted(place.setting), value, tuple(map(str, get_args(place.annotation))))
    secret = any(place.setting[: len(path)] == path for path in _SECRETS)
    words = in_words(kind, value, details.get("ctx", {}), key=key, secret=secret)
    return words if words is not None else details["msg"].replace("Input should", "should")


def _choice(key: str, value: object, choices: tuple[str, ...]) -> str:
    allowed = f"should be {listed(choices)}"
    if isinstance(value, str):
        if value.partition(":")[0] in LATER_VALUES.get(key, ()):
            return f"{value} {_NOT_YET}; {allowed}"
        return f"{allowed}, not {shown(value)}{did_you_mean(value, choices) if len(choices) > 1 else ''}"
    return f"{allowed}, not {shown(value)}"


def _put_back(tree: object, setting: Path) -> object:
    """`tree` with the default for `setting`. A replica has none for its URL, and gets one that breaks no
    rule.
    """
    match setting:
        case ("router", "replicas", int(index)):
            return with_value(tree, setting, {"url": _stand_in(index)})
        case ("router", "replicas", int(index), "url"):
            return with_value(tree, setting, _stand_in(index))
        case _:
            return without(tree, setting)


def _stand_in(index: int) -> str:
    return f"http://replica-{index}.invalid"


def _later_keys(tree: object) -> Iterable[Broken]:
    for section, keys in LATER_KEYS.items():
        for key in sorted(keys):
            if value_at(tree, (section, key)) is not None:
                yield (section, key), _NOT_YET


def _text_keys(tree: object) -> object:
    """YAML reads the keys `1` and `on` as a number and a boolean; settings have names."""
    match tree:
        case dict():
            return {str(key): _text_keys(item) for key, item in tree.items()}
        case list():
            return [_text_keys(item) for item in tree]
        case _:
            return tree


def _null_sections_empty(tree: object, model: type[BaseModel]) -> object:
    """A section whose every line is commented out reads as null, and means its defaults."""
    if not isinstance(tree, dict):
        return tree
    filled = dict(tree)
    for name, field in model.model_fields.items():
        section = field.annotation
        if name in filled and isinstance(section, type) and issubclass(section, BaseModel):
            filled[name] = {} if filled[name] is None else _null_sections_empty(filled[name], section)
    return filled
