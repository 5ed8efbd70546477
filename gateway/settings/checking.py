"""PURE. The second pass over a configuration: everything wrong with it, not only the first thing.

pydantic checks no rule between fields while a field is wrong. So each setting that failed is put back to its
default once its problem is noted, and the rules then look at what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.settings.fields import SECRETS, later_in, section_in
from gateway.settings.settings import Broken, Settings, broken_rules
from gateway.settings.tree import REMOVED, Path, Tree, dotted, with_changes
from gateway.settings.words import MOST_GUESSES, did_you_mean, in_words, listed, shown

LATER_VALUES: Mapping[str, frozenset[str]] = {}
"""Values that a later version knows, by their setting."""

_NOT_YET = "is not available in this version"
_NO_SUCH_KEY = ("extra_forbidden", "invalid_key")


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check."""

    settings: Settings
    """Valid when nothing is broken; otherwise what was well-formed, with defaults in place of the rest."""
    broken: tuple[Broken, ...]


def check(tree: Tree, known_bad: Iterable[Path] = ()) -> Checked:
    """Every problem of `tree`. Nothing is said of the settings in `known_bad`: they have been told
    already.
    """
    silent = frozenset(known_bad)
    failed: set[Path] = set(silent)
    # A dict keeps the order, and tells once what comes up again in a later round.
    broken: dict[Broken, None] = {}
    for key in tree:
        if key not in Settings.model_fields:
            broken[(key,), _no_setting(key, Settings, guess=len(broken) < MOST_GUESSES)] = None
    sections: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        section = section_in(field.annotation)
        while section is not None:
            try:
                sections[name] = section.model_validate(tree.get(name))
                break
            except ValidationError as error:
                found = error.errors(include_url=False)
            wrong: dict[Path, None] = {}
            for details in found:
                place = _place((name, *details["loc"]))
                failed.add(place.setting)
                if not any(place.told[: len(path)] == path for path in silent):
                    broken[place.told, _told(details, place, guess=len(broken) < MOST_GUESSES)] = None
                wrong[place.setting] = None
            repaired = _put_back(tree, wrong)
            # Each round removes what it complained of; a round that cannot would go on for ever.
            tree = repaired if repaired != tree else {**tree, name: {}}
    # Not validated: that would keep the rules, and they are what is to be told.
    settings = Settings.model_construct(**sections)
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
        section = section_in(annotation)
        if section is not None:
            holder = section
            field = section.model_fields.get(str(part))
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
    return section_in(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def _no_setting(key: str, holder: type[BaseModel], *, guess: bool) -> str:
    if holder is Settings and (whole := _in_a_section(key)) is not None:
        return f"is not a setting; did you mean {whole}?"
    return f"is not a setting{did_you_mean(key, holder.model_fields) if guess else ''}"


def _in_a_section(key: str) -> str | None:
    """The setting of this name, where just one section has it."""
    sections = {name: section_in(field.annotation) for name, field in Settings.model_fields.items()}
    having = [name for name, section in sections.items() if section and key in section.model_fields]
    return f"{having[0]}.{key}" if len(having) == 1 else None


def _told(details: ErrorDetails, place: _Place, *, guess: bool) -> str:
    kind, value = details["type"], details["input"]
    key = str(place.setting[-1]) if place.setting else ""
    if kind in _NO_SUCH_KEY and place.holder is not None:
        if key in later_in(place.holder):
            return _NOT_YET
        return _no_setting(key, place.holder, guess=guess)
    if kind == "literal_error":
        return _choice(dotted(place.setting), value, tuple(map(str, get_args(place.annotation))))
    secret = any(place.setting[: len(path)] == path for path in SECRETS)
    words = in_words(kind, value, details.get("ctx", {}), key=key, secret=secret)
    return words if words is not None else details["msg"].replace("Input should", "should")


def _choice(key: str, value: object, choices: tuple[str, ...]) -> str:
    allowed = f"should be {listed(choices)}"
    if isinstance(value, str):
        if value in LATER_VALUES.get(key, ()):
            return f"{value} {_NOT_YET}; {allowed}"
        return f"{allowed}, not {shown(value)}{did_you_mean(value, choices) if len(choices) > 1 else ''}"
    return f"{allowed}, not {shown(value)}"


def _put_back(tree: Tree, wrong: Iterable[Path]) -> Tree:
    """`tree` with the default for each setting of `wrong`. A replica has none for its URL, and gets one that
    breaks no rule.
    """
    changes: dict[Path, object] = {}
    for setting in wrong:
        match setting:
            case ("router", "replicas", int(index)):
                changes[setting] = {"url": _stand_in(index)}
            case ("router", "replicas", int(index), "url"):
                changes[setting] = _stand_in(index)
            case _:
                changes[setting] = REMOVED
    return with_changes(tree, changes)


def _stand_in(index: int) -> str:
    return f"http://replica-{index}.invalid"
