"""The emulator as users start it: a real process, with its control API at hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import BIN, RunningProcess

_numbers = itertools.count(1)


class EmulatorProcess(RunningProcess):
    """A started emulator on free ports; `async with` waits until its replicas run and stops it at the end."""

    def __init__(self, folder: Path, *options: str, replicas: int = 3) -> None:
        """Start it in `folder`, where its log goes; `options` follow on its command line. Its media is filler
        unless they say otherwise."""
        number = next(_numbers)
        self._ready_file = folder / f"emulator-{number}.json"
        self.urls: dict[str, str] = {}
        """Replica name to URL, in order."""
        self.control = ""
        ports = ["--port", "0", "--control-port", "0", "--ready-file", str(self._ready_file)]
        if "--media" not in options:
            ports += ["--media", "filler"]
        super().__init__(
            [BIN / "python", "-m", "emulator", "--replicas", str(replicas), *ports, *options],
            log=folder / f"emulator-{number}.log",
        )

    async def serving(self) -> None:
        """Return once the replicas run and the control API answers."""
        await self.until(self._ready_file.exists, "the emulator's replicas run")
        addresses = json.loads(self._ready_file.read_text())
        self.control = addresses["control"]
        self.urls = {replica["name"]: replica["url"] for replica in addresses["replicas"]}

    def settings(self, **more: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
        """The replicas as the gateway's settings have them, by their names; `more` adds keys to one."""
        return [{"url": url, "name": name, **more.get(name, {})} for name, url in self.urls.items()]

    def in_order(self) -> Sequence[Mapping[str, object]]:
        """The same, with a primary: the first one is asked first, then the others in order."""
        return self.settings(**{next(iter(self.urls)): {"primary": True}})

    async def replica(self, name: str) -> dict[str, Any]:
        """What the control API says of a replica."""
        return dict(await self._call("GET", f"/replicas/{name}"))

    async def kill(self, name: str) -> None:
        """Every connection is reset and the port closed."""
        await self._call("POST", f"/replicas/{name}/kill")

    async def restart(self, name: str) -> None:
        await self._call("POST", f"/replicas/{name}/restart")

    async def pause(self, name: str) -> None:
        """The replica stands still; by SIGSTOP where it is a process of its own."""
        await self._call("POST", f"/replicas/{name}/pause")

    async def resume(self, name: str) -> None:
        await self._call("POST", f"/replicas/{name}/resume")

    async def lift(self, name: str, fault: str) -> None:
        """The fault stands no longer."""
        await self._call("DELETE", f"/replicas/{name}/faults/{fault}")

    async def struck(self, name: str, fault: str) -> int:
        """How many opportunities the fault has taken on the replica."""
        return int((await self.replica(name))["faults"][fault]["struck"])

    async def arm(self, name: str, fault: str, **fields: object) -> None:
        """The fault stands on the replica."""
        await self._call("PUT", f"/replicas/{name}/faults/{fault}", fields)

    async def reset(self) -> None:
        """No faults, every replica running."""
        await self._call("POST", "/reset")

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What the replica saw and did, oldest first."""
        page = await self._call("GET", f"/events?replica={name}&limit=10000")
        return list(page["events"])

    async def sessions_total(self) -> dict[str, int]:
        """Sessions that each replica has had."""
        return {
            replica["name"]: int(replica["sessions_total"])
            for replica in await self._call("GET", "/replicas")
        }

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        # Plain HTTP: without the certificates, whose loading costs more than the request.
        options: dict[str, Any] = {"timeout": 10, "trust_env": False, "verify": False}
        async with httpx.AsyncClient(base_url=self.control, **options) as client:
            answer = (
                await client.request(method, path, json=body) if body else await client.request(method, path)
            )
        if answer.is_error:
            raise self.failure(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    async def __aenter__(self) -> EmulatorProcess:
        try:
            await self.serving()
        except BaseException:
            await self.stop(timeout=1)
            raise
        return self
