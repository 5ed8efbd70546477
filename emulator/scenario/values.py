"""PURE. The small values that scenarios are written with: durations, counts, names and patterns of names.

Each has a short form for people (`2s`, `none`, `b`) and one value behind it (2.0, a Count, a tuple).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictInt,
    StrictStr,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

UNITS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0}
"""Of durations, in seconds."""
LONGEST_SECONDS = 3600.0
MOST = 1_000_000_000
"""Of anything that is counted."""
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|s|m)")


class Inside(ValueError):
    """Something is wrong inside a value that is read as a whole: places in it, each with what is wrong there
    and whether it is the key that is."""

    def __init__(self, *problems: tuple[str, str, bool]) -> None:
        super().__init__("; ".join(f"{key}: {text}" for key, text, _ in problems))
        self.problems = problems


class Part(BaseModel):
    """A frozen part of a scenario that has the keys of its fields and no others."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, validate_by_name=True
    )


def seconds_in(written: object) -> float:
    """The seconds of `2s`, `300ms`, `1m` or a number. Raises ValueError."""
    seconds: float | None = None
    if isinstance(written, int | float) and not isinstance(written, bool):
        seconds = float(written)
    elif isinstance(written, str) and (found := _DURATION.fullmatch(written.strip())):
        seconds = float(found[1]) * UNITS[found[2]]
    if seconds is None:
        raise ValueError(
            f"should be a duration such as 2s, 300ms or 1m, or a number of seconds{but(written)}"
        )
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"should be a duration from 0 to {LONGEST_SECONDS:g} seconds{but(written)}")
    return seconds


Duration = Annotated[
    float,
    BeforeValidator(seconds_in),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": LONGEST_SECONDS},
                {
                    "type": "string",
                    "pattern": r"^\d{1,9}(\.\d{1,9})? ?(ms|s|m)$",
                    "examples": ["2s", "300ms"],
                },
            ]
        }
    ),
]
"""Seconds. Written as `2s`, `300ms`, `1m`, or as a number of seconds."""


class Count(Part):
    """How often something is to be: written as a number, `none` (0), `some` (1 or more), or with bounds."""

    exactly: Annotated[StrictInt, Field(ge=0, le=MOST)] | None = None
    """This often."""
    at_least: Annotated[StrictInt, Field(ge=0, le=MOST)] | None = None
    """This often or more."""
    at_most: Annotated[StrictInt, Field(ge=0, le=MOST)] | None = None
    """This often or less."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        bounds = (self.exactly, self.at_least, self.at_most)
        if all(bound is None for bound in bounds):
            raise ValueError("should have exactly, at_least or at_most")
        if self.exactly is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("should have either exactly, or at_least and at_most")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"nothing is at least {self.at_least} and at most {self.at_most}")
        return self

    def allows(self, number: int) -> bool:
        """Whether `number` is within the bounds."""
        if self.exactly is not None:
            return number == self.exactly
        return (self.at_least or 0) <= number and (self.at_most is None or number <= self.at_most)

    def __str__(self) -> str:
        if self.exactly is not None:
            return f"exactly {self.exactly}" if self.exactly else "none"
        if self.at_most is None:
            return f"at least {self.at_least}"
        return f"at most {self.at_most}" if self.at_least is None else f"{self.at_least} to {self.at_most}"


def count_from(written: object, *, or_else: str = "") -> object:
    """What a Count is made of; `or_else` is what may stand there beside one."""
    match written:
        case bool():
            pass
        case int():
            return {"exactly": written}
        case "none":
            return {"exactly": 0}
        case "some":
            return {"at_least": 1}
        case Mapping() | Count():
            return written
        case _:
            pass
    forms = f"{or_else}a number, none, some, or a mapping with at_least and at_most"
    raise ValueError(f"should be {forms}{but(written)}")


HowMany = Annotated[
    Count,
    BeforeValidator(
        count_from,
        json_schema_input_type=Annotated[int, Field(ge=0, le=MOST)]
        | Annotated[str, Field(pattern="^(none|some)$")]
        | Count,
    ),
]
"""A Count, in any of its forms."""


ItemT = TypeVar("ItemT")


class _OrOne:
    """Makes a tuple's field take a single value as well, and says so in the schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], {**several, "minItems": 1}]}


def _listed(written: object) -> object:
    if written in ([], ()):
        raise ValueError("should have one at least; leave the key out otherwise")
    return tuple(written) if isinstance(written, list | tuple) else (written,)


OneOrMore = Annotated[tuple[ItemT, ...], _OrOne()]
"""One value, or a list of them."""

_PATTERN = r"^[A-Za-z0-9_.*?\[\]!-]{1,64}$"
_NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,39}$"
_HEADER = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"
_HEADER_VALUE = r"^[\t\x20-\x7e]*$"
_SUBPROTOCOL = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}$"
FILE_NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
LINE = r"^[^\n]*\n?$"
URL_PATH = r"^/[\x21-\x3e\x40-\x7e]*$"
URL_QUERY = r"^[\x21-\x22\x24-\x7e]*$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
PATTERN_WORDS: Mapping[str, str] = {
    _PATTERN: "a name, or a pattern of names such as s* or [ab]",
    _NAME: "a name of letters, digits, - and _ that begins with a letter",
    _HEADER: "the name of a header",
    _HEADER_VALUE: "the value of a header: ASCII without line breaks",
    _SUBPROTOCOL: "a subprotocol: letters, digits and signs, without spaces and commas",
    FILE_NAME: "a name of small letters, digits, -, _ and . that begins with a letter or a digit",
    LINE: "one line",
    URL_PATH: "a path that begins with a slash, without a query",
    URL_QUERY: "a query as it stands in a URL, such as room=1&level=2",
    VARIABLE: "the name of an environment variable",
}
"""What texts are that have to match a pattern."""

Pattern = Annotated[StrictStr, StringConstraints(pattern=_PATTERN)]
"""A name, or a pattern of names: `s1`, `s*`, `[ab]`."""
Patterns = OneOrMore[Pattern]
"""One pattern, or a list of them."""
THERE = "there"
"""In a step, in place of a replica's name: the one where it happened that the step waits for."""
Name = Annotated[StrictStr, StringConstraints(pattern=_NAME)]
"""Of a session."""
Word = Annotated[StrictStr, StringConstraints(min_length=1, max_length=200)]
Subprotocol = Annotated[StrictStr, StringConstraints(pattern=_SUBPROTOCOL)]
Headers = dict[
    Annotated[StrictStr, StringConstraints(pattern=_HEADER)],
    Annotated[StrictStr, StringConstraints(pattern=_HEADER_VALUE, max_length=8000)],
]
"""HTTP headers, as they are sent."""


def matching(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Those of `names` that one of `patterns` fits, in the order of `names`."""
    wanted = tuple(patterns)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)]


def did_you_mean(wrong: str, known: Iterable[str], *, guess: bool = True, always: bool = True) -> str:
    """`; did you mean X?` where one is near, else `; there are: ...` (only if `always`)."""
    names = list(known)
    near = difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=0.6) if guess else []
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are: {', '.join(names)}" if guess and names and always else ""


def but(written: object) -> str:
    """`, not X` for what was written instead, short; empty for what is too long to show."""
    match written:
        case None:
            return ", not null"
        case bool():
            return f", not {str(written).lower()}"
        case str() | int() | float() if len(str(written)) <= 60:
            return f", not {written!r}"
        case Mapping():
            return ", not a mapping"
        case list():
            return ", not a list"
        case _:
            return ""
