"""The gateway as users start it: a real process on a free port, configured by its environment alone."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.support.ports import free_port
from tests.support.processes import BIN, RunningProcess
from tests.support.waiting import eventually

Launch = Literal["granian", "asgi", "serve"]
"""`granian gateway.app:app`, the same with `--interface asgi`, and `python -m gateway serve`."""

LAUNCHES: tuple[Launch, ...] = ("granian", "asgi", "serve")

_numbers = itertools.count(1)

QUICK: dict[str, object] = {
    "router__health_check__interval_seconds": 0.2,
    "router__health_check__timeout_seconds": 1,
}
"""Probes often enough that a test need not wait for one."""


def gateway_command(launch: Launch) -> list[str]:
    """The command line, workers and ports left to the environment."""
    match launch:
        case "granian":
            return [str(BIN / "granian"), "gateway.app:app"]
        case "asgi":
            return [str(BIN / "granian"), "--interface", "asgi", "gateway.app:app"]
        case "serve":
            return [str(BIN / "python"), "-m", "gateway", "serve"]


def gateway_environment(
    port: int,
    replicas: Sequence[str | Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Variables for a gateway on `port`; a setting is named `section__field`, in any case."""
    named = [{"url": replica} if isinstance(replica, str) else dict(replica) for replica in replicas]
    given = {**QUICK, "router__host": "127.0.0.1", "router__port": port, **(settings or {})}
    if named:
        given["router__replicas"] = named
    plain = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    variables = {f"GATEWAY_{name.upper()}": value for name, value in plain.items()}
    return variables | {"GRANIAN_HOST": "127.0.0.1", "GRANIAN_PORT": str(port)}


class GatewayProcess(RunningProcess):
    """A started gateway; `async with` waits until it serves and stops it at the end."""

    def __init__(
        self,
        folder: Path,
        replicas: Sequence[str | Mapping[str, object]] = (),
        *,
        settings: Mapping[str, object] | None = None,
        launch: Launch = "granian",
        workers: int = 1,
        env: Mapping[str, str] | None = None,
        wait_for: str | None = "/readyz",
        cwd: Path | None = None,
        tied: bool = False,
    ) -> None:
        """Start it; its log goes to `folder`. `wait_for`: the route that must answer 200 (None: no wait)."""
        self.port = free_port()
        self.workers = workers
        self._wait_for = wait_for
        many = {"GRANIAN_WORKERS": str(workers)} if workers > 1 else {}
        command = gateway_command(launch)
        if launch == "serve" and workers > 1:
            command += ["--workers", str(workers)]
        super().__init__(
            command,
            log=folder / f"gateway-{next(_numbers)}.log",
            env=gateway_environment(self.port, replicas, settings) | many | dict(env or {}),
            cwd=cwd,
            tied=tied,
        )

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    async def get(self, path: str, *, timeout: float = 5) -> httpx.Response:
        """One request on a connection of its own (with several workers, any of them answers)."""
        # Plain HTTP: without the certificates, whose loading costs more than the request.
        async with httpx.AsyncClient(timeout=timeout, trust_env=False, verify=False) as client:
            return await client.get(self.http + path)

    async def answers(self, path: str, status: int = 200) -> bool:
        """Whether `path` answers `status` now; a refused or broken connection is a no."""
        try:
            return (await self.get(path)).status_code == status
        except httpx.TransportError:
            return False

    async def serving(self) -> None:
        """Return once the awaited route answers 200, often enough in a row that every worker likely did: not
        before each has begun to serve, or those that have would answer for it.
        """
        if self._wait_for is None:
            return
        if self.workers == 1:
            await self._until_answers(self._wait_for)
            return
        await self.until(self._all_started, f"{self.workers} workers serve", timeout=30)
        for _ in range(8):
            await self._until_answers(self._wait_for)

    def _all_started(self) -> bool:
        output = self.output()
        return all(f"Started worker-{number}\n" in output for number in range(1, self.workers + 1))

    async def _until_answers(self, path: str) -> None:
        async def answered() -> bool:
            if self.returncode is not None:
                raise self.failure(f"ended before {path} answered 200")
            return await self.answers(path)

        try:
            await eventually(answered, f"{path} answers 200", timeout=30, every=0.05)
        except AssertionError as error:
            raise self.failure(str(error)) from None

    async def sessions(self) -> dict[str, dict[str, Any]]:
        """The entries of /router/replicas/sessions by replica URL."""
        body = (await self.get("/router/replicas/sessions")).json()
        return {entry["url"]: entry for entry in body["replicas"]}

    async def statuses(self) -> dict[str, str]:
        """The entries of /status: replica URL to status."""
        body = (await self.get("/status")).json()
        return {entry["url"]: entry["status"] for entry in body["replicas"]}

    async def until_status(self, url: str, status: str) -> None:
        """Return once the gateway reports `status` for the replica."""

        async def reported() -> bool:
            return (await self.statuses()).get(url) == status

        await eventually(reported, f"{url} is {status}")

    async def until_no_sessions(self) -> None:
        """Return once every replica counts no session, open or pending."""

        async def none_left() -> bool:
            entries = (await self.sessions()).values()
            return all(e["active_sessions"] == 0 and e["pending_sessions"] == 0 for e in entries)

        await eventually(none_left, "the session counts are back to 0")

    async def __aenter__(self) -> GatewayProcess:
        try:
            await self.serving()
        except BaseException:
            await asyncio.shield(self.stop(timeout=1))
            raise
        return self
