"""/replicas: what there is, and its life."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from litestar import Request, delete, get, post
from litestar.openapi.spec import Example

from emulator.control.answers import OpenSession, ReplicaStatus
from emulator.control.bodies import BadBody, KillBody, NewReplica, PauseBody, RestartBody, body_in
from emulator.control.description import operation
from emulator.control.given import ReplicaName, TheFarm, TheSessions, replica_named, status_of
from emulator.control.problems import BadRequestBody, PortTaken, WrongState
from emulator.control.problems import NameTaken as NameTakenProblem
from emulator.farm import NameTaken, PortBusy

AnyRequest = Request[Any, Any, Any]
BodyT = TypeVar("BodyT", bound=msgspec.Struct)
TAGS = ["replicas"]


async def _body(request: AnyRequest, kind: type[BodyT]) -> BodyT:
    try:
        return body_in(await request.body(), kind)
    except BadBody as error:
        raise BadRequestBody(str(error)) from error


@get("/replicas", sync_to_thread=False, tags=TAGS, operation_id="listReplicas", operation_class=operation())
def list_replicas(farm: TheFarm) -> list[ReplicaStatus]:
    """Every replica with its state, faults and counters."""
    return [status_of(replica) for replica in farm.replicas.values()]


@get(
    "/replicas/{name:str}",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="showReplica",
    operation_class=operation(problems=[404]),
)
def show_replica(farm: TheFarm, name: ReplicaName) -> ReplicaStatus:
    """One replica."""
    return status_of(replica_named(farm, name))


@get(
    "/replicas/{name:str}/sessions",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="listSessions",
    operation_class=operation(problems=[404]),
)
def list_sessions(farm: TheFarm, sessions: TheSessions, name: ReplicaName) -> list[OpenSession]:
    """The sessions that are open on a replica now, the oldest first."""
    return sessions.open(replica_named(farm, name).name)


@post(
    "/replicas",
    tags=TAGS,
    operation_id="addReplica",
    operation_class=operation(
        body=[NewReplica],
        examples={
            "the next free name": Example(value={}),
            "told": Example(value={"name": "spare", "port": 9190, "capacity": 1, "warming_seconds": 5}),
        },
        problems=[400, 409],
    ),
)
async def add_replica(farm: TheFarm, request: AnyRequest) -> ReplicaStatus:
    """A replica joins, and runs. What the body leaves out is as the farm's first one began."""
    body = await _body(request, NewReplica)
    try:
        added = await farm.add(
            body.name, port=body.port, capacity=body.capacity, warming_seconds=body.warming_seconds
        )
    except NameTaken as error:
        raise NameTakenProblem(f"{error}: choose another name, or leave it out") from error
    except PortBusy as error:
        raise PortTaken(f"{error}: choose another port, or 0 for any free one") from error
    return status_of(added)


@delete(
    "/replicas/{name:str}",
    tags=TAGS,
    operation_id="removeReplica",
    operation_class=operation(problems=[404]),
)
async def remove_replica(farm: TheFarm, name: ReplicaName) -> None:
    """A replica leaves for good: its sessions are closed with 1001 in order, its port is anybody's."""
    await farm.remove(replica_named(farm, name).name)


@post(
    "/replicas/{name:str}/kill",
    status_code=200,
    tags=TAGS,
    operation_id="killReplica",
    operation_class=operation(
        body=[KillBody],
        examples={
            "for good": Example(value={}),
            "back after 5 s": Example(value={"restart_after_seconds": 5, "warming_seconds": 2}),
        },
        problems=[400, 404],
    ),
)
async def kill(farm: TheFarm, name: ReplicaName, request: AnyRequest) -> ReplicaStatus:
    """Every connection is reset and the port closed. It keeps its faults and counters."""
    replica = replica_named(farm, name)
    body = await _body(request, KillBody)
    await replica.kill(restart_after_seconds=body.restart_after_seconds, warming_seconds=body.warming_seconds)
    return status_of(replica)


@post(
    "/replicas/{name:str}/restart",
    status_code=200,
    tags=TAGS,
    operation_id="restartReplica",
    operation_class=operation(
        body=[RestartBody],
        examples={
            "at once": Example(value={}),
            "slowly": Example(value={"after_seconds": 3, "warming_seconds": 5}),
        },
        problems=[400, 404],
    ),
)
async def restart(farm: TheFarm, name: ReplicaName, request: AnyRequest) -> ReplicaStatus:
    """Killed if it runs, then back on the same port. Answers at once where it has to wait."""
    replica = replica_named(farm, name)
    body = await _body(request, RestartBody)
    await replica.restart(after_seconds=body.after_seconds, warming_seconds=body.warming_seconds)
    return status_of(replica)


@post(
    "/replicas/{name:str}/pause",
    status_code=200,
    tags=TAGS,
    operation_id="pauseReplica",
    operation_class=operation(
        body=[PauseBody],
        examples={"until it is resumed": Example(value={}), "for 20 s": Example(value={"for_seconds": 20})},
        problems=[400, 404, 409],
    ),
)
async def pause(farm: TheFarm, name: ReplicaName, request: AnyRequest) -> ReplicaStatus:
    """It stands still: takes connects, reads and writes nothing."""
    replica = replica_named(farm, name)
    body = await _body(request, PauseBody)
    if not await replica.pause(for_seconds=body.for_seconds):
        raise WrongState(f"replica {name} is {replica.state}: POST /replicas/{name}/restart first")
    return status_of(replica)


@post(
    "/replicas/{name:str}/resume",
    status_code=200,
    tags=TAGS,
    operation_id="resumeReplica",
    operation_class=operation(problems=[404, 409]),
)
async def resume(farm: TheFarm, name: ReplicaName) -> ReplicaStatus:
    """A paused replica goes on; one that runs does anyway."""
    replica = replica_named(farm, name)
    if not await replica.resume():
        raise WrongState(f"replica {name} is {replica.state}: POST /replicas/{name}/restart first")
    return status_of(replica)


HANDLERS = (
    list_replicas,
    show_replica,
    list_sessions,
    add_replica,
    remove_replica,
    kill,
    restart,
    pause,
    resume,
)
