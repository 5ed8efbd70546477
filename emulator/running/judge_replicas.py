"""PURE. What one replica saw, or several together, held against what is expected of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from emulator.events import Event
from emulator.replica.spec import HEALTH_PATHS
from emulator.running.judge_sessions import is_in_order
from emulator.scenario import Count, OfReplica


def findings(events: Sequence[Event], expected: OfReplica) -> Iterator[str]:
    """What is not as expected; `events` are those of the replica, or of several."""
    kinds = Counter(event.kind for event in events)
    probes = sum(event.kind == "http_answered" and event.detail["path"] in HEALTH_PATHS for event in events)
    yield from _count("sessions", kinds["session_opened"], expected.sessions)
    yield from _count("sessions at once", most_at_once(events), expected.at_once)
    yield from _count("upgrades", kinds["upgrade_received"], expected.upgrades)
    yield from _count("sessions refused in band", kinds["session_rejected"], expected.rejected)
    yield from _count("requests on health routes", probes, expected.probes)
    yield from _count("wakes", kinds["woken"], expected.wakes)
    yield from _messages(events, expected)
    struck = Counter(event.detail["fault"] for event in events if event.kind == "fault_struck")
    yield from _counts("strikes of the fault", struck, expected.struck)
    yield from _counts("events", kinds, expected.saw)
    closes = Counter(event.detail["code"] for event in events if event.kind == "close_received")
    yield from _counts("closes with", closes, expected.closes)
    yield from _upgrades(events, expected)


def most_at_once(events: Sequence[Event]) -> int:
    """The most sessions that had a place at the same time."""
    there: set[tuple[str, int | None]] = set()
    most = 0
    for event in events:
        one = event.replica, event.session
        if event.kind == "session_opened":
            there.add(one)
        elif event.kind == "session_closed":
            there.discard(one)
        elif event.kind == "state_changed" and event.detail["after"] in ("killed", "stopped"):
            there = {other for other in there if other[0] != event.replica}
        most = max(most, len(there))
    return most


def _messages(events: Sequence[Event], expected: OfReplica) -> Iterator[str]:
    counts = Counter(_type(event) for event in events)
    yield from _counts("messages", counts, expected.messages)
    if expected.order:
        by_session: dict[tuple[str, int | None], list[str]] = {}
        for event in events:
            if (kind := _type(event)) is not None:
                by_session.setdefault((event.replica, event.session), []).append(kind)
        if not any(is_in_order(expected.order, types) for types in by_session.values()):
            yield f"no session with messages in this order: {', '.join(expected.order)}"


def _type(event: Event) -> str | None:
    """Of a message that the replica got; None for other events."""
    match event.kind:
        case "message_received":
            return str(event.detail["type"])
        case "binary_received":
            return "binary"
        case _:
            return None


def _upgrades(events: Sequence[Event], expected: OfReplica) -> Iterator[str]:
    for event in events:
        if event.kind != "upgrade_received":
            continue
        whose = f"upgrade {event.session}"
        headers = {name.lower(): value for name, value in event.detail["headers"]}
        for name, pattern in expected.headers.items():
            value = headers.get(name.lower())
            if pattern is None and value is not None:
                yield f"{whose}: header {name} is {value!r}, expected none such"
            elif pattern is not None and (value is None or not fnmatchcase(value, pattern)):
                got = "is not there" if value is None else f"is {value!r}"
                yield f"{whose}: header {name} {got}, expected {pattern!r}"
        for what, wanted in (("path", expected.path), ("query", expected.query)):
            if wanted is not None and event.detail[what] != wanted:
                yield f"{whose}: {what} {event.detail[what]!r}, expected {wanted!r}"


def _counts(what: str, counts: Counter[Any], expected: Mapping[Any, Count]) -> Iterator[str]:
    for name, count in expected.items():
        yield from _count(f"{what} {name}", counts[name], count)


def _count(what: str, number: int, expected: Count | None) -> Iterator[str]:
    if expected is not None and not expected.allows(number):
        yield f"{what}: {number}, expected {expected}"
