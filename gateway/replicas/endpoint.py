"""PURE. A replica as configured or discovered, and what a set of them may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.replicas.urls import host_and_port_of, normalised_url, url_problem

MAX_NAME_CHARS = 128
"""A name stands in every log line and in every answer about its replica."""


@dataclass(frozen=True, slots=True)
class ReplicaEndpoint:
    """One replica as configured or discovered."""

    url: str
    """HTTP base URL, as in `http://host:8000`; the WebSocket URL has the same host and port."""
    name: str | None = None
    """What people call it, in 128 characters at most; without one it is called host:port."""
    primary: bool = False
    """Gets sessions before the others as long as it is healthy."""
    weight: float = 1.0
    """Its share beside the others' under a weighted policy; 0 takes no share."""
    max_sessions: int | None = None
    """Sessions that it takes at once; None is no limit."""
    cold_start: bool = False
    """It sleeps while nobody needs it, as a GPU does that is billed by the second: it is not probed then,
    and takes its time for the first session.
    """

    @property
    def display_name(self) -> str:
        """`name`, or else host:port; the URL itself where it has neither."""
        return self.name or host_and_port_of(self.url)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Each field that cannot be used, with what is wrong about it."""
        # The types are looked at as well: a Python program may hand in anything.
        if not isinstance(self.url, str):
            yield "url", f"replica URL must be text, as in http://host:8000, not {self.url!r}"
        elif problem := url_problem(self.url):
            yield "url", f"replica URL {problem}"
        if isinstance(self.name, str) and len(self.name) > MAX_NAME_CHARS:
            said = f"at most {MAX_NAME_CHARS} characters, not {len(self.name)}"
            yield "name", f"the name of a replica must have {said}"
        elif self.name is not None and not _is_name(self.name):
            yield "name", f"the name of a replica must be printable text and not blank, not {self.name!r}"
        if not (is_finite(self.weight) and self.weight >= 0):
            yield (
                "weight",
                f"the weight of a replica must be finite and 0 or more, not {self.weight!r}",
            )
        if self.max_sessions is not None and not (is_whole(self.max_sessions) and self.max_sessions >= 1):
            yield (
                "max_sessions",
                f"max_sessions must be 1 or more, not {self.max_sessions!r}; without it: no limit",
            )


def replicas_problems(replicas: list[ReplicaEndpoint]) -> Iterator[str]:
    """What is wrong with the replicas as a set: duplicates, and more than one primary."""
    seen_urls: dict[str, str] = {}
    seen_names: dict[str, ReplicaEndpoint] = {}
    for endpoint in replicas:
        key = normalised_url(endpoint.url)
        if key in seen_urls:
            first = seen_urls[key]
            spelling = "" if first == endpoint.url else f" (the same as {first!r})"
            yield f"Duplicate replica URL {endpoint.url!r}{spelling}"
        seen_urls.setdefault(key, endpoint.url)
        # One that has no name is called host:port, and another may have that for its name.
        name = endpoint.display_name
        other = seen_names.setdefault(name, endpoint)
        if other is endpoint or (not (other.name or endpoint.name) and normalised_url(other.url) == key):
            continue
        nameless = next((one for one in (other, endpoint) if not one.name), None)
        called = f": {nameless.url!r} has no name and is called so" if nameless else ""
        yield f"Duplicate replica name {name!r}{called}"
    primaries = [endpoint.url for endpoint in replicas if endpoint.primary]
    if len(primaries) > 1:
        yield f"only one replica may be primary, not {len(primaries)}: {', '.join(primaries)}"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and not (name == "" or name.isspace())


def is_whole(value: object) -> bool:
    """Whether it is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether it is a number that is neither infinite nor none, and no truth value."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False
