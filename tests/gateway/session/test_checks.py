"""Who may ask for a session: origins and tokens, whatever a client writes into its request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.session.checks import origin_allowed, refusal
from tests.gateway.session.requests import request

TOKENS = ["s3cret", "other-tökén"]
ANYWHERE = ["*"]


def status(
    *headers: tuple[str, str],
    query: str = "",
    tokens: list[str] | None = None,
    allowed_origins: list[str] | None = None,
) -> int | None:
    refused = refusal(
        request(*headers, query=query),
        tokens=TOKENS if tokens is None else tokens,
        allowed_origins=ANYWHERE if allowed_origins is None else allowed_origins,
    )
    return None if refused is None else refused[0]


@pytest.mark.parametrize(
    ("origin", "allowed", "expected"),
    [
        ("https://app.example", ["*"], True),
        ("https://app.example", ["https://app.example"], True),
        ("HTTPS://App.Example", ["https://app.example"], True),
        ("https://app.example", ["https://APP.example/"], True),
        ("https://app.example", ["https://other.example", "https://app.example"], True),
        ("http://app.example", ["https://app.example"], False),
        ("https://app.example:8443", ["https://app.example"], False),
        ("https://app.example.evil", ["https://app.example"], False),
        ("null", ["https://app.example"], False),
        ("", ["https://app.example"], False),
        ("https://app.example", [], False),
    ],
)
def test_an_origin_has_to_be_listed(origin: str, allowed: list[str], expected: bool) -> None:
    assert origin_allowed(origin, allowed) is expected
    assert status(("origin", origin), tokens=[], allowed_origins=allowed) == (None if expected else 403)


def test_a_client_without_an_origin_is_no_browser() -> None:
    assert status(tokens=[], allowed_origins=["https://app.example"]) is None


@pytest.mark.parametrize(
    "authorization", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret ", "Bearer s3cret "]
)
def test_a_token_in_the_header_opens(authorization: str) -> None:
    assert status(("authorization", authorization)) is None


@pytest.mark.parametrize(
    "query", ["token=s3cret", "a=b&token=s3cret", "token=wrong&token=s3cret", "token=s3%63ret"]
)
def test_a_token_in_the_query_opens(query: str) -> None:
    assert status(query=query) is None


def test_each_of_the_tokens_opens_beyond_ascii_too() -> None:
    assert status(query="token=other-t%C3%B6k%C3%A9n") is None


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], ""),
        ([("authorization", "Bearer wrong")], ""),
        ([("authorization", "Bearer")], ""),
        ([("authorization", "Basic s3cret")], ""),
        ([("authorization", "s3cret")], ""),
        ([("authorization", "Bearer s3cre")], ""),
        ([("authorization", "Bearer s3cret, s3cret")], ""),
        ([], "token="),
        ([], "token"),
        ([], "Token=s3cret"),
        ([], "token=s3cretx"),
        ([], "token=%00%ff%fe"),
        ([], "token=%zz&&&==&"),
        ([], "&".join(f"a{number}=1" for number in range(500)) + "&token=s3cret"),
    ],
)
def test_anything_else_needs_a_token(headers: list[tuple[str, str]], query: str) -> None:
    assert status(*headers, query=query) == 401


def test_a_query_that_is_too_long_to_read_takes_nothing_from_the_header() -> None:
    assert status(("authorization", "Bearer s3cret"), query="&".join("a=1" for _ in range(500))) is None


def test_without_tokens_nobody_needs_one() -> None:
    assert status(query="&" * 1000, tokens=[]) is None


def test_an_origin_that_is_not_allowed_is_told_before_a_missing_token() -> None:
    assert status(("origin", "https://evil.example"), allowed_origins=["https://app.example"]) == 403


def test_what_is_told_names_no_token() -> None:
    refused = refusal(request(query="token=wrong"), tokens=TOKENS, allowed_origins=ANYWHERE)
    assert refused is not None
    assert not any(token in refused[1] for token in [*TOKENS, "wrong"])


@given(st.text(st.characters(min_codepoint=1, max_codepoint=255)), st.text(st.characters(max_codepoint=255)))
def test_no_request_gets_past_or_breaks_the_check(query: str, authorization: str) -> None:
    assert status(("authorization", authorization), query=query, tokens=["a-long-enough-token"]) == 401
