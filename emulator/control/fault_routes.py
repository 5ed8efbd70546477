"""Faults: what can be wrong, and what is wrong with a replica."""

from __future__ import annotations

from typing import Any

from litestar import Request, delete, get, put

from emulator.control.answers import FaultDescription, FieldDescription, ReplicaStatus
from emulator.control.bodies import BadBody, object_in
from emulator.control.description import faults_as_examples, operation
from emulator.control.given import FaultName, ReplicaName, TheFarm, fault_named, replica_named, status_of
from emulator.control.problems import BadRequestBody, UnknownFault
from emulator.described import field_docs, in_json, summary
from emulator.faults import CATALOGUE, BadFault, fault_from, fields_of
from emulator.wording import choices_of, types_of

TAGS = ["faults"]


@get("/faults", sync_to_thread=False, tags=TAGS, operation_id="listFaults", operation_class=operation())
def list_faults() -> dict[str, FaultDescription]:
    """Every fault that can be armed, by name, with its fields."""
    return {name: _describe(name) for name in CATALOGUE}


@get(
    "/faults/{fault:str}",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="showFault",
    operation_class=operation(problems=[404]),
)
def show_fault(fault: FaultName) -> FaultDescription:
    """One fault that can be armed, with its fields."""
    return _describe(fault_named(fault))


@get(
    "/replicas/{name:str}/faults",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="listArmedFaults",
    operation_class=operation(problems=[404]),
)
def list_armed(farm: TheFarm, name: ReplicaName) -> dict[str, dict[str, Any]]:
    """The faults that stand on a replica, by name: their fields, `struck` and `live`."""
    return status_of(replica_named(farm, name)).faults


@get(
    "/replicas/{name:str}/faults/{fault:str}",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="showArmedFault",
    operation_class=operation(problems=[404]),
)
def show_armed(farm: TheFarm, name: ReplicaName, fault: FaultName) -> dict[str, Any]:
    """One fault that stands on a replica: its fields, `struck` and `live`; a 404 where it does not stand."""
    standing = status_of(replica_named(farm, name)).faults
    if fault_named(fault) not in standing:
        raise UnknownFault(f"fault {fault} does not stand on replica {name}: a PUT arms it")
    return standing[fault]


@put(
    "/replicas/{name:str}/faults/{fault:str}",
    tags=TAGS,
    operation_id="armFault",
    operation_class=operation(
        body=list(CATALOGUE.values()), examples=faults_as_examples(), problems=[400, 404]
    ),
)
async def arm(
    farm: TheFarm, name: ReplicaName, fault: FaultName, request: Request[Any, Any, Any]
) -> ReplicaStatus:
    """The fault stands, in place of one of the same name; sessions that are open meet it too. The body has
    the fault's own fields (there is a schema and an example for each), and those of all: `probability`,
    `after_seconds`, `for_seconds`, `times`."""
    replica = replica_named(farm, name)
    fault_named(fault)
    try:
        replica.set_fault(fault_from(fault, object_in(await request.body())))
    except (BadFault, BadBody) as error:
        raise BadRequestBody(str(error)) from error
    await replica.settle()
    return status_of(replica)


@delete(
    "/replicas/{name:str}/faults/{fault:str}",
    status_code=200,
    tags=TAGS,
    operation_id="liftFault",
    operation_class=operation(problems=[404]),
)
async def lift(farm: TheFarm, name: ReplicaName, fault: FaultName) -> ReplicaStatus:
    """The fault stands no longer, and who waits because of it goes on; it need not have stood."""
    replica = replica_named(farm, name)
    replica.clear_fault(fault_named(fault))
    await replica.settle()
    return status_of(replica)


@delete(
    "/replicas/{name:str}/faults",
    status_code=200,
    tags=TAGS,
    operation_id="liftAllFaults",
    operation_class=operation(problems=[404]),
)
async def lift_all(farm: TheFarm, name: ReplicaName) -> ReplicaStatus:
    """No fault stands on the replica."""
    replica = replica_named(farm, name)
    replica.clear_faults()
    await replica.settle()
    return status_of(replica)


def _describe(name: str) -> FaultDescription:
    kind = CATALOGUE[name]
    docs = field_docs(kind)
    types = types_of(kind)
    return FaultDescription(
        does=summary(kind),
        fields={
            field: FieldDescription(
                type=types[field],
                default=default,
                means=in_json(docs.get(field, "")),
                choices=list(choices_of(kind, field)) or None,
            )
            for field, default in fields_of(kind()).items()
        },
    )


HANDLERS = (list_faults, show_fault, list_armed, show_armed, arm, lift, lift_all)
