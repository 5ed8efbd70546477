"""Who may ask: this machine alone. The control API has no password, so it answers only to requests that name
this machine: a web page that a browser here has open must not be able to break replicas (or read headers from
the event log) behind the user's back.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from litestar import Request

from emulator.control.problems import Forbidden

OWN_HOSTS = ("127.0.0.1", "localhost", "::1")


def only_from_here(request: Request[Any, Any, Any]) -> None:
    """Raise Forbidden for a request that names another host, or comes from a page of one."""
    hosts = [_host_of(f"//{request.headers.get('host', '')}")]
    if (origin := request.headers.get("origin")) is not None:
        hosts.append(_host_of(origin))
    if any(host not in OWN_HOSTS for host in hosts):
        raise Forbidden(f"this API is for {', '.join(OWN_HOSTS)} only")


def _host_of(url: str) -> str | None:
    """None where there is none, or what is there is no URL."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
