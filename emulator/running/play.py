"""Plays one scenario: replicas, a gateway before them, the play itself, and nothing left of it after."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from emulator.farm import Farm, PortBusy
from emulator.media.choice import NoVideo
from emulator.replica.body import ChildFailed
from emulator.replica.spec import ReplicaSpec
from emulator.running.gateways import Gateway, GatewayFailed, StartedGateway, environment, started
from emulator.running.ports import reserved_ports
from emulator.running.seen import Played
from emulator.running.settling import until_settled
from emulator.running.stage import Stage
from emulator.running.statuses import statuses_in
from emulator.scenario import Scenario

HOST = "127.0.0.1"
DEFAULT_PORT = 9101


class CannotPlay(Exception):
    """The stage could not be set; nothing was judged. The text says what would be right."""


class LacksStatus(Exception):
    """The scenario looks at the gateway's /status, and the gateway has none of that kind."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """A gateway of its own for each scenario."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """One gateway that runs already, and knows the replicas by their ports."""

    url: str
    port: int = DEFAULT_PORT
    """Of the first replica; the others follow."""


Venue = Fresh | Standing


async def play(scenario: Scenario, venue: Venue, *, seed: int | None = None) -> Played:
    """What was seen of one play. Raises GatewayFailed when its gateway does not start, CannotPlay when it
    could not begin for another reason."""
    played = Played(scenario, scenario.seed if seed is None else seed)
    try:
        async with asyncio.TaskGroup() as tasks:
            await _play(played, venue, tasks)
    except* (GatewayFailed, LacksStatus, PortBusy, NoVideo, ChildFailed) as group:
        problem = _first(group)
        if isinstance(problem, GatewayFailed | LacksStatus):
            raise problem from None
        where = ": choose other ports with --port" if isinstance(venue, Standing) else ""
        raise CannotPlay(f"{problem}{where}" if isinstance(problem, PortBusy) else str(problem)) from problem
    return played


async def _play(played: Played, venue: Venue, tasks: asyncio.TaskGroup) -> None:
    scenario = played.scenario
    specs = _specs(played, venue.port if isinstance(venue, Standing) else 0)
    faults = {name: scenario.replicas.plan(name).faults for name in scenario.replicas.names}
    farm = Farm(scenario.replicas.names, specs=specs, faults=faults, isolate=scenario.replicas.isolate)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(farm)
        played.urls = {name: replica.url for name, replica in farm.replicas.items()}
        gateway = await _gateway(scenario, venue, farm, stack, tasks)
        try:
            if "status" in scenario.needs:
                await _check_status(gateway, played)
            played.gateway.started = isinstance(gateway, StartedGateway)
            await Stage(played, farm, gateway).run()
        finally:
            if isinstance(gateway, StartedGateway):
                played.gateway.tail = gateway.tail


async def _gateway(
    scenario: Scenario, venue: Venue, farm: Farm, stack: AsyncExitStack, tasks: asyncio.TaskGroup
) -> Gateway:
    """A gateway that serves, and that knows the replicas as they are."""
    is_patient = scenario.gateway.wait_for == "ready"
    match venue:
        case Standing(url=url):
            gateway = Gateway(url)
            await gateway.until_serving(patient=is_patient)
            if is_patient:
                await until_settled(gateway, {name: each.url for name, each in farm.replicas.items()})
            return gateway
        case Fresh(command=command):
            entries = [
                {"url": replica.url, "name": name, **scenario.replicas.plan(name).gateway}
                for name, replica in farm.replicas.items()
            ]
            port = stack.enter_context(reserved_ports())
            capacity = min(scenario.replicas.plan(name).capacity for name in farm.replicas)
            variables = environment(port, entries, scenario.gateway.environment, capacity=capacity)
            return await stack.enter_async_context(
                started(command, port, variables, tasks, patient=is_patient)
            )


async def _check_status(gateway: Gateway, played: Played) -> None:
    answer = await gateway.get("/status")
    gateway.check()
    if answer is None or statuses_in(answer.content, played.urls) is None:
        raise LacksStatus


def _specs(played: Played, port: int) -> list[ReplicaSpec]:
    found = []
    scenario = played.scenario
    for index, name in enumerate(scenario.replicas.names):
        plan = scenario.replicas.plan(name)
        found.append(
            ReplicaSpec(
                name,
                host=HOST,
                port=port + index if port else 0,
                capacity=plan.capacity,
                seed=played.seed,
                generation=played.generation_of(plan),
                subprotocols=plan.subprotocols,
                ping_interval_seconds=plan.ping_interval,
                ping_timeout_seconds=plan.ping_timeout,
            )
        )
    return found


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
