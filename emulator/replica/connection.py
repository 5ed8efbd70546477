"""One TCP connection of a replica: HTTP with keep-alive on the health routes, until a request asks for a
WebSocket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import h11
from websockets.datastructures import Headers
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from emulator.faults import Flaky, HealthHang, HealthStatus, Reset, Stall, Warming
from emulator.faults.fault import Fault, Point
from emulator.faults.flaky import Plan, health_fault, session_plan
from emulator.faults.process import Kill
from emulator.replica import health
from emulator.replica.board import Encounter
from emulator.replica.conversation import Conversation
from emulator.replica.frames import ReplicaProtocol
from emulator.replica.premises import Premises
from emulator.replica.spec import HEALTH_PATHS, MAX_MESSAGE_BYTES, SESSION_PATHS
from emulator.replica.wire import Wire

IDLE_SECONDS = 75.0
"""How long a connection may stay without a request."""
HANDSHAKE_SECONDS = 10.0
"""How long a client may take to read an answer."""


async def serve(premises: Premises, wire: Wire, number: int) -> None:
    """The connection is over. `number` is the replica's count of it."""
    premises.record("connection_opened", connection=number, detail={"peer": wire.peer})
    try:
        await Connection(premises, wire, number).run()
        await wire.finish()
    finally:
        premises.record("connection_closed", connection=number)


class Connection:
    """Reads requests and answers them, one after the other."""

    def __init__(self, premises: Premises, wire: Wire, number: int) -> None:
        self._premises = premises
        self._wire = wire
        self._number = number
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Return when either side is done with the connection."""
        while True:
            try:
                request = await self._next_request()
            except h11.RemoteProtocolError as error:
                await self._answer_error(error)
                return
            if request is None:
                return
            if _wants_websocket(request):
                await self._upgrade(request)
                return
            if not await self._answer(request) or self._premises.closing:
                return
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """The next request with its body read and thrown away; None at the end of the connection."""
        request: h11.Request | None = None
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return None
            elif event is h11.NEED_DATA:
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        self._http.receive_data(await self._wire.read())
                except TimeoutError:
                    return None

    # Plain requests

    async def _answer(self, request: h11.Request) -> bool:
        """Whether the connection may go on."""
        path = request.target.partition(b"?")[0].decode("ascii", "backslashreplace")
        if request.method not in (b"GET", b"HEAD"):
            return await self._respond(request, path, 405, {"detail": "Method Not Allowed"})
        if path not in HEALTH_PATHS:
            return await self._respond(request, path, 404, {"detail": "Not Found"})
        status, body = 200, self._body_of(path, warming=False)
        for fault in self._strike_health():
            self._premises.strike_counted(fault.name, self._number, None)
            match fault:
                case HealthHang(seconds=seconds):
                    if not await self._hang(seconds):
                        self._note(request, path, None)
                        return False
                case HealthStatus(status=status):
                    body = {"status": "error", "detail": "told to by a fault"}
                case Warming():
                    body = self._body_of(path, warming=True)
                case _:
                    pass
        return await self._respond(request, path, status, body)

    def _strike_health(self) -> Sequence[Fault]:
        premises = self._premises
        premises.counters.health_total += 1
        draw = premises.draws_of(f"health:{premises.counters.health_total}")
        now = premises.now()
        struck = list(premises.board.strike_health(now, draw))
        flaky = premises.board.armed.get(Flaky.name)
        if flaky is not None and flaky.is_live(now) and isinstance(flaky.fault, Flaky):
            own = health_fault(flaky.fault, draw)
            if own is not None:
                struck.append(own)
        return struck

    async def _hang(self, seconds: float | None) -> bool:
        """Whether the client is still there after `seconds` of silence."""
        try:
            async with asyncio.timeout(seconds):
                while received := await self._wire.read():
                    self._http.receive_data(received)
        except TimeoutError:
            return True
        return False

    def _body_of(self, path: str, *, warming: bool) -> dict[str, Any]:
        return health.body_of(
            path,
            warming=warming,
            sessions=self._premises.counters.sessions,
            capacity=self._premises.spec.capacity,
            at=datetime.now(UTC).isoformat(),
        )

    async def _respond(self, request: h11.Request, path: str, status: int, body: dict[str, Any]) -> bool:
        text = json.dumps(body, separators=(",", ":")).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        parts = [self._http.send(h11.Response(status_code=status, headers=headers)) or b""]
        if request.method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=text)) or b"")
        parts.append(self._http.send(h11.EndOfMessage()) or b"")
        self._note(request, path, status)
        return await self._write(*parts)

    async def _answer_error(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("Content-Length", "0"), ("Connection", "close")]
            head = self._http.send(h11.Response(status_code=error.error_status_hint, headers=headers))
            await self._write(head or b"", self._http.send(h11.EndOfMessage()) or b"")

    async def _write(self, *parts: bytes) -> bool:
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._wire.write(*parts)
        except TimeoutError:
            self._wire.reset()
            return False
        return True

    def _note(self, request: h11.Request, path: str, status: int | None) -> None:
        detail = {"method": request.method.decode("ascii"), "path": path, "status": status}
        self._premises.record("http_answered", connection=self._number, detail=detail)

    # The way to a WebSocket

    async def _upgrade(self, request: h11.Request) -> None:
        premises = self._premises
        premises.counters.sessions_total += 1
        session = premises.counters.sessions_total
        path = self._note_upgrade(request, session)
        draw = premises.draws_of(str(session))
        plan = self._plan(draw, session)
        encounter = Encounter(premises.board, draw, own=plan.faults)
        if not await self._strike_upgrade(encounter, session):
            return
        protocol = ReplicaProtocol(max_size=MAX_MESSAGE_BYTES, select_subprotocol=_selector(premises))
        handshake = _handshake_of(request)
        protocol.receive_data(handshake.serialize())
        protocol.events_received()
        if path in SESSION_PATHS:
            response = protocol.accept(handshake)
        else:
            response = protocol.reject(403, "no sessions on this path\n")
        protocol.send_response(response)
        detail = {"status": response.status_code, "subprotocol": protocol.subprotocol}
        premises.record("upgrade_answered", connection=self._number, session=session, detail=detail)
        if not await self._write(*protocol.data_to_send()) or response.status_code != 101:
            return
        trailing = self._http.trailing_data[0]
        self._wire.in_session = True
        conversation = Conversation(
            premises, self._wire, protocol, encounter, connection=self._number, session=session
        )
        await conversation.run(trailing)

    def _note_upgrade(self, request: h11.Request, session: int) -> str:
        target = request.target.decode("ascii", "backslashreplace")
        path, _, query = target.partition("?")
        headers = [
            [name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers.raw_items()
        ]
        detail = {
            "method": request.method.decode("ascii"),
            "path": path,
            "query": query,
            "headers": headers,
        }
        self._premises.record("upgrade_received", connection=self._number, session=session, detail=detail)
        return path

    def _plan(self, draw: Any, session: int) -> Plan:
        """What a flaky replica has in store for this session."""
        premises = self._premises
        armed = premises.board.armed.get(Flaky.name)
        if armed is None or not isinstance(armed.fault, Flaky) or not armed.strikes(premises.now(), draw):
            return Plan("healthy")
        plan = session_plan(armed.fault, draw)
        detail = {"fault": Flaky.name, "way": plan.way}
        premises.record("fault_struck", connection=self._number, session=session, detail=detail)
        if plan.refuse_seconds:
            premises.refuse_until = premises.now() + plan.refuse_seconds
            premises.changed()
        return plan

    async def _strike_upgrade(self, encounter: Encounter, session: int) -> bool:
        """Whether the handshake goes on."""
        await self._premises.pass_by(Point.UPGRADE, self._number, session)
        for fault in encounter.strike(Point.UPGRADE, self._premises.now()):
            match fault:
                case Kill():
                    self._premises.strike_counted(fault.name, self._number, session)
                    self._premises.crash()
                    await self._hang(None)
                    return False
                case Reset():
                    self._premises.strike_counted(fault.name, self._number, session)
                    self._wire.reset()
                    return False
                case Stall(seconds=seconds, then=then):
                    self._premises.strike_counted(fault.name, self._number, session)
                    if not await self._hang(seconds):
                        return False
                    if then == "reset":
                        self._wire.reset()
                        return False
                case _:
                    pass
        return True


def _wants_websocket(request: h11.Request) -> bool:
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in request.headers)


def _handshake_of(request: h11.Request) -> Handshake:
    headers = Headers()
    for name, value in request.headers.raw_items():
        headers[name.decode("latin-1")] = value.decode("latin-1")
    return Handshake(
        path=request.target.decode("ascii"), headers=headers, method=request.method.decode("ascii")
    )


def _selector(premises: Premises) -> Any:
    def select(_protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        wanted = set(offered)
        return next((Subprotocol(name) for name in premises.spec.subprotocols if name in wanted), None)

    return select
