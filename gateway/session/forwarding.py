"""PURE. What of a client's upgrade request a replica sees, and what the proxy says for itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from gateway.session.downstream import OpeningRequest

HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
    }
)  # fmt: skip
"""RFC 9110, section 7.6.1, and what old clients send beside it."""

OWN = frozenset(
    {
        b"host",
        b"content-length",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-request-id",
    }
)
"""Said anew by this gateway."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_trusted(address: str, proxies: Sequence[Network]) -> bool:
    """Whether `address` is one of the proxies whose `X-Forwarded-*` we believe; not for what is no IP
    address.
    """
    if not proxies:
        return False
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed.version == network.version and parsed in network for network in proxies)


def client_address(request: OpeningRequest, proxies: Sequence[Network]) -> str:
    """The client's own address: the last entry of `X-Forwarded-For` that is not a trusted proxy, else the TCP
    peer.
    """
    address = request.client_host
    hops = [hop.strip() for hop in _joined(request, b"x-forwarded-for").split(",") if hop.strip()]
    while hops and is_trusted(address, proxies):
        address = hops.pop()
    return address


def upstream_headers(
    request: OpeningRequest,
    *,
    request_id: str,
    proxies: Sequence[Network],
    subprotocols: Sequence[str] | None = None,
) -> list[tuple[str, str]]:
    """Headers for the replica's upgrade, in the client's order, then ours.

    `subprotocols` replaces what the client offers, where one was already promised to it.
    """
    named = {
        token.strip().lower().encode("latin-1")
        for value in (value for key, value in request.headers if key == b"connection")
        for token in value.decode("latin-1").split(",")
    }
    forwarded = [
        (_text(name), _text(value))
        for name, value in request.headers
        if name not in HOP_BY_HOP and name not in OWN and name not in named and not _is_handshake(name)
    ]
    if subprotocols is None:
        forwarded += [
            ("Sec-WebSocket-Protocol", _text(value))
            for name, value in request.headers
            if name == b"sec-websocket-protocol"
        ]
    elif subprotocols:
        forwarded.append(("Sec-WebSocket-Protocol", ", ".join(subprotocols)))
    return [*forwarded, *_forwarded_for(request, proxies), ("X-Request-Id", request_id)]


def _forwarded_for(request: OpeningRequest, proxies: Sequence[Network]) -> Iterable[tuple[str, str]]:
    believed = is_trusted(request.client_host, proxies)
    chain = _joined(request, b"x-forwarded-for") if believed else ""
    proto = request.header(b"x-forwarded-proto") if believed else None
    host = request.header(b"x-forwarded-host") if believed else None
    yield "X-Forwarded-For", f"{chain}, {request.client_host}" if chain else request.client_host
    yield "X-Forwarded-Proto", proto or request.scheme
    if host := host or request.header(b"host"):
        yield "X-Forwarded-Host", host


def _is_handshake(name: bytes) -> bool:
    return name.startswith(b"sec-websocket-")


def _joined(request: OpeningRequest, name: bytes) -> str:
    return ", ".join(value.decode("latin-1") for key, value in request.headers if key == name)


def _text(value: bytes) -> str:
    # The connection encodes headers as UTF-8 again, so what is UTF-8 arrives byte for byte.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
