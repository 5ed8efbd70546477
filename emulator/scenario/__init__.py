"""What a scenario file is: its values, how they are read and checked, and the schema of it all."""

from emulator.scenario.expectations import (
    Close,
    Expectations,
    OfGateway,
    OfReplica,
    OfSession,
    StatusCheck,
)
from emulator.scenario.faults import FaultAction, Faults
from emulator.scenario.model import Scenario
from emulator.scenario.sessions import Binary, Line, Prompt, Read, Reconnect, Say, Sessions, Wait
from emulator.scenario.stage import NEEDS, Gateway, Need, Plan, Replicas, as_variable
from emulator.scenario.timeline import (
    Action,
    Client,
    Kill,
    Lift,
    Pause,
    Reset,
    Restart,
    Resume,
    Signal,
    Step,
)
from emulator.scenario.values import THERE, Count, matching
from emulator.scenario.when import OF_NO_SESSION, ClientWhen, ReplicaWhen, StatusWhen, When

__all__ = [
    "NEEDS",
    "OF_NO_SESSION",
    "THERE",
    "Action",
    "Binary",
    "Client",
    "ClientWhen",
    "Close",
    "Count",
    "Expectations",
    "FaultAction",
    "Faults",
    "Gateway",
    "Kill",
    "Lift",
    "Line",
    "Need",
    "OfGateway",
    "OfReplica",
    "OfSession",
    "Pause",
    "Plan",
    "Prompt",
    "Read",
    "Reconnect",
    "ReplicaWhen",
    "Replicas",
    "Reset",
    "Restart",
    "Resume",
    "Say",
    "Scenario",
    "Sessions",
    "Signal",
    "StatusCheck",
    "StatusWhen",
    "Step",
    "Wait",
    "When",
    "as_variable",
    "matching",
]
