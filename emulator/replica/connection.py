"""One TCP connection of a replica: HTTP with keep-alive on the health routes, until a request asks for a
WebSocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import h11

from emulator.faults import Blackhole, Flaky, HealthHang, SlowAccept, SlowDrip, Warming
from emulator.faults.fault import Draw, Point
from emulator.faults.flaky import health_fault
from emulator.faults.health import MOVED_PATH
from emulator.replica import health, upgrade
from emulator.replica.board import Armed
from emulator.replica.exchange import Exchange
from emulator.replica.premises import Premises
from emulator.replica.spec import HEALTH_PATHS
from emulator.replica.wire import Wire

IDLE_SECONDS = 75.0
"""How long a connection may stay without a request."""


async def serve(premises: Premises, wire: Wire, number: int) -> None:
    """The connection is over. `number` is the replica's count of it."""
    premises.record("connection_opened", connection=number, detail={"peer": wire.peer})
    try:
        await Connection(Exchange(premises, wire, number)).run()
        await wire.finish()
    finally:
        premises.record("connection_closed", connection=number)


class Connection:
    """Reads requests and answers them, one after the other."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._premises = exchange.premises
        self._wire = exchange.wire
        self._number = exchange.number
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Return when either side is done with the connection."""
        if not await self._exchange.until_awake() or not await self._suffer_connect():
            return
        while True:
            try:
                request = await self._next_request()
            except h11.RemoteProtocolError as error:
                await self._answer_error(error)
                return
            if request is None:
                return
            with self._premises.at_work():
                if not await self._exchange.until_awake():
                    return
                if upgrade.is_wanted(request):
                    await upgrade.Upgrade(self._exchange, self._http, request).run()
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

    # Faults

    async def _suffer_connect(self) -> bool:
        """Whether the client is still there once it is listened to."""
        draw = self._premises.draws_of(f"connection:{self._number}")
        asked: set[Armed] = set()
        while struck := self._strike(Point.CONNECT, draw, asked):
            for entry in struck:
                match entry.fault:
                    case Blackhole():
                        is_there = await self._exchange.outlast(entry, None)
                    case SlowAccept(seconds=seconds):
                        is_there = await self._exchange.outlast(entry, seconds)
                    case _:
                        continue
                if not is_there:
                    return False
        return True

    async def _suffer_health(self, draw: Draw) -> list[Armed] | None:
        """The faults that struck this request, once those that only take time have done so; None when the
        client has gone meanwhile."""
        found: list[Armed] = []
        asked: set[Armed] = set()
        fresh = [*self._strike(Point.HEALTH, draw, asked), *self._flaky(draw)]
        while fresh:
            for entry in fresh:
                found.append(entry)
                hang = entry.fault
                if isinstance(hang, HealthHang) and not await self._exchange.outlast(entry, hang.seconds):
                    return None
            # What was armed meanwhile strikes this request too.
            fresh = list(self._strike(Point.HEALTH, draw, asked))
        return found

    def _strike(self, point: Point, draw: Draw, asked: set[Armed]) -> tuple[Armed, ...]:
        struck = self._premises.board.strike(point, self._premises.now(), draw, asked)
        for entry in struck:
            self._premises.strike_counted(entry.fault.name, self._number, None)
        return struck

    def _flaky(self, draw: Draw) -> Iterator[Armed]:
        armed = self._premises.board.armed.get(Flaky.name)
        if armed is None or not isinstance(armed.fault, Flaky) or not armed.is_live(self._premises.now()):
            return
        if (own := health_fault(armed.fault, draw)) is not None:
            self._premises.strike_counted(own.name, self._number, None)
            yield Armed(own, armed.armed_at, origin=armed)

    # Plain requests

    async def _answer(self, request: h11.Request) -> bool:
        """Whether the connection may go on."""
        path = request.target.partition(b"?")[0].decode("ascii", "backslashreplace")
        if request.method not in (b"GET", b"HEAD"):
            return await self._respond(request, path, health.answer_of(405, {"detail": "Method Not Allowed"}))
        if path == MOVED_PATH:
            return await self._respond(request, path, health.answer_of(200, self._body_of("/health")))
        if path not in HEALTH_PATHS:
            return await self._respond(request, path, health.answer_of(404, {"detail": "Not Found"}))
        self._premises.counters.health_total += 1
        draw = self._premises.draws_of(f"health:{self._premises.counters.health_total}")
        struck = await self._suffer_health(draw)
        if struck is None:
            self._note(request, path, None)
            return False
        warming = any(isinstance(entry.fault, Warming) for entry in struck)
        answer = health.answer_of(200, self._body_of(path, warming=warming))
        for entry in struck:
            answer = health.answer_under(entry.fault, answer)
        drips = [entry for entry in struck if isinstance(entry.fault, SlowDrip)]
        return await self._respond(request, path, answer, drips[-1] if drips else None)

    def _body_of(self, path: str, *, warming: bool = False) -> dict[str, Any]:
        return health.body_of(
            path,
            warming=warming,
            sessions=self._premises.counters.sessions,
            capacity=self._premises.capacity,
            at=datetime.now(UTC).isoformat(),
        )

    async def _respond(
        self, request: h11.Request, path: str, answer: health.Answer, drip: Armed | None = None
    ) -> bool:
        parts = self._parts_of(answer, with_body=request.method != b"HEAD")
        self._note(request, path, answer.status)
        if drip is not None and isinstance(drip.fault, SlowDrip):
            whole = b"".join(parts)
            seconds, pieces = drip.fault.seconds, drip.fault.pieces
            return await self._exchange.drip(whole, drip, seconds=seconds, pieces=pieces)
        return await self._exchange.write(parts)

    def _parts_of(self, answer: health.Answer, *, with_body: bool) -> Iterator[bytes]:
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(answer.size_bytes)),
            *answer.headers,
        ]
        yield self._http.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        if with_body:
            for part in answer.parts():
                yield self._http.send(h11.Data(data=part)) or b""
        yield self._http.send(h11.EndOfMessage()) or b""

    async def _answer_error(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("Content-Length", "0"), ("Connection", "close")]
            head = self._http.send(h11.Response(status_code=error.error_status_hint, headers=headers))
            await self._exchange.write([(head or b"") + (self._http.send(h11.EndOfMessage()) or b"")])

    def _note(self, request: h11.Request, path: str, status: int | None) -> None:
        detail = {"method": request.method.decode("ascii"), "path": path, "status": status}
        self._premises.record("http_answered", connection=self._number, detail=detail)
