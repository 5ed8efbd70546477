"""PURE. Every fault by its name, and how one is read and told."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.faults.fault import Fault
from emulator.faults.flaky import Flaky
from emulator.faults.health import HealthHang, HealthStatus, Warming
from emulator.faults.port import Refuse
from emulator.faults.protocol import BigState, Crash, GpuError, NoPong, NoSnapshot, Poison, Reject
from emulator.faults.session import Abort, CloseSession, Latency, Reset, Stall

CATALOGUE: Mapping[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        Refuse, HealthStatus, HealthHang, Warming, Latency, Stall, Abort, Reset, CloseSession,
        Reject, GpuError, NoPong, NoSnapshot, BigState, Crash, Poison, Flaky,
    )
}  # fmt: skip
"""Every fault by its name."""


class BadFault(ValueError):
    """No such fault, or fields that it does not have; the text says what would be right."""


def fault_from(name: str, fields: Mapping[str, Any]) -> Fault:
    """The fault `name` with these fields. Raises BadFault."""
    kind = CATALOGUE.get(name)
    if kind is None:
        raise BadFault(f"there is no fault {name!r}; there are: {', '.join(CATALOGUE)}")
    known = [entry.name for entry in dataclasses.fields(kind)]
    if unknown := [key for key in fields if key not in known]:
        raise BadFault(f"{name} has no field {unknown[0]!r}; its fields: {', '.join(known)}")
    try:
        return msgspec.convert(dict(fields), kind)
    except msgspec.ValidationError as error:
        raise BadFault(f"{name}: {error}") from error


def fields_of(fault: Fault) -> dict[str, Any]:
    """The fields of `fault`, as `fault_from` takes them."""
    return dataclasses.asdict(fault)


def describe(fault: Fault) -> str:
    """Its name, and the fields that differ from their defaults."""
    changed = [
        f"{entry.name}={getattr(fault, entry.name)}"
        for entry in dataclasses.fields(fault)
        if getattr(fault, entry.name) != entry.default
    ]
    return " ".join([fault.name, *changed])
