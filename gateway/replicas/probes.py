"""One health probe: a GET on a replica, and what its answer means.

Ready is a listed status whose body does not say otherwise. Everything else is a reason: a redirect, another
status, a listed key with an unlisted value, a broken or late answer. The deadline is for the whole probe,
so an answer that drips in byte by byte is late too.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import httpx

from gateway.replicas.config import HealthPolicy, JsonScalar

MAX_BODY_BYTES = 64 * 1024
"""Read of a health body at most; the rest is left and the connection given up."""
TOLD_CHARACTERS = 80
"""Of a peer's own words in a reason."""

HEADERS = {"User-Agent": "streamhold-health", "Accept": "*/*", "Accept-Encoding": "identity"}
"""`identity`: a compressed body would have to be unpacked before it can be bounded."""


class HttpProbe(Protocol):
    """Asks a replica how it is."""

    async def __call__(self, url: str, *, timeout: float) -> tuple[float, str | None]:
        """(latency in ms, None) when the replica at the health URL `url` is ready, else (latency, reason).

        Ends within `timeout` seconds. Raising is a failure too, with the exception as its reason.
        """
        ...


@runtime_checkable
class RememberingProbe(Protocol):
    """A probe that keeps something for each URL."""

    async def forget(self, url: str) -> None:
        """Nothing is kept for `url` any more; a no-op when nothing was. No probe of it is under way."""
        ...


def body_problem(
    body: bytes, *, complete: bool, expect_body: Mapping[str, tuple[JsonScalar, ...]]
) -> str | None:
    """Why `body` says that its replica is not ready; None when it does not say so.

    Only a JSON object can: of anything else, broken JSON included, the status alone decides. An object that
    is not complete cannot be judged, which is not the same as ready.
    """
    if not expect_body:
        return None
    if not complete:
        is_object = body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
        return f"its health body is a JSON object above {MAX_BODY_BYTES} bytes" if is_object else None
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    for key, allowed in expect_body.items():
        if key in parsed and not any(_same(parsed[key], value) for value in allowed):
            return f"its health body says {key} {_short(json.dumps(parsed[key]))}"
    return None


def _same(found: object, listed: JsonScalar) -> bool:
    # Python holds True equal to 1, JSON does not.
    return isinstance(found, bool) is isinstance(listed, bool) and found == listed


def _short(text: str) -> str:
    return text if len(text) <= TOLD_CHARACTERS else f"{text[:TOLD_CHARACTERS]}..."


def status_problem(status: int, *, expect_status: tuple[int, ...]) -> str | None:
    """Why an answer with `status` is not a ready replica's; None when it may be one."""
    if status in expect_status:
        return None
    if 300 <= status < 400:
        return f"its health path answered {status}: redirects are not followed"
    return f"its health path answered {status}"


class HttpxProbe:
    """Probes over kept-alive connections, one a replica. As a context manager it closes them all at its end.

    Each replica has a transport of its own with room for one connection: a pool shared by all is searched
    from end to end at each request. A bare transport also follows no redirect and uses no proxy of the
    environment: a probe goes where the sessions go.
    """

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._transports: dict[str, httpx.AsyncHTTPTransport] = {}
        self._kept_alive: set[str] = set()
        self._ssl_context: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        self._ssl_context = (
            httpx.create_ssl_context()
        )  # tens of milliseconds: made once, and not inside a probe
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for url in tuple(self._transports):
            await self.forget(url)

    async def __call__(self, url: str, *, timeout: float) -> tuple[float, str | None]:
        """See `HttpProbe`. One probe of a URL at a time. Cancel-safe: the connection is closed."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout):
                try:
                    reason = await self._ask(url)
                except asyncio.CancelledError:
                    # In some moments of its life a connection that is cut short stays in its pool for ever,
                    # neither usable nor closed: all later probes would wait for it.
                    await self.forget(url)
                    raise
        except TimeoutError:
            reason = f"no complete answer to the health probe within {timeout:g} s"
        except httpx.HTTPError as error:
            reason = f"health probe failed: {_told(error)}"
        return (time.perf_counter() - started) * 1000, reason

    async def forget(self, url: str) -> None:
        """The connection to `url` is closed."""
        self._kept_alive.discard(url)
        if transport := self._transports.pop(url, None):
            await transport.aclose()

    async def _ask(self, url: str) -> str | None:
        transport = self._transports.get(url)
        if transport is None:
            transport = self._transports[url] = self._new_transport()
        # A replica may close an idle connection in the moment in which the next probe goes out on it, and
        # servers whose keep-alive time is the probes' interval do so again and again. That says nothing
        # about its health, so ask once more on a new connection; an error on a connection that is new does.
        reused = url in self._kept_alive
        self._kept_alive.discard(url)
        try:
            response = await transport.handle_async_request(httpx.Request("GET", url, headers=HEADERS))
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            if not reused:
                raise
            response = await transport.handle_async_request(httpx.Request("GET", url, headers=HEADERS))
        try:
            body, complete = await _bounded_body(response)
        finally:
            await response.aclose()
        if complete:
            self._kept_alive.add(url)
        status = status_problem(response.status_code, expect_status=self._policy.expect_status)
        if status is not None or not self._policy.expect_body:
            return status
        coding = response.headers.get("content-encoding", "identity").strip()
        if body and coding.lower() not in ("", "identity"):
            # It was not asked for, and what the body says cannot be known.
            return f"its health body has the content coding {_short(coding)}"
        return body_problem(body, complete=complete, expect_body=self._policy.expect_body)

    def _new_transport(self) -> httpx.AsyncHTTPTransport:
        if self._ssl_context is None:
            raise RuntimeError("HttpxProbe is a context manager: enter it before the first probe")
        return httpx.AsyncHTTPTransport(
            verify=self._ssl_context,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None),
        )


async def _bounded_body(response: httpx.Response) -> tuple[bytes, bool]:
    """At most MAX_BODY_BYTES of the body, and whether that is all of it."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), False
    return bytes(body), True


def _told(error: BaseException) -> str:
    """What went wrong, by the innermost cause: the outer ones only say `All connection attempts failed`."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)  # asyncio's own text is the call and its address
    return str(error) or type(error).__name__
