"""PURE. Who may ask. The control API has no password, so two headers decide: a web page that a browser here
has open must not be able to break replicas (or read headers from the event log) behind the user's back.

1. `Host` names this machine, and there is one. A name of a page's own that was made to lead here (DNS
   rebinding) is kept out by that.
2. Where there is an `Origin`, a web page asks: only one that comes from this very server may (the player, the
   API's own description). Another server on another port of this machine is somebody else. Programs such as
   curl send none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

OWN_HOSTS = ("127.0.0.1", "localhost", "::1")
MAX_PORT = 65535
_HOST = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<v6>[0-9A-Fa-f:]+)\])(?::(?P<port>[0-9]{1,5}))?")


def refusal(headers: Iterable[tuple[bytes, bytes]], own: Collection[str] = OWN_HOSTS) -> str | None:
    """Why a request with these headers (names in lower case) is not answered; None where it is."""
    found: dict[bytes, list[str]] = {b"host": [], b"origin": []}
    for name, value in headers:
        if name in found:
            found[name].append(value.decode("latin-1").strip())
    hosts, origins = found[b"host"], found[b"origin"]
    if len(hosts) > 1 or len(origins) > 1:
        return f"a request has one header {'Host' if len(hosts) > 1 else 'Origin'} only"
    host = hosts[0] if hosts else ""
    if not is_own(host, own):
        names = ", ".join(f"[{name}]" if ":" in name else name for name in own)
        return f"this API is for the names {names} only, with or without a port, not for {host!r}"
    if origins and origins[0].lower() != f"http://{host.lower()}":
        return f"only the emulator's own pages, of http://{host}, may ask from a browser, not {origins[0]!r}"
    return None


def is_own(host: str, own: Collection[str] = OWN_HOSTS) -> bool:
    """Whether what stands in a header `Host` is one of these names, with or without a port."""
    read = _HOST.fullmatch(host)
    if read is None or (read["name"] or read["v6"]).lower() not in own:
        return False
    return read["port"] is None or 1 <= int(read["port"]) <= MAX_PORT
