"""What every route is given: the farm, what waits for its events, its open sessions, and names in URLs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from emulator.control.answers import ReplicaStatus
from emulator.control.feed import Feed
from emulator.control.problems import UnknownFault, UnknownReplica
from emulator.control.sessions import Sessions
from emulator.farm import Farm
from emulator.faults import CATALOGUE, unknown_fault
from emulator.replica.replica import Replica
from emulator.wording import did_you_mean

TheFarm = NamedDependency[Farm]
TheFeed = NamedDependency[Feed]
TheSessions = NamedDependency[Sessions]

ReplicaName = Annotated[
    str,
    PathParameter(description="The replica's name.", examples=[Example(summary="the first one", value="a")]),
]
FaultName = Annotated[
    str,
    PathParameter(description="As in `GET /faults`.", schema_extra={"enum": list(CATALOGUE)}),
]


def replica_named(farm: Farm, name: str) -> Replica:
    """Raises UnknownReplica."""
    if name not in farm.replicas:
        hint = did_you_mean(name, farm.replicas)
        raise UnknownReplica(
            f"there is no replica {name!r}{hint}; there are: {', '.join(farm.replicas) or 'none'}"
        )
    return farm.replicas[name]


def fault_named(fault: str) -> str:
    """Raises UnknownFault."""
    if fault not in CATALOGUE:
        raise UnknownFault(unknown_fault(fault))
    return fault


def status_of(replica: Replica) -> ReplicaStatus:
    """The replica as it is now."""
    return msgspec.convert(replica.status(), ReplicaStatus)
