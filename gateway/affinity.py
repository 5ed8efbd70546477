"""PURE. Which part of a client's request keeps its sessions on one replica.

A request without that part, or with nothing in it, has no key, and goes where the policy says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qsl

Kind = Literal["none", "client_ip", "query", "header", "cookie", "init"]

NAMED: Final[tuple[Kind, ...]] = ("query", "header", "cookie")
INIT_FIELDS: Final = ("client_id",)
"""What of a session's opening message can be the key."""
FORMS: Final = "none, client_ip, query:NAME, header:NAME, cookie:NAME or init:client_id"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, section 5.6.2: what a header or a cookie may be called."""

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Affinity:
    """What the key is taken from."""

    kind: Kind = "none"
    name: str = ""
    """Of the query parameter, header (lower-case), cookie or init field; empty for the other kinds."""

    @classmethod
    def parse(cls, text: str) -> Affinity:
        """The affinity that a setting spells. Raises ValueError when it spells none."""
        kind, colon, name = text.partition(":")
        match kind:
            case "none" | "client_ip" if not colon:
                return cls(kind)
            case "query" if name:
                return cls(kind, name)
            case "header" if _TOKEN.fullmatch(name):
                return cls(kind, name.lower())
            case "cookie" if _TOKEN.fullmatch(name):
                return cls(kind, name)
            case "init" if name in INIT_FIELDS:
                return cls(kind, name)
            case _:
                raise ValueError(f"should be {FORMS}, not {text!r}")

    @property
    def needs_init(self) -> bool:
        """The key is in the opening message: a session is accepted before it can be placed."""
        return self.kind == "init"

    def key_of(self, *, client_ip: str, query: str, headers: Headers) -> str | None:
        """The key of a request; None without one, and always None where it `needs_init`.

        `client_ip` is the client's own address, behind whatever proxies are believed; `query` is undecoded,
        without its question mark; names in `headers` are lower-case. Of a part that comes more than once the
        first counts.
        """
        match self.kind:
            case "none" | "init":
                key = None
            case "client_ip":
                key = client_ip
            case "query":
                key = _in_query(self.name, query)
            case "header":
                key = _in_headers(self.name.encode("latin-1"), headers)
            case "cookie":
                key = _in_cookies(self.name, headers)
        return key or None


def _in_query(name: str, query: str) -> str | None:
    # The replica parses the query for itself; here the number of its parts is bounded by the server's request
    # line.
    parts = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return next((value for key, value in parts if key == name), None)


def _in_headers(name: bytes, headers: Headers) -> str | None:
    return next((value.decode("latin-1").strip() for key, value in headers if key == name), None)


def _in_cookies(name: str, headers: Headers) -> str | None:
    """RFC 6265, section 5.4: pairs joined by `; `, no escapes; a value may stand in double quotes."""
    for key, value in headers:
        if key == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                cookie, equals, content = pair.strip().partition("=")
                if equals and cookie == name:
                    return content.strip().strip('"')
    return None
