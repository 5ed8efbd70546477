"""What of a client's request the replica sees, and whom the gateway believes."""

from __future__ import annotations

import ipaddress

import pytest

from gateway.session.downstream import OpeningRequest
from gateway.session.forwarding import Network, client_address, is_trusted, upstream_headers
from tests.gateway.session.requests import request

TRUSTED: list[Network] = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32")]


def forwarded(
    asked: OpeningRequest, proxies: list[Network] | None = None, subprotocols: list[str] | None = None
) -> list[tuple[str, str]]:
    """The client's headers as forwarded, without those that are the gateway's own."""
    headers = upstream_headers(asked, request_id="id-1", proxies=proxies or [], subprotocols=subprotocols)
    return [pair for pair in headers if not pair[0].startswith("X-")]


def own(asked: OpeningRequest, proxies: list[Network] | None = None) -> dict[str, str]:
    """The gateway's own headers, each of which may be there once."""
    pairs = upstream_headers(asked, request_id="id-1", proxies=proxies or [])
    names = [name for name, _ in pairs if name.startswith("X-")]
    assert len(set(names)) == len(names)
    return {name: value for name, value in pairs if name.startswith("X-")}


def test_what_the_client_says_arrives_in_order_and_as_often_as_it_said_it() -> None:
    said = [
        ("origin", "https://app.example"),
        ("authorization", "Bearer t"),
        ("cookie", "a=1"),
        ("x-custom", "1"),
        ("traceparent", "00-aa-bb-01"),
        ("x-custom", "2"),
        ("cookie", "b=2"),
        ("accept-language", "de"),
    ]
    headers = upstream_headers(request(*said), request_id="id-1", proxies=[])
    assert headers[: len(said)] == said


@pytest.mark.parametrize(
    "name",
    [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
        "trailer", "transfer-encoding", "upgrade", "http2-settings", "host", "content-length",
        "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-accept",
    ],
)  # fmt: skip
def test_what_concerns_one_connection_alone_stays_there(name: str) -> None:
    assert forwarded(request((name, "of-this-hop"))) == []


@pytest.mark.parametrize("connection", ["Upgrade, X-Hop", "upgrade,x-hop", "X-HOP", " x-hop ,Upgrade", ","])
def test_what_the_connection_header_names_stays_there_too(connection: str) -> None:
    asked = request(("connection", connection), ("x-hop", "1"), ("x-kept", "2"))
    headers = upstream_headers(asked, request_id="id-1", proxies=[])
    assert ("x-kept", "2") in headers
    assert (("x-hop", "1") in headers) is (connection == ",")


def test_the_subprotocols_are_forwarded_as_they_came() -> None:
    asked = request(("sec-websocket-protocol", "a, b"), ("sec-websocket-protocol", "c"))
    assert forwarded(asked) == [("Sec-WebSocket-Protocol", "a, b"), ("Sec-WebSocket-Protocol", "c")]


@pytest.mark.parametrize(("promised", "expected"), [(["b"], [("Sec-WebSocket-Protocol", "b")]), ([], [])])
def test_a_promised_subprotocol_replaces_the_offer(
    promised: list[str], expected: list[tuple[str, str]]
) -> None:
    assert forwarded(request(("sec-websocket-protocol", "a, b")), subprotocols=promised) == expected


def test_a_stranger_is_not_believed() -> None:
    asked = request(
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
    )
    assert own(asked, TRUSTED) == {
        "X-Forwarded-For": "192.0.2.7",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "gateway.example:9000",
        "X-Request-Id": "id-1",
    }


def test_a_trusted_proxy_is_believed_and_added() -> None:
    asked = request(
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "198.51.100.2, 10.0.0.8"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "app.example"),
        client_host="10.1.2.3",
    )
    assert own(asked, TRUSTED) == {
        "X-Forwarded-For": "203.0.113.9, 198.51.100.2, 10.0.0.8, 10.1.2.3",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "app.example",
        "X-Request-Id": "id-1",
    }


def test_a_trusted_proxy_that_says_nothing_is_a_client_like_another() -> None:
    assert own(request(client_host="10.1.2.3", scheme="https"), TRUSTED) == {
        "X-Forwarded-For": "10.1.2.3",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "gateway.example:9000",
        "X-Request-Id": "id-1",
    }


def test_a_request_without_a_host_has_no_forwarded_one() -> None:
    asked = OpeningRequest(raw_path="/", query="", headers=(), client_host="192.0.2.7", scheme="http")
    assert own(asked) == {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "http", "X-Request-Id": "id-1"}


def test_a_clients_own_request_id_is_not_said_twice() -> None:
    assert own(request(("x-request-id", "mine")))["X-Request-Id"] == "id-1"


@pytest.mark.parametrize("value", ["grüße".encode(), "grüße".encode("latin-1"), b"plain"])
def test_a_header_beyond_ascii_arrives(value: bytes) -> None:
    asked = OpeningRequest(
        raw_path="/", query="", headers=((b"x-note", value),), client_host="192.0.2.7", scheme="http"
    )
    name, text = upstream_headers(asked, request_id="id-1", proxies=[])[0]
    assert name == "x-note"
    assert text in ("grüße", "plain")


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("10.0.0.1", True),
        ("11.0.0.1", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("::1", False),
        ("", False),
        ("unknown", False),
        ("10.0.0.1:80", False),
    ],
)
def test_only_listed_networks_are_trusted(address: str, trusted: bool) -> None:
    assert is_trusted(address, TRUSTED) is trusted
    assert not is_trusted(address, [])


@pytest.mark.parametrize(
    ("peer", "chain", "address"),
    [
        ("192.0.2.7", None, "192.0.2.7"),
        ("192.0.2.7", "203.0.113.9", "192.0.2.7"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.2", "198.51.100.2"),
        ("10.0.0.1", "203.0.113.9, 10.9.9.9", "203.0.113.9"),
        ("10.0.0.1", "10.2.2.2, 10.9.9.9", "10.2.2.2"),
        ("10.0.0.1", "unknown", "unknown"),
        ("10.0.0.1", " , ", "10.0.0.1"),
        ("2001:db8::1", "2001:db9::7", "2001:db9::7"),
        ("2001:db9::7", "203.0.113.9", "2001:db9::7"),
    ],
)
def test_the_client_is_the_nearest_hop_that_is_no_trusted_proxy(
    peer: str, chain: str | None, address: str
) -> None:
    headers = [] if chain is None else [("x-forwarded-for", chain)]
    assert client_address(request(*headers, client_host=peer), TRUSTED) == address
