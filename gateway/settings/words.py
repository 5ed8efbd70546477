"""PURE. Puts what pydantic found into the reader's words: what is wrong, and what would be right.

A value is repeated only where it helps and is no secret; of a list or a mapping only the kind is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

STARTER = """\
    router:
      replicas:
        - url: http://127.0.0.1:9101"""
"""The least that starts, indented as one block so that it can be copied as it stands."""

MOST_DIGITS = 100
"""Of a whole number. Python gives up on thousands, and with a text of its own."""
MOST_GUESSES = 200
"""Misspelt keys for which the nearest one is looked up. It takes a while, and nobody reads that many."""

_TEXT_SHOWN = 60


def shown(value: object) -> str:
    """`value` as the reader wrote it, short and on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str() if len(value) > _TEXT_SHOWN:
            return repr(value[:_TEXT_SHOWN] + "...")
        case str() | int() | float():
            return repr(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the nearest of `known`, else an empty string."""
    spelt = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(wrong.casefold(), spelt, n=1, cutoff=0.6)
    return f"; did you mean {spelt[near[0]]}?" if near else ""


def listed(choices: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "value_error": "{error}",
    "int_type": "should be a whole number{but}",
    "int_parsing": "should be a whole number{but}",
    "int_parsing_size": "should be a smaller number",
    "int_from_float": "should be a whole number{but}",
    "float_type": "should be a number{unit}{but}",
    "float_parsing": "should be a number{unit}{but}",
    "finite_number": "should be a finite number{but}",
    "greater_than": "should be more than {gt:g}{but}",
    "greater_than_equal": "should be {ge:g} or more{but}",
    "less_than_equal": "should be at most {le:g}{but}",
    "bool_type": "should be true or false{but}",
    "bool_parsing": "should be true or false{but}",
    "string_type": "should be text{but}{quotes}",
    "string_too_short": "should not be empty",
    "tuple_type": "should be a list{but}",
    "dict_type": "should be a mapping of keys to values{but}",
    "model_type": "should be a mapping of keys to values{but}",
}
"""By pydantic's name for the error."""


def in_words(kind: str, value: object, context: Mapping[str, Any], *, key: str, secret: bool) -> str | None:
    """The message for pydantic's error of type `kind` at `key`; None where pydantic's own has to do."""
    if kind not in _WORDS:
        return None
    return _WORDS[kind].format_map(
        {
            **context,
            "but": "" if secret else f", not {shown(value)}",
            "unit": " of seconds, as in 5 or 0.5" if key.endswith("_seconds") else "",
            "quotes": "; put it in quotes" if isinstance(value, int | float) else "",
        }
    )


def not_a_mapping(value: object) -> str:
    """The message for `value` where a section should be."""
    return f"should be a mapping of keys to values, not {shown(value)}"
