"""Replicas in a Cloud Map, and a gateway that finds them by nothing but the lines that the emulator prints.

They appear, die, are deregistered and come back while twenty sessions stream; whoever is on a replica that
stays notices nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest
from botocore.config import Config

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.long_session import LongSession, Prompt, Step
from tests.support.undisturbed import assert_undisturbed, resumes
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from types_boto3_servicediscovery import ServiceDiscoveryClient

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

CAPACITY = 4
LISTED = ("--cloudmap", "--cloudmap-port", "0", "--cloudmap-notice", "1")
PACE = ("--capacity", str(CAPACITY), "--segment-seconds", "0.5")


def exported(text: str) -> Mapping[str, str]:
    """The variables of the `export` lines in it."""
    words = (shlex.split(line) for line in text.splitlines())
    return dict(word[1].partition("=")[::2] for word in words if word[:1] == ["export"])


def replicas_of(said: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The entries of /status by name."""
    return {one["name"]: one for one in said["replicas"]}


@dataclass
class Streaming:
    """A session that asks for one segment after the other until it is told to end."""

    gateway: GatewayProcess
    name: str
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.session = LongSession(self.gateway.ws, self._steps(), init={"client_id": self.name})
        self.task = asyncio.ensure_future(self.session.run())

    def _steps(self) -> Iterator[Step]:
        for number in itertools.count():
            yield Prompt(f"{number} of {self.name}", number)
            if self.ending.is_set():
                return

    async def until_open(self) -> None:
        await eventually(lambda: self.session.story.opened, f"{self.name} is open", timeout=40)

    async def until_another(self) -> None:
        """It has got one more segment than it has now."""
        before = self.session.story.completed
        await eventually(lambda: self.session.story.completed > before, f"{self.name} goes on", timeout=40)

    @property
    def moved_to(self) -> list[str]:
        return [name for _, name in resumes(self.session.story)]


class Stage:
    """A gateway, an emulator with a Cloud Map, and the sessions."""

    def __init__(self, emulator: EmulatorProcess, gateway: GatewayProcess) -> None:
        self.emulator, self.gateway = emulator, gateway
        self.sessions: dict[str, Streaming] = {}

    async def replicas(self) -> dict[str, Mapping[str, Any]]:
        return replicas_of((await self.gateway.get("/status")).json())

    async def until_serving(self, *names: str) -> None:
        """These are the gateway's replicas, healthy and taking sessions, and no others."""

        async def known() -> bool:
            found = await self.replicas()
            return sorted(found) == sorted(names) and all(
                one["status"] == "healthy" and not (one["draining"] or one["removed"])
                for one in found.values()
            )

        try:
            await eventually(known, f"the replicas are {names}", timeout=60, every=0.1)
        except AssertionError as error:
            raise self.gateway.failure(f"{error}; they are {await self.replicas()}") from None

    async def come(self, *names: str) -> list[str]:
        """Sessions that stream; the replica that each is on."""
        where = []
        for name in names:
            before = {one: entry["active_sessions"] for one, entry in (await self.replicas()).items()}
            came = self.sessions[name] = Streaming(self.gateway, name)
            await came.until_open()
            after = await self.replicas()
            where += [one for one, entry in after.items() if entry["active_sessions"] > before.get(one, 0)]
        for name in names:
            await self.sessions[name].until_another()
        return where

    async def until_moved(self, names: list[str]) -> None:
        moved = [self.sessions[name] for name in names]
        await eventually(lambda: all(one.moved_to for one in moved), "they are elsewhere", timeout=40)
        for one in moved:
            await one.until_another()

    async def end(self) -> None:
        for one in self.sessions.values():
            one.ending.set()
        await asyncio.gather(*(one.task for one in self.sessions.values()))
        for one in self.sessions.values():
            assert_undisturbed(one.session.story, one.session.asked)


@asynccontextmanager
async def stage(folder: Path, *, replicas: int) -> AsyncIterator[Stage]:
    """With nothing but the printed environment: no probe, interval or policy is set otherwise."""
    async with EmulatorProcess(folder, *LISTED, *PACE, replicas=replicas, tied=True) as emulator:
        environment = exported(emulator.output())
        assert environment == emulator.environment
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert exported((await client.get(f"{emulator.control}/environment")).text) == environment
        starting = GatewayProcess(folder, env=environment, wait_for="/readyz", tied=True)
        async with starting as gateway:
            on = Stage(emulator, gateway)
            try:
                yield on
            finally:
                for one in on.sessions.values():
                    one.task.cancel()


def cloud_map(environment: Mapping[str, str]) -> tuple[ServiceDiscoveryClient, str]:
    """AWS's API as anybody else would use it, and the service's id."""
    api: ServiceDiscoveryClient = boto3.client(
        "servicediscovery",
        region_name=environment["AWS_REGION"],
        endpoint_url=environment["GATEWAY_DISCOVERY__ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(inject_host_prefix=False, proxies={}),
    )
    (service,) = api.list_services()["Services"]
    return api, service["Id"]


async def test_replicas_appear_die_are_deregistered_and_come_back_while_twenty_sessions_stream(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, replicas=5) as on:
        await on.until_serving("a", "b", "c", "d", "e")
        found = await on.replicas()
        assert {name: one["url"] for name, one in found.items()} == on.emulator.urls
        assert {one["max_sessions"] for one in found.values()} == {CAPACITY}
        names = [f"s{number}" for number in range(20)]
        where = dict(zip(names, await on.come(*names), strict=True))
        on_replica = {replica: [name for name in names if where[name] == replica] for replica in "abcde"}
        assert [len(names) for names in on_replica.values()] == [CAPACITY] * 5

        # New ones appear, and get the sessions that come now.
        async with on.emulator.api() as api:
            await api.add("f")
            await api.add("g")
        await on.until_serving("a", "b", "c", "d", "e", "f", "g")
        assert await on.come("newcomer") == ["f"]

        # One dies: its sessions move to the new ones, and once AWS has noticed it is gone.
        await on.emulator.kill("a")
        await on.until_moved(on_replica["a"])
        await on.until_serving("b", "c", "d", "e", "f", "g")

        # One is deregistered, and lives: it keeps its sessions, and gets none.
        aws, service = cloud_map(on.emulator.environment)
        (instance,) = (
            one for one in aws.list_instances(ServiceId=service)["Instances"] if one["Id"] == "b-1"
        )
        aws.deregister_instance(ServiceId=service, InstanceId="b-1")

        async def removed() -> bool:
            return bool((await on.replicas())["b"]["removed"])

        await eventually(removed, "b is on its way out", timeout=40)
        assert (await on.replicas())["b"]["active_sessions"] == CAPACITY

        # Both come back: one to its sessions, the other to those that come.
        aws.register_instance(ServiceId=service, InstanceId="b-1", Attributes=dict(instance["Attributes"]))
        aws.close()
        await on.emulator.restart("a")
        await on.until_serving("a", "b", "c", "d", "e", "f", "g")
        assert await on.come("returner") == ["a"]
        assert (await on.replicas())["b"]["active_sessions"] == CAPACITY

        await on.end()
        for name, one in on.sessions.items():
            assert len(one.moved_to) == (name in on_replica["a"]), f"{name} moved to {one.moved_to}"
            assert set(one.moved_to) <= {"f", "g"}
        lines = on.gateway.output().splitlines()
        assert [line for line in lines if "Traceback" in line or "discovery_failed" in line] == []
        assert await on.emulator.stop() == 0
