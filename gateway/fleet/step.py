"""The lifecycle step by which a process takes part in a fleet. What the rules refuse, it refuses when
built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from gateway.clock import Clock
from gateway.errors import FleetRefused
from gateway.fleet.instance import instance_id
from gateway.fleet.member import NOTHING, MemberState, Report
from gateway.fleet.membership import FleetMembership
from gateway.fleet.spec import Cadence, FleetSpec, OnStop
from gateway.fleet.store import FleetStore
from gateway.runtime import LongRunningStep, Resolved, RuntimeMode, refuse_unsupported


def fleet_membership_lifecycle_step(
    spec: FleetSpec,
    *,
    store: FleetStore,
    every: timedelta,
    report: Callable[[], Report] = lambda: NOTHING,
    state: Callable[[], MemberState] = lambda: MemberState.SERVING,
    member_id: str | None = None,
    on_stop: OnStop = "leave",
    linger_for: timedelta | None = None,
    depends_on: Sequence[AbstractAsyncContextManager[Any]] = (),
    runtime: RuntimeMode | Resolved = RuntimeMode.SINGLE_PROCESS,
    clock: Clock | None = None,
) -> FleetMembership:
    """A membership of `spec` in `store`, which begins with `async with` and ends with it.

    `report` and `state` are asked at each beat. `member_id` is `instance_id()` where none is given; a stable
    name keeps what `rank` gave to it over restarts, and two live processes under one name are told of, but
    not kept apart. `depends_on` are opened before the first beat and closed after the last: the store's
    client above all. It writes only its own entry and removes expired ones, so any number of processes may
    run it.

    Raises FleetRefused for a cadence, an id or a fleet that breaks a rule, RuntimeRefused under a serverless
    runtime.
    """
    refuse_unsupported(runtime, [LongRunningStep.FLEET_MEMBERSHIP])
    if store.spec != spec:
        raise FleetRefused(f"the store keeps the fleet {store.spec}, not {spec}")
    return FleetMembership(
        store,
        Cadence(every=every, on_stop=on_stop, linger_for=linger_for),
        report=report,
        state=state,
        member_id=member_id if member_id is not None else instance_id(),
        depends_on=depends_on,
        clock=clock,
    )
