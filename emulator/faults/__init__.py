"""PURE. What can be wrong with a replica: each fault a frozen value, one short file an idea."""

from emulator.faults.catalogue import CATALOGUE, BadFault, describe, fault_from, fields_of
from emulator.faults.fault import Draw, Fault, Point, SessionFault
from emulator.faults.flaky import Flaky
from emulator.faults.health import HealthHang, HealthStatus, Warming
from emulator.faults.port import Refuse
from emulator.faults.protocol import BigState, Crash, GpuError, NoPong, NoSnapshot, Poison, Reject
from emulator.faults.session import Abort, CloseSession, Latency, Reset, Stall

__all__ = [
    "CATALOGUE",
    "Abort",
    "BadFault",
    "BigState",
    "CloseSession",
    "Crash",
    "Draw",
    "Fault",
    "Flaky",
    "GpuError",
    "HealthHang",
    "HealthStatus",
    "Latency",
    "NoPong",
    "NoSnapshot",
    "Point",
    "Poison",
    "Refuse",
    "Reject",
    "Reset",
    "SessionFault",
    "Stall",
    "Warming",
    "describe",
    "fault_from",
    "fields_of",
]
