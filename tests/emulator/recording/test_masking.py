from __future__ import annotations

from typing import Any

import pytest

from emulator.recording.masking import (
    MASK,
    is_secret,
    masked_headers,
    masked_message,
    masked_query,
    masked_subprotocols,
)


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "Set-Cookie",
        "X-Api-Key",
        "apiKey",
        "access_token",
        "accessToken",
        "X-Amz-Signature",
        "X-Amz-Security-Token",
        "PASSWORD",
        "auth",
        "credentials",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["client_id", "prompt", "Origin", "User-Agent", "author", "monkey", "design", "keyboard", "x"]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ""),
        ("a=1&b", "a=1&b"),
        ("token=abc&x=%20", "token=***&x=%20"),
        ("access%5Ftoken=abc", "access%5Ftoken=***"),
        ("x=1&api_key=a=b", "x=1&api_key=***"),
    ],
)
def test_only_the_values_of_secrets_are_masked_in_a_query(query: str, shown: str) -> None:
    assert masked_query(query) == shown


def test_headers_keep_their_order_and_urls_among_them_lose_their_tokens() -> None:
    headers = [
        ("Origin", "https://a"),
        ("Cookie", "s=1"),
        ("Referer", "https://a/b?token=x&y=1"),
        ("X-A", "?token=x"),
    ]
    assert masked_headers(headers) == (
        ("Origin", "https://a"),
        ("Cookie", MASK),
        ("Referer", "https://a/b?token=***&y=1"),
        ("X-A", "?token=x"),
    )


@pytest.mark.parametrize(
    ("offered", "chosen", "shown"),
    [
        (["v1", "v2"], "v2", ["v1", "v2"]),
        (["v1", "x" * 40], "v1", ["v1", MASK]),
        (["x" * 40], "x" * 40, ["x" * 40]),
        (["access_token", "abc"], None, ["access_token", MASK]),
        (["bearer.abc", "v1"], "v1", [MASK, "v1"]),
    ],
)
def test_tokens_among_the_subprotocols_are_masked(
    offered: list[str], chosen: str | None, shown: list[str]
) -> None:
    assert list(masked_subprotocols(offered, chosen)) == shown


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ({"type": "a", "token": "x"}, {"type": "a", "token": MASK}),
        ({"a": [{"password": "x"}, 1]}, {"a": [{"password": MASK}, 1]}),
        (
            {"max_tokens": 5, "token": None, "auth": {"user": "a", "secret": "b"}},
            {"max_tokens": 5, "token": None, "auth": {"user": "a", "secret": MASK}},
        ),
    ],
)
def test_texts_under_the_keys_of_secrets_are_masked_in_messages(message: Any, shown: Any) -> None:
    assert masked_message(message) == shown


def test_a_message_without_secrets_is_left_as_it_is() -> None:
    message = {"type": "a", "list": [1, {"b": "c"}]}
    assert masked_message(message) is message
