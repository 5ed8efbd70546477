from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity import Affinity


def key(
    spelt: str, *, client_ip: str = "", query: str = "", headers: list[tuple[bytes, bytes]] | None = None
) -> str | None:
    return Affinity.parse(spelt).key_of(client_ip=client_ip, query=query, headers=headers or [])


@pytest.mark.parametrize(
    "spelt",
    [
        "", "None", "none:", "none:x", "client_ip:x", "query", "query:", "header:", "header:a b", "header:ä",
        "cookie:", "cookie:a=b", "cookie:a;b", "init", "init:", "init:preset", "ip", "room", "query :room",
    ],
)  # fmt: skip
def test_what_is_no_affinity_is_a_value_error_that_names_the_forms(spelt: str) -> None:
    with pytest.raises(ValueError, match="client_ip, query:NAME, header:NAME, cookie:NAME or init:client_id"):
        Affinity.parse(spelt)


@pytest.mark.parametrize("spelt", ["none", "client_ip", "query:room", "header:X-Room", "cookie:sid"])
def test_only_init_has_to_wait_for_a_message(spelt: str) -> None:
    assert not Affinity.parse(spelt).needs_init
    assert Affinity.parse("init:client_id").needs_init


def test_none_gives_no_key() -> None:
    assert key("none", client_ip="192.0.2.1", query="none=1") is None


def test_client_ip_is_the_address_that_it_is_given() -> None:
    assert key("client_ip", client_ip="192.0.2.1") == "192.0.2.1"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("room=7", "7"),
        ("a=1&room=7&room=8", "7"),
        ("room=a%20b+c", "a b c"),
        ("r%6Fom=7", "7"),
        ("room=%C3%BC", "ü"),
        ("room=a=b", "a=b"),
        ("room=", None),
        ("room", None),
        ("Room=7", None),
        ("", None),
    ],
)
def test_a_query_parameter_is_decoded_and_the_first_counts(query: str, expected: str | None) -> None:
    assert key("query:room", query=query) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"x-room", b"7")], "7"),
        ([(b"x-room", b" 7 "), (b"x-room", b"8")], "7"),
        ([(b"x-room", b"\xfc")], "ü"),
        ([(b"x-room", b"")], None),
        ([(b"x-rooms", b"7")], None),
        ([], None),
    ],
)
def test_a_header_is_found_in_any_case_of_its_setting(
    headers: list[tuple[bytes, bytes]], expected: str | None
) -> None:
    assert key("header:X-Room", headers=headers) == expected
    assert key("header:x-room", headers=headers) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"cookie", b"sid=7")], "7"),
        ([(b"cookie", b"a=1; sid=7; sid=8")], "7"),
        ([(b"cookie", b"a=1;sid=7")], "7"),
        ([(b"cookie", b'sid="7"')], "7"),
        ([(b"cookie", b"sid=a=b")], "a=b"),
        ([(b"cookie", b"a=1"), (b"cookie", b"sid=7")], "7"),
        ([(b"cookie", b"xsid=7; SID=8; sid")], None),
        ([(b"cookie", b"sid=")], None),
        ([(b"x-cookie", b"sid=7")], None),
        ([], None),
    ],
)
def test_a_cookie_is_found_among_others(headers: list[tuple[bytes, bytes]], expected: str | None) -> None:
    assert key("cookie:sid", headers=headers) == expected


def test_an_init_key_is_in_no_part_of_the_request() -> None:
    affinity = Affinity.parse("init:client_id")
    assert affinity.key_of(client_ip="192.0.2.1", query="client_id=x", headers=[]) is None


@given(
    st.sampled_from(["client_ip", "query:room", "header:x", "cookie:c", "init:client_id", "none"]),
    st.text(max_size=30),
    st.lists(st.tuples(st.sampled_from([b"x", b"cookie"]), st.binary(max_size=20)), max_size=3),
)
def test_no_request_is_too_odd(spelt: str, query: str, headers: list[tuple[bytes, bytes]]) -> None:
    found = Affinity.parse(spelt).key_of(client_ip="192.0.2.1", query=query, headers=headers)
    assert found is None or found
