"""PURE. Every fault by its name, and how one is read and told."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.faults.content import CorruptMedia, FragmentStorm, Oversized
from emulator.faults.ending import Abort, CloseSession, IgnoreClose, Reset
from emulator.faults.fault import Fault
from emulator.faults.flaky import Flaky
from emulator.faults.flap import Flap
from emulator.faults.health import BadJson, HealthHang, HealthStatus, HugeBody, Redirect, SlowDrip, Warming
from emulator.faults.pace import Bandwidth, Latency, Stall, StopReading
from emulator.faults.place import Capacity, ColdStart, Reject
from emulator.faults.port import Blackhole, Refuse, SlowAccept
from emulator.faults.process import Kill, Pause, Poison, Restart
from emulator.faults.protocol import BigState, GpuError, NoPong, NoSnapshot
from emulator.faults.upgrade import GluedFirstFrame, SlowUpgrade, UpgradeStatus
from emulator.wording import did_you_mean, unknown_field, wrong_value

CATALOGUE: Mapping[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        Refuse, Blackhole, SlowAccept, UpgradeStatus, SlowUpgrade, GluedFirstFrame,
        HealthStatus, HealthHang, SlowDrip, Redirect, Warming, BadJson, HugeBody, Flap,
        Capacity, ColdStart, Reject, Latency, Bandwidth, Stall, StopReading,
        Abort, Reset, CloseSession, IgnoreClose, Oversized, FragmentStorm, CorruptMedia,
        GpuError, NoPong, NoSnapshot, BigState,
        Kill, Pause, Restart, Poison, Flaky,
    )
}  # fmt: skip
"""Every fault by its name, grouped by what it is about."""


class BadFault(ValueError):
    """No such fault, or fields that it does not have; the text says what would be right."""


def fault_from(name: str, fields: Mapping[str, Any]) -> Fault:
    """The fault `name` with these fields. Raises BadFault."""
    kind = CATALOGUE.get(name)
    if kind is None:
        raise BadFault(unknown_fault(name))
    if (unknown := unknown_field(fields, kind)) is not None:
        raise BadFault(f"{name} {unknown}")
    try:
        return msgspec.convert(dict(fields), kind)
    except msgspec.ValidationError as error:
        # Of the right type it is what the fault itself has to say of it.
        raise BadFault(f"{name}: {wrong_value(fields, kind) or error}") from error


def unknown_fault(name: str) -> str:
    """What is said of a name that no fault has."""
    return f"there is no fault {name!r}{did_you_mean(name, CATALOGUE)}; there are: {', '.join(CATALOGUE)}"


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
