"""PURE. The address of a replica: what may be one, its one spelling, and what lies on it.

An address is kept as its owner wrote it; only joins and the search for duplicates look at its normal form, so
that `http://A:80/` and `http://a` are one replica and a probe never asks for `//health`.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
"""Letters, digits, dots, hyphens, and the underscore of compose services."""
UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
"""What `urlsplit` would silently drop or carry on: spaces, control characters, anything beyond ASCII."""


def url_problem(url: str) -> str | None:
    """What keeps `url` from being a replica's base URL, in the reader's words; None when nothing does."""
    if UNPRINTABLE.search(url):
        return f"{url!r} is not a URL: spaces, control characters and non-ASCII letters are not allowed in it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    problem = None
    if parts.scheme not in DEFAULT_PORTS:
        problem = "must begin with http:// or https://"
    elif not parts.hostname or not _is_host(parts.hostname):
        problem = "needs a host name or an IP address after its scheme"
    elif port == 0:
        problem = "needs a port from 1 to 65535"
    elif "@" in parts.netloc:
        problem = "must not carry a user name or a password: it is shown in logs and on /status"
    elif "?" in url or "#" in url:
        problem = "must not carry a query/fragment; give the base URL, as in http://host:8000"
    elif parts.path not in ("", "/"):
        problem = "must be a base URL without a path, as in http://host:8000"
    return problem and f"{url!r} {problem}"


def normalised_url(url: str) -> str:
    """The one spelling of `url`: lower case, no default port, no trailing slash.

    Total: what is not a URL comes back without its trailing slashes, so that it can still be compared.
    """
    return _normalised(url)


@lru_cache(maxsize=4096)
def _normalised(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url.rstrip("/")
    if not host:
        return url.rstrip("/")
    suffix = "" if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{_bracketed(host)}{suffix}{parts.path.rstrip('/')}"


def join_url(url: str, path: str) -> str:
    """`path` on the replica at `url`, with exactly one slash between them."""
    return f"{normalised_url(url)}/{path.lstrip('/')}"


def websocket_url(url: str, raw_path: bytes | str, query: bytes | str = b"") -> str:
    """The WebSocket URL of `raw_path` on the replica at `url`; path and query stay byte for byte."""
    base = normalised_url(url)
    text = raw_path.decode("latin-1") if isinstance(raw_path, bytes) else raw_path
    extra = query.decode("latin-1") if isinstance(query, bytes) else query
    path = text if text.startswith("/") else f"/{text}"
    return f"ws{base.removeprefix('http')}{path}{'?' + extra if extra else ''}"


def _is_host(host: str) -> bool:
    return HOST_NAME.fullmatch(host) is not None or _ip_address(host) is not None


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    address = _ip_address(host)
    return f"[{address.compressed}]" if address is not None and address.version == 6 else host


@lru_cache(maxsize=4096)
def host_and_port_of(url: str) -> str:
    """host:port of `url`; the URL itself where it is none."""
    return url if url_problem(url) else _host_and_port(urlsplit(url))


def _host_and_port(parts: SplitResult) -> str:
    port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
    return f"{_bracketed(parts.hostname or '')}:{port}"
