"""The emulator as users start it: a real process, with its control API at hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from emulator.client import AsyncEmulator, EmulatorError
from tests.support.processes import BIN, RunningProcess

_numbers = itertools.count(1)


class EmulatorProcess(RunningProcess):
    """A started emulator on free ports; `async with` waits until its replicas run and stops it at the end."""

    def __init__(self, folder: Path, *options: str, replicas: int = 3, tied: bool = False) -> None:
        """Start it in `folder`, where its log goes; `options` follow on its command line. Its media is filler
        unless they say otherwise."""
        number = next(_numbers)
        self._ready_file = folder / f"emulator-{number}.json"
        self.urls: dict[str, str] = {}
        """Replica name to URL, in order."""
        self.environment: dict[str, str] = {}
        """What a gateway needs to find them, where they are listed somewhere."""
        self.control = ""
        ports = ["--port", "0", "--control-port", "0", "--ready-file", str(self._ready_file)]
        if "--media" not in options:
            ports += ["--media", "filler"]
        super().__init__(
            [BIN / "python", "-m", "emulator", "--replicas", str(replicas), *ports, *options],
            log=folder / f"emulator-{number}.log",
            tied=tied,
        )

    async def serving(self) -> None:
        """Return once the replicas run and the control API answers."""
        await self.until(self._ready_file.exists, "the emulator's replicas run")
        addresses = json.loads(self._ready_file.read_text())
        self.control = addresses["control"]
        self.urls = {replica["name"]: replica["url"] for replica in addresses["replicas"]}
        self.environment = addresses.get("environment", {})

    def settings(self, **more: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
        """The replicas as the gateway's settings have them, by their names; `more` adds keys to one."""
        return [{"url": url, "name": name, **more.get(name, {})} for name, url in self.urls.items()]

    def in_order(self) -> Sequence[Mapping[str, object]]:
        """The same, with a primary: the first one is asked first, then the others in order."""
        return self.settings(**{next(iter(self.urls)): {"primary": True}})

    @asynccontextmanager
    async def api(self) -> AsyncIterator[AsyncEmulator]:
        """Its control API; a request that fails is told with what the emulator wrote."""
        try:
            async with AsyncEmulator(self.control) as client:
                yield client
        except EmulatorError as error:
            raise self.failure(str(error)) from error

    async def replica(self, name: str) -> dict[str, Any]:
        """What the control API says of a replica."""
        async with self.api() as api:
            return dict(msgspec.to_builtins(await api.replica(name)))

    async def kill(self, name: str) -> None:
        """Every connection is reset and the port closed."""
        async with self.api() as api:
            await api.kill(name)

    async def restart(self, name: str) -> None:
        async with self.api() as api:
            await api.restart(name)

    async def pause(self, name: str) -> None:
        """The replica stands still; by SIGSTOP where it is a process of its own."""
        async with self.api() as api:
            await api.pause(name)

    async def resume(self, name: str) -> None:
        async with self.api() as api:
            await api.resume(name)

    async def lift(self, name: str, fault: str) -> None:
        """The fault stands no longer."""
        async with self.api() as api:
            await api.lift(name, fault)

    async def struck(self, name: str, fault: str) -> int:
        """How many opportunities the fault has taken on the replica."""
        return int((await self.replica(name))["faults"][fault]["struck"])

    async def arm(self, name: str, fault: str, **fields: object) -> None:
        """The fault stands on the replica."""
        async with self.api() as api:
            await api.arm(name, fault, **fields)

    async def reset(self) -> None:
        """No faults, every replica running."""
        async with self.api() as api:
            await api.reset()

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What the replica saw and did, oldest first."""
        async with self.api() as api:
            page = await api.events(replica=name, limit=10_000)
        return [msgspec.to_builtins(event) for event in page.events]

    async def sessions_total(self) -> dict[str, int]:
        """Sessions that each replica has had."""
        async with self.api() as api:
            return {replica.name: replica.sessions_total for replica in await api.replicas()}

    async def __aenter__(self) -> EmulatorProcess:
        try:
            await self.serving()
        except BaseException:
            await self.stop(timeout=1)
            raise
        return self
