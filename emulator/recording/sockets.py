"""What both sides of a recording need of the `websockets` library: nothing of its own on the wire, and ends
told apart.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import struct
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, cast

from websockets.asyncio.connection import Connection
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHeader
from websockets.headers import parse_subprotocol
from websockets.http11 import Request, Response
from websockets.protocol import State

from emulator.recording.format import ABNORMAL, MAX_MESSAGE_BYTES, NO_CODE, Closed

OPEN_SECONDS = 20.0
CLOSE_SECONDS = 5.0
WRITE_LIMIT_BYTES = 65536

_LINGER_NOTHING = struct.pack("ii", 1, 0)

PLAIN: dict[str, Any] = {
    "compression": None,
    "ping_interval": None,
    "max_size": MAX_MESSAGE_BYTES,
    "write_limit": WRITE_LIMIT_BYTES,
    "close_timeout": CLOSE_SECONDS,
    "logger": logging.getLogger("emulator.recording"),
}
"""Options of both sides: no pings and no compression of our own."""

HANDSHAKE_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to one connection, and so are each side's own."""


def carried_headers(headers: Headers) -> list[tuple[str, str]]:
    """Those that mean the same on the next connection."""
    return [
        (name, value)
        for name, value in headers.raw_items()
        if name.lower() not in HANDSHAKE_HEADERS and not name.lower().startswith("sec-websocket-")
    ]


def take_over(headers: Headers, others: Iterable[tuple[str, str]]) -> None:
    """`headers` has the others, and of those names nothing else."""
    kept = list(others)
    for name in {name.lower() for name, _ in kept} | {"date", "server"}:
        if name in headers:
            del headers[name]
    for name, value in kept:
        headers[name] = value


def offered_subprotocols(request: Request) -> list[str]:
    """In the client's order; none where the header cannot be read."""
    offered: list[str] = []
    for value in request.headers.get_all("Sec-WebSocket-Protocol"):
        with contextlib.suppress(InvalidHeader):
            offered.extend(parse_subprotocol(value))
    return offered


def wants_websocket(request: Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def response(status: int, headers: list[tuple[str, str]], body: bytes) -> Response:
    """An answer that ends the connection."""
    told = Headers()
    for name, value in headers:
        told[name] = value
    told["Content-Length"] = str(len(body))
    told["Connection"] = "close"
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return Response(status, phrase, told, body)


def json_response(status: int, body: Any) -> Response:
    """The same, of a JSON value; a text stays as it is."""
    is_text = isinstance(body, str)
    text = body if is_text else json.dumps(body, separators=(",", ":"))
    kind = "text/plain; charset=utf-8" if is_text else "application/json"
    return response(status, [("Content-Type", kind)], text.encode())


def reset(connection: Connection) -> None:
    """The other side gets a reset: no close frame, nothing more."""
    raw: socket.socket | None = connection.transport.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
    connection.transport.abort()


async def end(connection: Connection, how: Closed) -> None:
    """The connection is over, in that way."""
    if how.code == ABNORMAL:
        reset(connection)
    elif how.code == NO_CODE:
        # A close frame without a code, which the library can send and its signature does not say.
        await connection.close(cast(int, None))
    else:
        await connection.close(how.code, how.reason)


def end_of(connection: Connection) -> Closed | None:
    """How the other side ended the connection; None where we did."""
    protocol = connection.protocol
    if protocol.close_sent is not None and not protocol.close_rcvd_then_sent:
        return None
    if protocol.close_rcvd is None:
        return Closed(ABNORMAL)
    return Closed(protocol.close_rcvd.code, protocol.close_rcvd.reason)


def is_open(connection: Connection) -> bool:
    return connection.protocol.state is State.OPEN
