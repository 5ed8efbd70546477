"""A client's upgrade request, for tests."""

from __future__ import annotations

from gateway.session.downstream import OpeningRequest


def request(
    *headers: tuple[str, str],
    client_host: str = "192.0.2.7",
    query: str = "",
    raw_path: str = "/v1/stream",
    scheme: str = "http",
) -> OpeningRequest:
    """With `headers` after a host and the handshake's own, names in lower case as a door gives them."""
    given = [
        ("host", "gateway.example:9000"),
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw=="),
        *headers,
    ]
    return OpeningRequest(
        raw_path=raw_path,
        query=query,
        headers=tuple((name.lower().encode(), value.encode()) for name, value in given),
        client_host=client_host,
        scheme=scheme,
    )
