"""From an upgrade request to an open session, or to a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import h11
from websockets.datastructures import Headers
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from emulator.faults import (
    Flaky,
    GluedFirstFrame,
    Kill,
    Pause,
    Reset,
    Restart,
    SlowUpgrade,
    Stall,
    UpgradeStatus,
)
from emulator.faults.fault import Draw, Fault, Point
from emulator.faults.flaky import session_plan
from emulator.protocol.messages import QueueStatus, encode, type_of
from emulator.replica.board import Armed, Encounter
from emulator.replica.conversation import Conversation
from emulator.replica.exchange import Exchange
from emulator.replica.frames import ReplicaProtocol
from emulator.replica.spec import MAX_MESSAGE_BYTES, SESSION_PATHS

FIRST_MESSAGE = QueueStatus(position=0, queue_depth=0)
"""What a replica says that speaks first."""


def is_wanted(request: h11.Request) -> bool:
    """Whether the request asks for a WebSocket."""
    return any(name == b"upgrade" and value.lower() == b"websocket" for name, value in request.headers)


class Upgrade:
    """One upgrade request, which opens a session or does not."""

    def __init__(self, exchange: Exchange, http: h11.Connection, request: h11.Request) -> None:
        self._exchange = exchange
        self._premises = exchange.premises
        self._http = http
        self._request = request
        counters = self._premises.counters
        counters.sessions_total += 1
        self._session = counters.sessions_total
        self._slow: Armed | None = None
        self._speaks_first = False

    async def run(self) -> None:
        """The session is over, or there was none."""
        premises = self._premises
        path = self._note_request()
        draw = premises.draws_of(str(self._session))
        encounter = Encounter(premises.board, draw, self._session, self._plan(draw))
        await premises.pass_by(Point.UPGRADE, self._exchange.number, self._session)
        if not await self._suffer_all(encounter):
            return
        protocol = ReplicaProtocol(max_size=MAX_MESSAGE_BYTES, select_subprotocol=self._selector())
        if not await self._shake_hands(protocol, path):
            return
        self._exchange.wire.in_session = True
        conversation = Conversation(self._exchange, protocol, encounter, session=self._session)
        await conversation.run(self._http.trailing_data[0])

    def _note_request(self) -> str:
        target = self._request.target.decode("ascii", "backslashreplace")
        path, _, query = target.partition("?")
        headers = [
            [name.decode("latin-1"), value.decode("latin-1")]
            for name, value in self._request.headers.raw_items()
        ]
        detail = {
            "method": self._request.method.decode("ascii"),
            "path": path,
            "query": query,
            "headers": headers,
        }
        self._record("upgrade_received", detail)
        return path

    # Faults

    def _plan(self, draw: Draw) -> tuple[Armed, ...]:
        """What a flaky replica has in store for this session."""
        premises = self._premises
        armed = premises.board.armed.get(Flaky.name)
        if armed is None or not isinstance(armed.fault, Flaky) or not armed.strikes(premises.now(), draw):
            return ()
        plan = session_plan(armed.fault, draw)
        self._record("fault_struck", {"fault": Flaky.name, "way": plan.way})
        if plan.refuse_seconds:
            premises.refuse_until = premises.now() + plan.refuse_seconds
            premises.changed()
        return tuple(Armed(fault, armed.armed_at, origin=armed) for fault in plan.faults)

    async def _suffer_all(self, encounter: Encounter) -> bool:
        """Whether the handshake goes on."""
        met: list[Armed] = []
        while (entry := encounter.next_strike(Point.UPGRADE, self._premises.now(), met=met)) is not None:
            met.append(entry)
            self._record("fault_struck", {"fault": entry.fault.name})
            if not await self._suffer(entry):
                return False
        return True

    async def _suffer(self, entry: Armed) -> bool:
        match entry.fault:
            case Kill() | Pause() | Restart() as fault:
                await self._premises.carry_out(fault)
            case Reset():
                self._exchange.wire.reset()
                return False
            case Stall(seconds=seconds, then=then):
                is_there = await self._exchange.outlast(entry, seconds)
                if is_there and then == "reset" and self._stands(entry):
                    self._exchange.wire.reset()
                    return False
                return is_there
            case UpgradeStatus() as refusal:
                await self._refuse(refusal)
                return False
            case SlowUpgrade():
                self._slow = entry
            case GluedFirstFrame():
                self._speaks_first = True
            case _:
                pass
        return True

    def _stands(self, entry: Armed) -> bool:
        return self._premises.board.stands(entry, self._premises.now())

    # Answers

    async def _refuse(self, fault: UpgradeStatus) -> None:
        body = fault.body.encode(errors="surrogatepass")
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        if 300 <= fault.status < 400:
            headers.append(("Location", fault.location))
        if fault.retry_after_seconds is not None:
            headers.append(("Retry-After", str(fault.retry_after_seconds)))
        self._record("upgrade_answered", {"status": fault.status, "subprotocol": None})
        head = self._http.send(h11.Response(status_code=fault.status, headers=headers)) or b""
        data = self._http.send(h11.Data(data=body)) or b""
        await self._exchange.write([head + data + (self._http.send(h11.EndOfMessage()) or b"")])

    async def _shake_hands(self, protocol: ReplicaProtocol, path: str) -> bool:
        """Whether there is a session now."""
        handshake = _handshake_of(self._request)
        protocol.receive_data(handshake.serialize())
        protocol.events_received()
        if path in SESSION_PATHS:
            response = protocol.accept(handshake)
        else:
            there = " and ".join(SESSION_PATHS)
            response = protocol.reject(404, f"no sessions on this path: they are at {there}\n")
        protocol.send_response(response)
        self._record(
            "upgrade_answered", {"status": response.status_code, "subprotocol": protocol.subprotocol}
        )
        is_open = response.status_code == 101
        if is_open and self._speaks_first:
            first = encode(FIRST_MESSAGE)
            protocol.send_text(first)
            self._record("message_sent", {"type": type_of(FIRST_MESSAGE), "size_bytes": len(first)})
        # In one piece, so that what stands together comes together.
        return await self._write(b"".join(protocol.parts_to_send())) and is_open

    async def _write(self, answer: bytes) -> bool:
        slow: Fault | None = self._slow.fault if self._slow is not None else None
        if self._slow is None or not isinstance(slow, SlowUpgrade):
            return await self._exchange.write([answer])
        return await self._exchange.drip(answer, self._slow, seconds=slow.seconds, pieces=slow.pieces)

    def _selector(self) -> Callable[[ServerProtocol, Sequence[Subprotocol]], Subprotocol | None]:
        spoken = self._premises.spec.subprotocols

        def select(_protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
            return next((Subprotocol(name) for name in spoken if name in set(offered)), None)

        return select

    def _record(self, kind: str, detail: Mapping[str, object]) -> None:
        self._premises.record(kind, connection=self._exchange.number, session=self._session, detail=detail)


def _handshake_of(request: h11.Request) -> Handshake:
    headers = Headers()
    for name, value in request.headers.raw_items():
        headers[name.decode("latin-1")] = value.decode("latin-1")
    return Handshake(
        path=request.target.decode("ascii"), headers=headers, method=request.method.decode("ascii")
    )
