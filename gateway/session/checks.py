"""PURE. Whether a client may ask for a session at all: its origin and its token."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import parse_qs

from gateway.session.downstream import OpeningRequest

ANY_ORIGIN = "*"


def refusal(
    request: OpeningRequest, *, tokens: Sequence[str], allowed_origins: Sequence[str]
) -> tuple[int, str] | None:
    """The status and the reason with which `request` is refused, or None when it may go on.

    A client without an Origin header is no browser, and no page can speak through it. The token comes as
    `Authorization: Bearer TOKEN`, or as the query's `token` from a browser, which cannot set headers.
    """
    origin = request.header(b"origin")
    if origin is not None and not origin_allowed(origin, allowed_origins):
        return 403, "this origin may not open a session here"
    if tokens and not _has_token(request, tokens):
        return 401, "a client token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN"
    return None


def origin_allowed(origin: str, allowed: Sequence[str]) -> bool:
    """Whether `origin` is listed; schemes and hosts are compared without regard to case (RFC 6454, section
    4).
    """
    return ANY_ORIGIN in allowed or origin.lower() in {entry.lower().rstrip("/") for entry in allowed}


def _has_token(request: OpeningRequest, tokens: Sequence[str]) -> bool:
    scheme, _, credentials = (request.header(b"authorization") or "").partition(" ")
    given = [credentials.strip()] if scheme.lower() == "bearer" else []
    with suppress(ValueError):  # more fields than are looked at: the header alone counts
        given += parse_qs(request.query, max_num_fields=100).get("token", [])
    # Every pair is compared, so that the time taken tells nothing of where a token differs.
    matches = [hmac.compare_digest(g.encode(), t.encode()) for g in given for t in tokens]
    return any(matches)
