"""What is read from a client's upgrade request."""

from __future__ import annotations

import pytest

from tests.gateway.session.requests import request


@pytest.mark.parametrize(
    ("offers", "subprotocols"),
    [
        ([], ()),
        ([""], ()),
        (["a"], ("a",)),
        (["a, b"], ("a", "b")),
        (["a,b ,, c,"], ("a", "b", "c")),
        (["a", "b, c"], ("a", "b", "c")),
        ([" v1.stream+json "], ("v1.stream+json",)),
    ],
)
def test_every_subprotocol_is_read_in_the_clients_order(
    offers: list[str], subprotocols: tuple[str, ...]
) -> None:
    assert request(*(("sec-websocket-protocol", offer) for offer in offers)).subprotocols == subprotocols


def test_a_header_is_its_first_value() -> None:
    asked = request(("x-one", "1"), ("x-one", "2"))
    assert asked.header(b"x-one") == "1"
    assert asked.header(b"x-two") is None
