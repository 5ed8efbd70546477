"""PURE. What a value should have been, in the words of those who write JSON, YAML or a query."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import inspect

LONGEST_SHOWN = 60
"""Characters of a value that a refusal repeats."""
MOST_LETTERS = 64
"""Of a name for which the nearest one is looked up."""
NAME_PATTERN = "^[A-Za-z0-9_-]{1,64}$"
_PATTERNS: Mapping[str, str] = {NAME_PATTERN: "a name of 1 to 64 letters, digits, - and _"}
_LIBRARY = re.compile(r"Expected `(\w+)(?: \| null)?`(?:, got `\w+`| (>=|<=|>|<) (\S+?))(?: - at .*)?")
_PLAIN: Mapping[type, str] = {
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.ListType: "a list",
    inspect.DictType: "an object",
}
_KINDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where one is near, else nothing."""
    near = difflib.get_close_matches(wrong.lower(), list(known), n=1, cutoff=0.6) if _is_word(wrong) else []
    return f"; did you mean {near[0]}?" if near else ""


def unknown_field(fields: Iterable[str], kind: type) -> str | None:
    """What is wrong with the first field that `kind` does not have; None where it has all."""
    known = [entry.encode_name for entry in _fields(kind)]
    wrong = next((name for name in fields if name not in known), None)
    if wrong is None:
        return None
    return f"has no field {wrong!r}{did_you_mean(wrong, known)}; its fields: {', '.join(known)}"


def wrong_value(fields: Mapping[str, Any], kind: type) -> str | None:
    """What is wrong with the first value that is none for its field in `kind`; None where all are."""
    for entry in _fields(kind):
        if entry.encode_name not in fields:
            continue
        if (wrong := _mismatch(fields[entry.encode_name], entry.type)) is not None:
            return f"{entry.encode_name} {wrong}"
    return None


def mismatch(value: Any, kind: Any) -> str | None:
    """What is wrong with a value that should be of this type; None where it is of it."""
    return _mismatch(value, inspect.type_info(kind))


def _mismatch(value: Any, kind: inspect.Type) -> str | None:
    if _fits(value, kind):
        return None
    hint = did_you_mean(value, map(str, _choices(kind))) if isinstance(value, str) else ""
    return f"must be {wanted(kind)}, not {shown(value)}{hint}"


def _choices(kind: inspect.Type) -> tuple[Any, ...]:
    """The values that there are to choose from; none where any will do."""
    return kind.values if isinstance(kind, inspect.LiteralType) else ()


def choices_of(kind: type, field: str) -> tuple[Any, ...]:
    """What a field of `kind` may be, in the order in which it was declared; none where any value will do."""
    hint = get_type_hints(kind)[field]
    return get_args(hint) if str(get_origin(hint)) == "typing.Literal" else ()


def types_of(kind: type) -> dict[str, str]:
    """What each field's value is called."""
    return {entry.encode_name: wanted(entry.type) for entry in _fields(kind)}


def wanted(kind: inspect.Type) -> str:
    """What a value of that type is called."""
    match kind:
        case inspect.IntType():
            return "a whole number" + _bounds(kind)
        case inspect.FloatType():
            return "a number" + _bounds(kind)
        case inspect.StrType(pattern=pattern):
            return _PATTERNS.get(pattern or "", "a text")
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(str(value) for value in values)
        case inspect.UnionType(types=types):
            return " or ".join(wanted(each) for each in types)
        case inspect.ListType(item_type=inspect.StrType()):
            return "a list of texts"
        case _:
            return _PLAIN.get(type(kind), "another value")


def shown(value: Any) -> str:
    """The value as JSON, or, where that is long, what kind it is."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    if len(text) <= LONGEST_SHOWN:
        return text
    match value:
        case str():
            return f"a text of {len(value)} characters"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"{text[:LONGEST_SHOWN]}..."


def in_words(message: str, written: Any) -> str:
    """What the library says of a value, in our words; as it stands where that is another thing."""
    found = _LIBRARY.fullmatch(message)
    if found is None:
        return message
    kind, sign, bound = found.groups()
    limit = "" if sign is None else _limit(sign, float(bound))
    return f"must be {_KINDS.get(kind, kind)}{limit}, not {shown(written)}"


def _fields(kind: type) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.DataclassType | inspect.StructType), "of what has fields"
    return found.fields


def _fits(value: Any, kind: inspect.Type) -> bool:
    match kind:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool) and _is_within(value, kind)
        case inspect.FloatType():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and _is_float(value) and _is_within(value, kind)
        case inspect.StrType(pattern=pattern):
            return isinstance(value, str) and re.search(pattern or "", value) is not None
        case inspect.LiteralType(values=values):
            return not isinstance(value, bool | float) and value in values
        case inspect.UnionType(types=types):
            return any(_fits(value, each) for each in types)
        case inspect.ListType(item_type=item):
            return isinstance(value, list | tuple) and all(_fits(each, item) for each in value)
        case inspect.DictType():
            return isinstance(value, Mapping)
        case _:
            return True


def _is_float(value: float) -> bool:
    """A whole number can be too large for one. Infinity is one like others here: what may not be endless says
    so itself."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return not (
        (kind.ge is not None and not value >= kind.ge)
        or (kind.gt is not None and not value > kind.gt)
        or (kind.le is not None and not value <= kind.le)
        or (kind.lt is not None and not value < kind.lt)
    )


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:g} to {kind.le:g}"
    signs = ((">=", kind.ge), (">", kind.gt), ("<=", kind.le), ("<", kind.lt))
    return "".join(_limit(sign, bound) for sign, bound in signs if bound is not None)


def _limit(sign: str, bound: float) -> str:
    match sign:
        case ">=":
            return f" of {bound:g} or more"
        case ">":
            return f" above {bound:g}"
        case "<=":
            return f" of {bound:.15g} at most"
        case _:
            return f" below {bound:g}"


def _is_word(text: str) -> bool:
    return len(text) <= MOST_LETTERS
