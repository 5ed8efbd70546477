"""The control API: JSON over HTTP, for people with curl and for tests. Loopback only.

It has no password, so it answers only to requests that name this machine: a web page that a browser here has
open must not be able to break replicas (or read headers from the event log) behind the user's back.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import uvicorn
from litestar import Litestar, Request, delete, get, post, put
from litestar.di import NamedDependency, Provide
from litestar.exceptions import (
    HTTPException,
    NotFoundException,
    PermissionDeniedException,
    ValidationException,
)
from litestar.openapi import OpenAPIConfig
from litestar.params import FromPath, QueryParameter

from emulator.events import DEFAULT_LIMIT, KINDS
from emulator.farm import Farm
from emulator.faults import CATALOGUE, BadFault, fault_from
from emulator.replica.replica import Replica

OWN_HOSTS = ("127.0.0.1", "localhost", "::1")
MAX_LIMIT = 10_000

TheFarm = NamedDependency[Farm]
"""The running farm, handed to each route."""

BodyT = TypeVar("BodyT", bound=msgspec.Struct)


class KillBody(msgspec.Struct, forbid_unknown_fields=True):
    """How a replica dies."""

    restart_after_seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """It comes back after so long; null for not by itself."""
    warming_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long it is warming once back."""


class RestartBody(msgspec.Struct, forbid_unknown_fields=True):
    """How a replica comes back; one that runs is killed first."""

    after_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long it is away."""
    warming_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long it is warming once back."""


class PauseBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long a replica stands still."""

    for_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Null for until it is resumed."""


class Conflict(HTTPException):
    """The replica is in no state for that."""

    status_code = 409


def _named(farm: Farm, name: str) -> Replica:
    if name not in farm.replicas:
        raise NotFoundException(f"there is no replica {name!r}; there are: {', '.join(farm.replicas)}")
    return farm.replicas[name]


def _known(fault: str) -> str:
    if fault not in CATALOGUE:
        raise NotFoundException(f"there is no fault {fault!r}; there are: {', '.join(CATALOGUE)}")
    return fault


@get("/", sync_to_thread=False, include_in_schema=False)
def index() -> dict[str, str]:
    return {"replicas": "/replicas", "faults": "/faults", "events": "/events", "schema": "/schema"}


@get("/replicas", sync_to_thread=False)
def list_replicas(farm: TheFarm) -> list[dict[str, Any]]:
    """Every replica with its state, faults and counters."""
    return [replica.status() for replica in farm.replicas.values()]


@get("/replicas/{name:str}", sync_to_thread=False)
def show_replica(farm: TheFarm, name: FromPath[str]) -> dict[str, Any]:
    """One replica."""
    return _named(farm, name).status()


@get("/faults", sync_to_thread=False)
def list_faults() -> dict[str, Any]:
    """Every fault that can be armed, with its fields and their defaults."""
    return {name: _describe(name) for name in CATALOGUE}


@put("/replicas/{name:str}/faults/{fault:str}")
async def arm(
    farm: TheFarm, name: FromPath[str], fault: FromPath[str], request: Request[Any, Any, Any]
) -> dict[str, Any]:
    """The fault stands, with the fields in the body (a JSON object, or nothing for the defaults)."""
    replica = _named(farm, name)
    _known(fault)
    try:
        replica.set_fault(fault_from(fault, _object_in(await request.body())))
    except BadFault as error:
        raise ValidationException(str(error)) from error
    await replica.settle()
    return replica.status()


@delete("/replicas/{name:str}/faults/{fault:str}", status_code=200)
async def lift(farm: TheFarm, name: FromPath[str], fault: FromPath[str]) -> dict[str, Any]:
    """The fault stands no longer; it need not have stood."""
    replica = _named(farm, name)
    replica.clear_fault(_known(fault))
    await replica.settle()
    return replica.status()


@post("/replicas/{name:str}/kill", status_code=200)
async def kill(farm: TheFarm, name: FromPath[str], request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Every connection is reset and the port closed. Body: restart_after_seconds, warming_seconds."""
    replica = _named(farm, name)
    body = _body(await request.body(), KillBody)
    await replica.kill(restart_after_seconds=body.restart_after_seconds, warming_seconds=body.warming_seconds)
    return replica.status()


@post("/replicas/{name:str}/restart", status_code=200)
async def restart(farm: TheFarm, name: FromPath[str], request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Killed if it runs, then back. Body: after_seconds, warming_seconds."""
    replica = _named(farm, name)
    body = _body(await request.body(), RestartBody)
    await replica.restart(after_seconds=body.after_seconds, warming_seconds=body.warming_seconds)
    return replica.status()


@post("/replicas/{name:str}/pause", status_code=200)
async def pause(farm: TheFarm, name: FromPath[str], request: Request[Any, Any, Any]) -> dict[str, Any]:
    """It stands still: takes connects, reads and writes nothing. Body: for_seconds."""
    replica = _named(farm, name)
    body = _body(await request.body(), PauseBody)
    if not await replica.pause(for_seconds=body.for_seconds):
        raise Conflict(f"replica {name} is {replica.state}: POST /replicas/{name}/restart first")
    return replica.status()


@post("/replicas/{name:str}/resume", status_code=200)
async def resume(farm: TheFarm, name: FromPath[str]) -> dict[str, Any]:
    """It goes on."""
    replica = _named(farm, name)
    if not await replica.resume():
        raise Conflict(f"replica {name} is {replica.state}: POST /replicas/{name}/restart first")
    return replica.status()


@post("/reset", status_code=200)
async def reset(farm: TheFarm) -> list[dict[str, Any]]:
    """No faults (those of the command line neither), every replica running."""
    await farm.reset()
    return [replica.status() for replica in farm.replicas.values()]


@get("/events", sync_to_thread=False)
def events(
    farm: TheFarm,
    after: Annotated[int, QueryParameter(ge=0, description="Only events with a higher number")] = 0,
    replica: Annotated[str | None, QueryParameter(description="Only this replica's")] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_LIMIT, description="At most this many")
    ] = DEFAULT_LIMIT,
) -> dict[str, Any]:
    """What the replicas saw, oldest first. Ask again with `after` set to `last`."""
    if replica is not None:
        _named(farm, replica)
    page = farm.events(after, replica=replica, limit=limit)
    found: dict[str, Any] = msgspec.to_builtins(page)
    return found


@get("/events/kinds", sync_to_thread=False)
def kinds() -> dict[str, str]:
    """The kinds of events, with what their detail says."""
    return dict(KINDS)


def _only_from_here(request: Request[Any, Any, Any]) -> None:
    hosts = [_host_of(f"//{request.headers.get('host', '')}")]
    if (origin := request.headers.get("origin")) is not None:
        hosts.append(_host_of(origin))
    if any(host not in OWN_HOSTS for host in hosts):
        raise PermissionDeniedException(f"this API is for {', '.join(OWN_HOSTS)} only")


def _host_of(url: str) -> str | None:
    """None where there is none, or what is there is no URL."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _object_in(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValidationException(f"the body must be a JSON object or empty: {error}") from error


def _body(raw: bytes, kind: type[BodyT]) -> BodyT:
    try:
        return msgspec.json.decode(raw if raw.strip() else b"{}", type=kind)
    except msgspec.DecodeError as error:
        known = ", ".join(entry.name for entry in msgspec.structs.fields(kind))
        raise ValidationException(f"{error}; the body may have: {known}") from error


def _describe(name: str) -> dict[str, Any]:
    kind = CATALOGUE[name]
    return {
        "does": " ".join((kind.__doc__ or "").split()),
        "fields": {
            entry.name: {
                "type": str(entry.type),
                "default": None if entry.default is MISSING else entry.default,
            }
            for entry in fields(kind)
        },
    }


HANDLERS = (
    index,
    list_replicas,
    show_replica,
    list_faults,
    arm,
    lift,
    kill,
    restart,
    pause,
    resume,
    reset,
    events,
    kinds,
)


def build_control(farm: Farm) -> Litestar:
    """The API over a running farm."""
    return Litestar(
        route_handlers=HANDLERS,
        dependencies={"farm": Provide(lambda: farm, sync_to_thread=False)},
        before_request=_only_from_here,
        openapi_config=OpenAPIConfig(title="Emulator control", version="1"),
        logging_config=None,
    )


class ControlServer:
    """Serves the API on a listening socket inside the running event loop."""

    def __init__(self, farm: Farm, listening: socket.socket) -> None:
        self._listening = listening
        self._server = _QuietServer(
            uvicorn.Config(
                build_control(farm),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
            )
        )

    @property
    def url(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"http://{host}:{port}"

    async def wait_until_up(self) -> None:
        """Requests are answered."""
        await self._server.up.wait()

    async def run(self) -> None:
        """Serve until told to stop."""
        await self._server.serve(sockets=[self._listening])

    def stop(self) -> None:
        """`run` returns soon."""
        self._server.should_exit = True


class _QuietServer(uvicorn.Server):
    """Leaves the signals to whoever owns the process, and tells when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
