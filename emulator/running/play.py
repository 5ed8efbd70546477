"""Plays one scenario: replicas, a gateway before them, the play itself, and nothing left of it after."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from emulator.farm import Farm, PortBusy
from emulator.media.choice import NoVideo
from emulator.replica.body import ChildFailed
from emulator.replica.spec import ReplicaSpec
from emulator.running.fitting import fit
from emulator.running.gateways import Gateway, GatewayFailed, StartedGateway, environment, started
from emulator.running.ports import reserved_ports
from emulator.running.seen import Played
from emulator.running.settling import until_settled
from emulator.running.stage import Stage
from emulator.running.statuses import statuses_in
from emulator.scenario import Scenario

HOST = "127.0.0.1"
DEFAULT_PORT = 9101
CONNECT_SECONDS = 2.0


class CannotPlay(Exception):
    """The stage could not be set; nothing was judged. The text says what would be right."""


class LacksStatus(Exception):
    """The scenario looks at the gateway's /status, and the gateway has none of that kind."""


class Unfit(Exception):
    """The gateway that runs is not set up for the scenario, so that nothing would follow; it says why."""


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
    except* (GatewayFailed, LacksStatus, Unfit, CannotPlay, PortBusy, NoVideo, ChildFailed) as group:
        problem = _first(group)
        if isinstance(problem, GatewayFailed | LacksStatus | Unfit | CannotPlay):
            raise problem from None
        text = str(problem)
        if isinstance(problem, PortBusy) and isinstance(venue, Standing):
            text += _about(problem)
        raise CannotPlay(text) from problem
    return played


def _about(busy: PortBusy) -> str:
    """What to do about a port that cannot be had, where the gateway has its replicas."""
    if os.strerror(errno.EADDRINUSE) not in str(busy):
        return "; --port names the first of the ports where the gateway has its replicas"
    return (
        f": something else listens at {busy.port}, such as an emulator that still runs; stop it, as this is"
        " where the gateway has its replicas (--port, if it has them elsewhere)"
    )


async def _play(played: Played, venue: Venue, tasks: asyncio.TaskGroup) -> None:
    scenario = played.scenario
    specs = _specs(played, venue.port if isinstance(venue, Standing) else 0)
    faults = {name: scenario.replicas.plan(name).faults for name in scenario.replicas.names}
    farm = Farm(scenario.replicas.names, specs=specs, faults=faults, isolate=scenario.replicas.isolate)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(farm)
        played.urls = {name: replica.url for name, replica in farm.replicas.items()}
        gateway = await _gateway(played, venue, farm, stack, tasks)
        try:
            if "status" in scenario.needs:
                await _check_status(gateway, played)
            played.gateway.started = isinstance(gateway, StartedGateway)
            await Stage(played, farm, gateway).run()
        finally:
            if isinstance(gateway, StartedGateway):
                played.gateway.tail = gateway.tail


async def _gateway(
    played: Played, venue: Venue, farm: Farm, stack: AsyncExitStack, tasks: asyncio.TaskGroup
) -> Gateway:
    """A gateway that serves, and that knows the replicas as they are."""
    scenario = played.scenario
    is_patient = scenario.gateway.wait_for == "ready"
    match venue:
        case Standing(url=url):
            gateway = Gateway(url)
            await gateway.until_serving(patient=is_patient)
            await _check_fit(gateway, played)
            if is_patient:
                # One that sleeps is well, and nobody has asked it.
                plans = {name: scenario.replicas.plan(name) for name in played.urls}
                awake = {name: url for name, url in played.urls.items() if plans[name].scaling is None}
                await until_settled(gateway, awake)
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


async def _check_fit(gateway: Gateway, played: Played) -> None:
    """What a gateway that runs says of its settings is what the scenario needs. Raises Unfit, and CannotPlay
    where it is the gateway of other replicas altogether."""
    answer = await gateway.get("/status")
    found = fit(played.scenario, played.urls, None if answer is None else answer.content)
    if found.knows_none:
        raise CannotPlay(
            f"the gateway at {gateway.http} says that {found.knows_none}; give it these, or name the first of"
            " its ports with --port"
        )
    if found.refusal:
        raise Unfit(found.refusal)
    for url in found.strangers:
        if await _is_listening(url):
            raise Unfit(f"it has a replica that is not the scenario's and runs, {url}")
    played.open_settings = found.open


async def _is_listening(url: str) -> bool:
    """Somebody takes connections there. A gateway may take a replica for healthy that ended a moment ago."""
    parts = urlsplit(url)
    with contextlib.suppress(OSError):
        async with asyncio.timeout(CONNECT_SECONDS):
            port = parts.port or (443 if parts.scheme == "https" else 80)
            _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
        return True
    return False


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
                scale_to_zero=plan.scaling,
            )
        )
    return found


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
