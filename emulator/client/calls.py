"""PURE. The control API's requests as values: what both clients send, and how they read the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from emulator.client.errors import BadAnswer, NotSeen, refused
from emulator.control.answers import (
    EventPage,
    FarmStatus,
    FaultDescription,
    OpenSession,
    Problem,
    ReplicaStatus,
)
from emulator.events import DEFAULT_LIMIT, Event
from emulator.faults import Fault, fields_of

DEFAULT_URL = "http://127.0.0.1:9190"
ANSWER_SECONDS = 30.0
"""How long an answer may take; a replica that is a process of its own starts in less."""
ONE_WAIT_SECONDS = 20.0
"""A longer wait is several requests."""
LAST_SEEN = 5
"""Events that an error tells of."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request."""

    method: str
    path: str
    answer: type[T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    wait_seconds: float = 0.0
    """How long the emulator may take by itself."""

    def read(self, status: int, content: bytes) -> T:
        """The answer. Raises RequestRefused for a no, BadAnswer for what no emulator says."""
        try:
            if status >= 400:
                raise refused(msgspec.json.decode(content, type=Problem))
            return msgspec.json.decode(content or b"null", type=self.answer)
        except msgspec.DecodeError as error:
            said = content[:80].decode("utf-8", "replace")
            raise BadAnswer(f"{self.method} {self.path}: no emulator says {status} {said!r}") from error


def replicas() -> Call[list[ReplicaStatus]]:
    return Call("GET", "/replicas", list[ReplicaStatus])


def replica(name: str) -> Call[ReplicaStatus]:
    return Call("GET", _of(name), ReplicaStatus)


def status() -> Call[FarmStatus]:
    return Call("GET", "/farm", FarmStatus)


def sessions(name: str | None) -> Call[list[OpenSession]]:
    return Call("GET", "/sessions" if name is None else _of(name, "sessions"), list[OpenSession])


def faults() -> Call[dict[str, FaultDescription]]:
    return Call("GET", "/faults", dict[str, FaultDescription])


def arm(name: str, fault: Fault | str, fields: Mapping[str, Any]) -> Call[ReplicaStatus]:
    if isinstance(fault, Fault):
        fields = fields_of(fault) | dict(fields)
        fault = fault.name
    return Call("PUT", _of(name, "faults", fault), ReplicaStatus, body=fields)


def lift(name: str, fault: Fault | type[Fault] | str | None) -> Call[ReplicaStatus]:
    told = [] if fault is None else [fault if isinstance(fault, str) else fault.name]
    return Call("DELETE", _of(name, "faults", *told), ReplicaStatus)


def command(name: str, verb: str, **body: float | None) -> Call[ReplicaStatus]:
    return Call("POST", _of(name, verb), ReplicaStatus, body=body)


def add(name: str | None, *, port: int, capacity: int | None, warming_seconds: float) -> Call[ReplicaStatus]:
    body = {"name": name, "port": port, "capacity": capacity, "warming_seconds": warming_seconds}
    return Call("POST", "/replicas", ReplicaStatus, body=body)


def remove(name: str) -> Call[None]:
    return Call("DELETE", _of(name), type(None))


def reset() -> Call[list[ReplicaStatus]]:
    return Call("POST", "/reset", list[ReplicaStatus])


def events(
    after: int = 0,
    *,
    replica: str | None = None,
    kinds: Sequence[str] = (),
    session: int | None = None,
    limit: int = DEFAULT_LIMIT,
    wait_seconds: float = 0.0,
) -> Call[EventPage]:
    wanted = {"replica": replica, "session": session, "kind": list(kinds) or None}
    query: dict[str, Any] = {"after": after, "limit": limit, "wait_seconds": wait_seconds}
    query |= {key: value for key, value in wanted.items() if value is not None}
    return Call("GET", "/events", EventPage, query=query, wait_seconds=wait_seconds)


@dataclass(frozen=True, slots=True)
class Sought:
    """The event that somebody waits for."""

    kind: str
    replica: str | None = None
    session: int | None = None
    n: int = 1
    """The first, the second and so on."""
    after: int = 0
    """Among those with a higher number."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What its detail has to say."""

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n counts from 1, so it cannot be {self.n}")

    def __str__(self) -> str:
        said = [f"{key}={value!r}" for key, value in self.detail.items()]
        told = [self.kind, *said]
        if self.session is not None:
            told.append(f"of session {self.session}")
        if self.replica is not None:
            told.append(f"on replica {self.replica}")
        return " ".join(told) + (f" ({self.n} times)" if self.n > 1 else "")

    def matches(self, event: Event) -> bool:
        """Its detail says so; kind, replica and session were asked for."""
        return all(key in event.detail and event.detail[key] == value for key, value in self.detail.items())


def find(
    sought: Sought, deadline_seconds: float, now: Callable[[], float]
) -> Generator[Call[EventPage], EventPage, Event]:
    """The calls that find the event, each answered by what `send` brings; at the end the event.

    `now` tells monotonic seconds. Raises NotSeen.
    """
    end = now() + deadline_seconds
    after, seen = sought.after, 0
    while True:
        left = max(0.0, end - now())
        page = yield events(
            after,
            replica=sought.replica,
            kinds=[sought.kind],
            session=sought.session,
            wait_seconds=min(left, ONE_WAIT_SECONDS),
        )
        for event in page.events:
            seen += sought.matches(event)
            if seen == sought.n:
                return event
        after = page.last
        if left == 0 and not page.events:
            break
    page = yield events(replica=sought.replica, limit=10_000)
    last = ", ".join(_in_words(event) for event in page.events[-LAST_SEEN:]) or "nothing"
    since = f" after event {sought.after}" if sought.after else ""
    raise NotSeen(
        f"not within {deadline_seconds:g} s: {sought}; seen {seen} times{since}. The last events: {last}"
    )


def _in_words(event: Event) -> str:
    session = f" session {event.session}" if event.session is not None else ""
    return f"{event.seq} {event.replica}{session} {event.kind}"


def _of(name: str, *more: str) -> str:
    return "/".join(["/replicas", *(quote(part, safe="") for part in (name, *more))])
