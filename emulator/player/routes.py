"""/player: the page and its parts, as they lie beside this file. Nothing of it comes from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

PAGE = "index.html"
PARTS: Mapping[str, str] = {
    PAGE: "text/html",
    "player.css": "text/css",
    "player.js": "text/javascript",
    "farm.js": "text/javascript",
    "screen.js": "text/javascript",
    "session.js": "text/javascript",
    "words.js": "text/javascript",
}
"""Every file with its type."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        # What MediaSource plays.
        "media-src blob:",
        # The emulator itself, and any gateway.
        "connect-src 'self' ws: wss:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

_FOLDER = files("emulator.player") / "page"


@get("/player", sync_to_thread=False, include_in_schema=False)
def page() -> Response[bytes]:
    """The page."""
    return _answer(PAGE)


@get("/player/{name:str}", sync_to_thread=False, include_in_schema=False)
def part(name: FromPath[str]) -> Response[bytes]:
    """One of its parts."""
    if name not in PARTS or name == PAGE:
        raise NotFoundException(f"the player has no part {name!r}; the page is at /player")
    return _answer(name)


def _answer(name: str) -> Response[bytes]:
    return Response((_FOLDER / name).read_bytes(), media_type=PARTS[name], headers=HEADERS)


HANDLERS = (page, part)
