"""PURE. Faults as a scenario writes them: their names with their fields, as `fault_from` reads them.

One field for each fault of the catalogue, made from it, so that a misspelt name is a misspelt key, and the
schema has every fault with its fields.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BeforeValidator, WithJsonSchema, create_model

from emulator.faults import CATALOGUE, BadFault, Fault, fault_from
from emulator.scenario.values import Inside, Part, Patterns, but, did_you_mean, seconds_in

FAULT_KEY = "x-fault"
"""In the raw schema, in place of a fault's own: `schema` fills it in."""


class FaultsByName(Part):
    """What the faults of `Faults` and of the step `fault` have in common."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that are named, in the order of the catalogue."""
        found = (getattr(self, name) for name in CATALOGUE)
        return tuple(fault for fault in found if fault is not None)


def _fault(name: str, written: object) -> Fault:
    """The fault of this name. Raises ValueError in words of its own."""
    if isinstance(written, Fault):
        return written
    if written is not None and not isinstance(written, Mapping):
        raise ValueError(f"should be a mapping of the fault's fields, or {{}} for its defaults{but(written)}")
    fields: dict[str, object] = {}
    wrong: list[tuple[str, str, bool]] = []
    hints = _hints(name)
    for key, value in (written or {}).items():
        try:
            fields[str(key)] = _field(str(key), value, hints)
        except ValueError as error:
            wrong.append((str(key), str(error), str(key) not in hints))
    if wrong:
        raise Inside(*wrong)
    try:
        return fault_from(name, fields)
    except BadFault as error:
        raise ValueError(str(error).removeprefix(f"{name}: ")) from None


@functools.cache
def _hints(name: str) -> dict[str, Any]:
    """The type of each field of the fault."""
    kind = CATALOGUE[name]
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in dataclasses.fields(kind)}


def _field(key: str, value: object, hints: Mapping[str, Any]) -> object:
    """The value of a field. Times of faults are seconds by name; they may be written as durations all the
    same. Raises ValueError."""
    if key not in hints:
        raise ValueError(f"is not a key here{did_you_mean(key, hints)}")
    if isinstance(value, str) and (key == "seconds" or key.endswith("_seconds")):
        return seconds_in(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"should be a finite number{but(value)}")
    try:
        return msgspec.convert(value, hints[key])
    except msgspec.ValidationError:
        raise ValueError(f"should be {_forms(hints[key])}{but(value)}") from None


def _forms(hint: Any) -> str:
    """What a field may be, in words: its choices, where it has some."""
    found: list[str] = []
    for one in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        found += map(repr, get_args(one)) if get_origin(one) is Literal else [_FORMS.get(one, str(one))]
    return " or ".join(part for part in (", ".join(found[:-1]), found[-1]) if part)


_FORMS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
}


def _fields() -> dict[str, Any]:
    return {
        name: (
            Annotated[
                Any,
                BeforeValidator(functools.partial(_fault, name)),
                WithJsonSchema({FAULT_KEY: name}),
            ],
            None,
        )
        for name in CATALOGUE
    }


class AimedFaults(FaultsByName):
    """What the step `fault` has beside the faults."""

    replica: Patterns
    """Which: a name, a pattern, a list of them, or `there`."""


if TYPE_CHECKING:
    Faults = FaultsByName
    FaultAction = AimedFaults
else:
    Faults = create_model("Faults", __base__=FaultsByName, __doc__="Faults by their names.", **_fields())
    """Faults that stand from the start."""
    FaultAction = create_model(
        "FaultAction",
        __base__=AimedFaults,
        __doc__="Faults by their names, and whom they strike.",
        **_fields(),
    )
    """The step `fault`."""
