"""One gateway for many tests that are content with its settings: a start costs more than most of them."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_port
from tests.support.scripted_replica import Accept, Health, ScriptedReplica, UpgradeAnswer
from tests.support.waiting import eventually


class StandingGateway:
    """A gateway whose only replica is a new one in each test, always on the same port."""

    def __init__(self, folder: Path) -> None:
        """Start it; `stop` is the caller's to do."""
        self.replica_port = free_port()
        url = f"http://127.0.0.1:{self.replica_port}"
        self._gateway = GatewayProcess(folder, [url], wait_for="/healthz")

    @asynccontextmanager
    async def serving(
        self, upgrade: UpgradeAnswer | None = None, health: Health | None = None
    ) -> AsyncIterator[tuple[ScriptedReplica, GatewayProcess]]:
        """The replica, and the gateway, which has just found it healthy."""
        gateway = self._gateway
        began_at = time.time()
        async with ScriptedReplica(
            upgrade=upgrade or Accept(), health=health, port=self.replica_port
        ) as replica:
            await gateway.serving()

            async def is_found() -> bool:
                (entry,) = (await gateway.get("/status")).json()["replicas"]
                return entry["status"] == "healthy" and (entry["last_ok_at"] or 0) > began_at

            await eventually(is_found, "the replica on its old port is healthy")
            try:
                yield replica, gateway
                # One that were left would go on at the next test's replica.
                await gateway.until_no_sessions()
            except BaseException:
                sys.stdout.write(f"\n----- the gateway of this module\n{gateway.output()[-12000:]}\n")
                raise

    async def stop(self) -> None:
        await self._gateway.stop()
