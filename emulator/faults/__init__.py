"""PURE. What can be wrong with a replica: each fault a frozen value, one short file an idea."""

from emulator.faults.catalogue import CATALOGUE, BadFault, describe, fault_from, fields_of, unknown_fault
from emulator.faults.content import CorruptMedia, FragmentStorm, Oversized
from emulator.faults.ending import Abort, CloseSession, IgnoreClose, Reset
from emulator.faults.fault import Draw, Fault, Point, PointFault, SessionFault
from emulator.faults.flaky import Flaky
from emulator.faults.flap import Flap
from emulator.faults.health import BadJson, HealthHang, HealthStatus, HugeBody, Redirect, SlowDrip, Warming
from emulator.faults.pace import Bandwidth, Latency, Stall, StopReading
from emulator.faults.place import Capacity, ColdStart, Reject
from emulator.faults.port import Blackhole, Refuse, SlowAccept
from emulator.faults.process import Kill, Pause, Poison, ProcessFault, Restart
from emulator.faults.protocol import BigState, GpuError, NoPong, NoSnapshot
from emulator.faults.upgrade import GluedFirstFrame, SlowUpgrade, UpgradeStatus

__all__ = [
    "CATALOGUE",
    "Abort",
    "BadFault",
    "BadJson",
    "Bandwidth",
    "BigState",
    "Blackhole",
    "Capacity",
    "CloseSession",
    "ColdStart",
    "CorruptMedia",
    "Draw",
    "Fault",
    "Flaky",
    "Flap",
    "FragmentStorm",
    "GluedFirstFrame",
    "GpuError",
    "HealthHang",
    "HealthStatus",
    "HugeBody",
    "IgnoreClose",
    "Kill",
    "Latency",
    "NoPong",
    "NoSnapshot",
    "Oversized",
    "Pause",
    "Point",
    "PointFault",
    "Poison",
    "ProcessFault",
    "Redirect",
    "Refuse",
    "Reject",
    "Reset",
    "Restart",
    "SessionFault",
    "SlowAccept",
    "SlowDrip",
    "SlowUpgrade",
    "Stall",
    "StopReading",
    "UpgradeStatus",
    "Warming",
    "describe",
    "fault_from",
    "fields_of",
    "unknown_fault",
]
