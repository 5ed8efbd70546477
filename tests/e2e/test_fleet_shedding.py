"""A gateway joins another, on real processes: sessions that can go on elsewhere come over, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_log import log_of
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import clients_of
from tests.support.peer import Peer
from tests.support.raw_client import raw_client
from tests.support.redis_server import RedisServer
from tests.support.scripted_replica import ScriptedReplica
from tests.support.traveller import Traveller, travelling
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SETTLE_SECONDS = 1.5


def in_fleet(server: RedisServer, **more: object) -> dict[str, object]:
    return {
        "fleet__backend": "redis",
        "fleet__url": server.url,
        "fleet__ttl_seconds": 2,
        "fleet__every_seconds": 0.3,
        "fleet__settle_seconds": SETTLE_SECONDS,
        "fleet__shed_per_second": 20,
        **more,
    }


async def sessions_of(gateway: GatewayProcess) -> int:
    return int((await gateway.get("/status")).json()["sessions"])


async def until_loads_are_known(*gateways: GatewayProcess) -> None:
    """Return once each gateway's view has every gateway's sessions as they are."""

    async def known() -> bool:
        loads = sorted([await sessions_of(gateway) for gateway in gateways])
        for gateway in gateways:
            members = (await gateway.get("/status")).json()["fleet"]["members"]
            if sorted(member["load"] for member in members) != loads:
                return False
        return True

    await eventually(known, "the gateways know each other's sessions")


async def until_at_rest(travellers: Sequence[Traveller]) -> int:
    """How often they have moved, once nobody has for a while."""
    while True:
        before = sum(each.moves for each in travellers)
        await asyncio.sleep(2 * SETTLE_SECONDS)
        if sum(each.moves for each in travellers) == before:
            return before


async def passes_through(stack: AsyncExitStack, gateway: GatewayProcess, replica: ScriptedReplica) -> Peer:
    """A session of no protocol that is known, whose replica says what its client said."""
    client = await stack.enter_async_context(raw_client(gateway.port))
    await client.send("hello")
    session = await replica.session()
    assert await session.recv() == "hello"
    await session.send("hello yourself")
    assert await client.recv() == "hello yourself"
    return client


async def test_sessions_come_over_to_a_gateway_that_joins(tmp_path: Path) -> None:
    server = RedisServer("valkey", tmp_path)
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        replica = await stack.enter_async_context(ScriptedReplica())
        emulator = await stack.enter_async_context(
            EmulatorProcess(tmp_path, "--capacity", "20", "--segment-seconds", "0.1", replicas=1)
        )
        # The first two sessions of the first gateway are on the scripted replica.
        first_of_all = {"url": replica.url, "name": "scripted", "primary": True, "max_sessions": 2}
        sheds = await stack.enter_async_context(
            GatewayProcess(
                tmp_path,
                [first_of_all, *emulator.settings()],
                settings=in_fleet(server, fleet__shed=True, fleet__member_id="sheds"),
            )
        )
        untouched = [await passes_through(stack, sheds, replica) for _ in range(2)]
        clients = await stack.enter_async_context(clients_of(sheds))
        # These get a segment, and never ask for its state.
        held = [clients.come(f"asks nothing {number}") for number in range(2)]
        for one in held:
            await one.until_served()

        other: list[GatewayProcess] = []

        def route(number: int) -> Callable[[int], str]:
            """All are here at first; of those that are handed back every second one comes back to here."""
            return lambda session: (other[0] if session and (number + session) % 2 else sheds).ws

        travellers = [
            Traveller(f"traveller {number}", route(number), busy=number % 3 == 0) for number in range(8)
        ]
        # What the stack is given in here is closed only after they have ended.
        async with travelling(*travellers):
            await eventually(lambda: all(each.completed for each in travellers), "all are served")
            other.append(
                await stack.enter_async_context(
                    GatewayProcess(
                        tmp_path,
                        emulator.settings(),
                        settings=in_fleet(server, fleet__member_id="does-not-shed"),
                    )
                )
            )

            async def even() -> bool:
                return await sessions_of(sheds) <= 7 and await sessions_of(other[0]) >= 5

            await eventually(even, "the sessions are shared out anew", timeout=40)
            moved = await until_at_rest(travellers)
            await until_loads_are_known(sheds, other[0])
            assert await even()
            assert await sessions_of(sheds) + await sessions_of(other[0]) == 12
            assert moved >= 5
            ended = log_of(sheds, "session_ended", " closed_by=gateway code=1012 reason=rebalance_reconnect ")
            assert len(ended) == moved
            (joined,) = log_of(sheds, "fleet_changed", " joined=does-not-shed ")
            assert ended[0].at >= joined.at + SETTLE_SECONDS / 2, "not before the fleet has settled"
            steps = log_of(sheds, "sessions_handed_back")
            assert sum(int(line.text.partition(" sessions=")[2].split()[0]) for line in steps) == moved

            # Now the other one has more, and has not been told to shed.
            for one in held:
                one.let_go()
                await one.over()
                one.assert_served()
            for client in untouched:
                await client.send("still here")
                await client.close(1000, "done")
            await until_loads_are_known(sheds, other[0])
            assert await sessions_of(other[0]) > 1.2 * len(travellers) / 2
            await asyncio.sleep(2 * SETTLE_SECONDS)
            assert sum(each.moves for each in travellers) == moved
            assert log_of(other[0], "sessions_handed_back") == []
