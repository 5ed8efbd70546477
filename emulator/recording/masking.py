"""PURE. What of a session is nobody's business: which values are left out of a recording.

A name is a secret's by one of its words, so that `access_token`, `X-Api-Key`, `accessToken` and `Set-Cookie`
all are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote_plus

MASK = "***"
"""Stands for whatever was there; a replay takes any value for it."""

SECRET_WORDS = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "jwt",
        "key",
        "passwd",
        "password",
        "secret",
        "sig",
        "signature",
        "token",
    }
)
LONG_SUBPROTOCOL = 40
"""Characters from which an offered subprotocol is more likely a token than a name."""

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def is_secret(name: str) -> bool:
    """Whether a header, query parameter or key of that name holds a secret."""
    return any(
        word.lower().rstrip("s") in SECRET_WORDS or word.lower() in SECRET_WORDS
        for word in _WORDS.findall(name)
    )


def masked_query(query: str) -> str:
    """The query with the values of its secrets masked, else as it came."""
    return "&".join(_masked_pair(pair) for pair in query.split("&"))


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={MASK}" if equals and is_secret(unquote_plus(name)) else pair


def masked_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers with secrets masked, in URLs among their values too."""
    return tuple((name, MASK if is_secret(name) else _masked_url(value)) for name, value in headers)


def _masked_url(value: str) -> str:
    base, question, query = value.partition("?")
    return f"{base}?{masked_query(query)}" if question and "://" in base else value


def masked_subprotocols(offered: Sequence[str], chosen: str | None) -> tuple[str, ...]:
    """The offered subprotocols; clients in browsers hide tokens among them, which are masked. What the
    replica chose stays."""
    shown = []
    after_word = False
    for name in offered:
        hidden = name != chosen and (
            after_word or len(name) >= LONG_SUBPROTOCOL or ("." in name and is_secret(name))
        )
        shown.append(MASK if hidden else name)
        # `access_token, VALUE`: the word says what the next one is.
        after_word = name != chosen and not hidden and is_secret(name)
    return tuple(shown)


def masked_message(value: Any) -> Any:
    """A message's JSON value with the values of its secrets masked; the very same object where there are
    none."""
    if isinstance(value, dict):
        shown = {
            key: MASK if is_secret(key) and _is_worth_hiding(item) else masked_message(item)
            for key, item in value.items()
        }
        return shown if any(shown[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [masked_message(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _is_worth_hiding(item: Any) -> bool:
    """A text is; a number, a flag or nothing is not."""
    return isinstance(item, str) and item != ""
