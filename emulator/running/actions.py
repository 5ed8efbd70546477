"""Does what a step says: to replicas, to the gateway, to driven sessions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping

from emulator.farm import Farm
from emulator.replica.body import ChildFailed
from emulator.replica.replica import Replica
from emulator.running.client import DrivenSession
from emulator.running.gateways import Gateway, StartedGateway
from emulator.scenario import (
    THERE,
    Action,
    Client,
    FaultAction,
    Kill,
    Lift,
    Pause,
    Reset,
    Restart,
    Resume,
    Signal,
    matching,
)


class NotDone(Exception):
    """An action could not be done; the text says why."""


class Actions:
    """The hands of a play."""

    def __init__(
        self,
        farm: Farm,
        gateway: Gateway,
        driven: Mapping[str, DrivenSession],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._farm = farm
        self._gateway = gateway
        self._driven = driven
        self._tasks = tasks

    async def do(self, action: Action, there: str | None = None) -> None:
        """It is done, on all that it names at the same time; `there` is the replica where it happened that
        the step waited for. Raises NotDone."""
        match action:
            case Signal(signal=wanted):
                if not isinstance(self._gateway, StartedGateway):
                    raise NotDone("the gateway was not started here, so it gets no signal")
                self._gateway.signal(signal.Signals[wanted])
            case Client(session=sessions, do=what):
                for name in matching(sessions, self._driven):
                    self._driven[name].do(what, self._tasks)
            case _:
                if THERE in action.replica and there is None:
                    raise NotDone("no replica has had that session")
                patterns = [there if name == THERE and there else name for name in action.replica]
                failures: list[str] = []
                async with asyncio.TaskGroup() as together:
                    for name in matching(patterns, self._farm.replicas):
                        together.create_task(self._try(name, action, failures))
                if failures:
                    raise NotDone("; ".join(failures))

    async def _try(self, name: str, action: Action, failures: list[str]) -> None:
        try:
            await self._on_replica(name, action)
        except (OSError, TimeoutError, ChildFailed) as problem:
            failures.append(f"replica {name}: {problem}")
        except NotDone as problem:
            failures.append(str(problem))

    async def _on_replica(self, name: str, action: Action) -> None:
        replica = self._farm.replicas[name]
        match action:
            case Kill(restart_after=after, warming=warming):
                await replica.kill(restart_after_seconds=after, warming_seconds=warming)
            case Restart(after=after, warming=warming):
                await replica.restart(after_seconds=after, warming_seconds=warming)
            case Pause(lasting=lasting):
                if not await replica.pause(for_seconds=lasting):
                    raise NotDone(f"replica {name} is {replica.state}, and cannot be paused")
            case Resume():
                if not await replica.resume():
                    raise NotDone(f"replica {name} is {replica.state}, and cannot go on")
            case Reset():
                await replica.reset()
            case _:
                _change_faults(replica, action)
                await replica.settle()


def _change_faults(replica: Replica, action: Action) -> None:
    match action:
        case Lift(fault=names):
            for name in names if names is not None else [fault.name for fault in replica.faults]:
                replica.clear_fault(name)
        case FaultAction():
            for fault in action.faults:
                replica.set_fault(fault)
        case _:
            raise AssertionError(f"no action on faults: {action!r}")
