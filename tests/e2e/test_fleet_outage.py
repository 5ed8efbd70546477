"""Gateways in a fleet whose store fails in every way, under load: no session and no readiness notices.

One gateway has all the sessions and sheds, so that it would hand some back at any moment; another one, with
two workers, has none. Whoever is handed back comes back to the first.

The server is gone for some seconds; STREAMHOLD_OUTAGE_SECONDS=60 makes it a minute.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_log import Line, log_of
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import clients_of
from tests.support.redis_server import KINDS, Kind, RedisServer
from tests.support.streaming_client import drive_session
from tests.support.traveller import Traveller, travelling
from tests.support.waiting import eventually

SECONDS = float(os.environ.get("STREAMHOLD_OUTAGE_SECONDS", "4"))

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 200)]

TTL_SECONDS = 3.0
SETTLE_SECONDS = 2.0
ENDING_SECONDS = 0.5
"""From the decision to hand a session back to the line of its end."""
MEMBERS = ("busy", "calm", "calm:2")


class Fleet:
    """The store, and the gateways before it."""

    def __init__(self, folder: Path, server: RedisServer, busy: GatewayProcess, calm: GatewayProcess) -> None:
        self._folder = folder
        self.server = server
        self.busy, self.calm = busy, calm
        self.answers: list[tuple[str, int]] = []
        """What each /readyz has answered."""

    @classmethod
    @asynccontextmanager
    async def of(cls, folder: Path, kind: Kind, replicas: Sequence[Any]) -> AsyncIterator[Fleet]:
        server = RedisServer(kind, folder)
        settings = {
            "fleet__backend": "redis",
            "fleet__url": server.url,
            "fleet__ttl_seconds": TTL_SECONDS,
            "fleet__every_seconds": 0.4,
            "fleet__settle_seconds": SETTLE_SECONDS,
        }
        calm: dict[str, object] = {**settings, "fleet__member_id": "calm"}
        busy: dict[str, object] = {**settings, "fleet__member_id": "busy", "fleet__shed": True}
        try:
            async with GatewayProcess(folder, replicas, settings=calm, workers=2) as others:
                async with GatewayProcess(folder, replicas, settings=busy) as first:
                    fleet = cls(folder, server, first, others)
                    try:
                        yield fleet
                    finally:
                        server = fleet.server
        finally:
            server.kill()

    async def status(self) -> dict[str, Any]:
        """The fleet, as the busy gateway shows it."""
        return dict((await self.busy.get("/status")).json()["fleet"])

    def lines(self, member: str, event: str, since: float = 0.0) -> list[Line]:
        """What this member's gateway has said of it."""
        gateway = self.busy if member == "busy" else self.calm
        found = (
            line for line in log_of(gateway) if line.event == event and f" member={member} " in line.text
        )
        return [line for line in found if line.at >= since]

    def handed_back(self, since: float = 0.0, until: float = float("inf")) -> list[Line]:
        """The ends of sessions that were handed back in that time."""
        ended = log_of(self.busy, "session_ended", " reason=rebalance_reconnect ")
        return [line for line in ended if since <= line.at < until]

    async def until_all_well(self) -> None:
        """Return once everybody sees everybody, and the last beat was answered."""

        async def well() -> bool:
            seen = await self.status()
            states = {one["id"]: one["state"] for one in seen["members"]}
            return states == dict.fromkeys(MEMBERS, "serving") and seen["failed_beats"] == 0

        await eventually(well, "everybody sees everybody", timeout=40)

    async def until_told(self, event: str, since: float, members: Sequence[str] = MEMBERS) -> None:
        """Return once each of them has logged it."""
        told = lambda: all(self.lines(member, event, since) for member in members)  # noqa: E731
        await eventually(told, f"{members} tell {event}", timeout=40, every=0.05)

    async def until_handed_back(self, since: float) -> None:
        """Return once somebody has been, again."""
        await eventually(lambda: self.handed_back(since), "it sheds", timeout=60, every=0.1)

    def replace(self, kind: Kind) -> None:
        """The server is killed, and at once there is another one, which is empty, at its place."""
        self.server.kill()
        self.server = RedisServer(kind, self._folder, port=self.server.port)

    @asynccontextmanager
    async def is_ready(self, *gateways: GatewayProcess) -> AsyncIterator[None]:
        """Inside, each gateway's /readyz answers 200 whenever it is asked."""
        answers: list[tuple[int, int]] = []

        async def ask(gateway: GatewayProcess) -> None:
            async with httpx.AsyncClient(timeout=20, trust_env=False, verify=False) as client:
                while True:
                    answers.append((gateway.port, (await client.get(f"{gateway.http}/readyz")).status_code))
                    await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(ask(gateway)) for gateway in gateways]
            yield
            for task in asking:
                task.cancel()
        assert {port for port, _ in answers} == {gateway.port for gateway in gateways}
        assert {status for _, status in answers} == {200}

    @asynccontextmanager
    async def lost(self, how: str) -> AsyncIterator[float]:
        """The store is lost inside, and back after it: one warning and one line of recovery of each member,
        and nobody is handed back from the one until the other.
        """
        await self.until_all_well()
        began = time.time()
        yield began
        await self.until_told("fleet_beats_again", began)
        for member in MEMBERS:
            failed = self.lines(member, "fleet_beat_failed", began)
            again = self.lines(member, "fleet_beats_again", began)
            assert [len(failed), len(again)] == [1, 1], f"{how}: {member}: {failed} {again}"
            assert " warning " in failed[0].text
            if member == "busy":
                assert self.handed_back(failed[0].at + ENDING_SECONDS, again[0].at) == [], how
        await self.until_all_well()

    async def settles(self, since: float, how: str) -> None:
        """Everybody has joined anew, and nobody is handed back before that is some time ago."""
        await self.until_told("fleet_entry_was_expired", since)
        await self.until_all_well()
        joined = max(self.lines(member, "fleet_entry_was_expired", since)[0].at for member in MEMBERS)
        own = self.lines("busy", "fleet_entry_was_expired", since)[0].at
        await asyncio.sleep(max(0.0, joined + SETTLE_SECONDS - time.time()))
        # The store's `since` is a moment before the line.
        assert self.handed_back(own + ENDING_SECONDS, own + SETTLE_SECONDS - 0.3) == [], how


async def is_killed(fleet: Fleet) -> None:
    async with fleet.lost("killed") as began:
        fleet.server.kill()
        await fleet.until_told("fleet_beat_failed", began)
        ages = []
        while time.time() < began + SECONDS:
            seen = await fleet.status()
            ages.append(seen["age_seconds"])
            assert [one["id"] for one in seen["members"]] == list(MEMBERS), "the last view is kept"
            await asyncio.sleep(0.2)
        assert seen["failing"] is not None
        assert seen["failed_beats"] > 1
        assert ages == sorted(ages)
        assert ages[-1] > TTL_SECONDS
        assert (await drive_session(fleet.busy.ws)).completed
        fleet.server = RedisServer(fleet.server.kind, fleet._folder, port=fleet.server.port)
    await fleet.settles(began, "killed")


async def stands_still(fleet: Fleet) -> None:
    async with fleet.lost("stopped") as began:
        fleet.server.freeze()
        try:
            await fleet.until_told("fleet_beat_failed", began)
            assert (await drive_session(fleet.calm.ws)).completed
            await asyncio.sleep(max(0.0, began + TTL_SECONDS + 1 - time.time()))
        finally:
            fleet.server.thaw()
    await fleet.settles(began, "stopped")


async def is_paused(fleet: Fleet) -> None:
    async with fleet.lost("paused"):
        assert fleet.server.say("CLIENT", "PAUSE", "2500", "ALL") == "+OK"


async def is_emptied(fleet: Fleet) -> None:
    await fleet.until_all_well()
    began = time.time()
    assert fleet.server.say("FLUSHALL") == "+OK"
    await fleet.settles(began, "emptied")
    for member in MEMBERS:
        assert len(fleet.lines(member, "fleet_entry_was_expired", began)) == 1


async def is_replaced(fleet: Fleet) -> None:
    await fleet.until_all_well()
    began = time.time()
    fleet.replace("valkey" if fleet.server.kind == "redis" else "redis")
    await fleet.settles(began, "replaced")


async def the_gateway_stands_still(fleet: Fleet) -> None:
    """Longer than its entry lives: it learns of it, and its sessions go on."""
    await fleet.until_all_well()
    began = time.time()
    fleet.busy.send_signal(signal.SIGSTOP, group=True)
    try:
        gone = lambda: any("gone=busy" in line.text for line in fleet.lines("calm", "fleet_changed", began))  # noqa: E731
        await eventually(gone, "the others see it go", timeout=40, every=0.1)
    finally:
        fleet.busy.send_signal(signal.SIGCONT, group=True)
    await fleet.until_told("fleet_entry_was_expired", began, ["busy"])
    assert fleet.lines("calm", "fleet_entry_was_expired", began) == []
    own = fleet.lines("busy", "fleet_entry_was_expired", began)[0].at
    await fleet.until_all_well()
    await asyncio.sleep(max(0.0, own + SETTLE_SECONDS - time.time()))
    assert fleet.handed_back(own + ENDING_SECONDS, own + SETTLE_SECONDS - 0.3) == []


def folder_in(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


OUTAGES = (is_killed, stands_still, is_paused, is_emptied, is_replaced)


async def fails_in_every_way(folder: Path, kind: Kind, emulator: EmulatorProcess) -> None:
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(Fleet.of(folder, kind, emulator.settings()))
        clients = await stack.enter_async_context(clients_of(fleet.busy))
        stays = [clients.come(f"{kind} {number} asks nothing") for number in range(2)]
        to_busy: Callable[[int], str] = lambda session: fleet.busy.ws  # noqa: E731
        travellers = [Traveller(f"{kind} {number}", to_busy, busy=number < 2) for number in range(8)]
        async with travelling(*travellers):
            await fleet.until_handed_back(0)
            async with fleet.is_ready(fleet.busy, fleet.calm):
                for outage in OUTAGES:
                    await outage(fleet)
            async with fleet.is_ready(fleet.calm):
                await the_gateway_stands_still(fleet)
            await fleet.until_handed_back(time.time())
        # They have had all that they wanted: what ended a session of theirs is that it was handed back.
        for one in stays:
            one.let_go()
            await one.over()
            one.assert_served()
        # One that has all that it wants may be handed back while it closes.
        moves = sum(traveller.moves for traveller in travellers)
        assert moves <= len(fleet.handed_back()) <= moves + len(travellers)
    ends = log_of(fleet.busy, "session_ended")
    by_client = log_of(fleet.busy, "session_ended", " closed_by=client code=1000 ")
    assert len(ends) == len(by_client) + len(fleet.handed_back())
    for gateway in (fleet.busy, fleet.calm):
        assert not [line for line in log_of(gateway) if line.event in ("session_leaves", "session_failed")]
        assert "Traceback" not in gateway.output()


async def test_a_store_that_fails_is_no_session_s_concern(tmp_path: Path) -> None:
    emulator = EmulatorProcess(tmp_path, "--capacity", "50", "--segment-seconds", "0.1", replicas=2)
    async with emulator, asyncio.TaskGroup() as tasks:
        for kind in KINDS:
            tasks.create_task(fails_in_every_way(folder_in(tmp_path, kind), kind, emulator))
