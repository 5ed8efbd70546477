"""PURE. Faults as a scenario writes them: their names with their fields, as `fault_from` reads them.

One field for each fault of the catalogue, made from it, so that a misspelt name is a misspelt key, and the
schema has every fault with its fields.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema, create_model

from emulator.faults import CATALOGUE, BadFault, Fault, fault_from
from emulator.scenario.values import Part, Patterns, seconds_in

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
        raise ValueError("should be a mapping of the fault's fields, or {} for its defaults")
    fields = {str(key): _field(str(key), value) for key, value in (written or {}).items()}
    try:
        return fault_from(name, fields)
    except BadFault as error:
        raise ValueError(str(error)) from None


def _field(key: str, value: object) -> object:
    """Times of faults are seconds by name; they may be written as durations all the same."""
    if isinstance(value, str) and (key == "seconds" or key.endswith("_seconds")):
        return seconds_in(value)
    return value


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
