"""PURE. One session, held against what is expected of it."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from emulator.events import Event
from emulator.running.seen import SessionSeen
from emulator.running.words import counted
from emulator.scenario import Close, Count, OfSession


def served_by(events: Sequence[Event], whose: Mapping[tuple[str, int], str]) -> dict[str, list[str]]:
    """The replicas that opened each session, by its name, one after the other."""
    found: dict[str, list[str]] = {}
    for event in events:
        if event.kind == "session_opened" and event.session is not None:
            owner = whose.get((event.replica, event.session))
            if owner is not None:
                found.setdefault(owner, []).append(event.replica)
    return found


def findings(
    seen: SessionSeen, expected: OfSession, served: Sequence[str], undisturbed: Sequence[str] | None
) -> Iterator[str]:
    """What is not as expected. `served` are the replicas that opened it, `undisturbed` the hashes of its
    segments' media as they have to be."""
    yield from _connecting(seen, expected)
    yield from _messages(seen, expected)
    yield from _errors(seen, expected)
    yield from _segments(seen, expected, undisturbed)
    yield from _places(expected, served)
    yield from _ending(seen, expected)
    yield from _times(seen, expected)


def _connecting(seen: SessionSeen, expected: OfSession) -> Iterator[str]:
    last = seen.attempts[-1]
    is_open = last.opened_at is not None
    why = f"HTTP {last.status}" if last.status else (last.fault or "")
    if expected.opened is not None and expected.opened != is_open:
        yield "was opened, expected it not to be" if is_open else f"was not opened ({why}), expected it to be"
    statuses = [attempt.status for attempt in seen.attempts if attempt.status is not None]
    match expected.refused:
        case None:
            pass
        case "none":
            if statuses:
                yield f"was refused with HTTP {statuses[0]}, expected no refusal"
        case wanted if not set(statuses) & set(wanted):
            got = f"was refused with HTTP {statuses[-1]}" if statuses else "was not refused"
            got = f"had no HTTP answer ({last.fault})" if last.fault and not statuses else got
            yield f"{got}, expected HTTP {_or(wanted)}"
        case _:
            pass
    yield from _count("upgrades tried", len(seen.attempts), expected.connects)
    if expected.subprotocol is not None and (last.subprotocol or "") != expected.subprotocol:
        yield f"subprotocol {last.subprotocol or ''!r}, expected {expected.subprotocol!r}"


def _messages(seen: SessionSeen, expected: OfSession) -> Iterator[str]:
    counts = Counter(seen.types)
    counts["binary"] = sum(attempt.binary_messages for attempt in seen.attempts)
    counts["other"] = sum(attempt.other_messages for attempt in seen.attempts)
    for kind, count in expected.messages.items():
        yield from _count(f"messages {kind}", counts[kind], count)
    if expected.order and not is_in_order(expected.order, seen.sequence):
        came = _short(list(seen.sequence))
        yield f"messages came as {came}, expected in this order: {', '.join(expected.order)}"
    yield from _count("messages session_resumed", counts["session_resumed"], expected.resumed)


def is_in_order(wanted: Sequence[str], came: Iterator[str] | Sequence[str]) -> bool:
    """Whether `wanted` came in that order, whatever came between."""
    rest = iter(came)
    return all(any(one == other for other in rest) for one in wanted)


def _errors(seen: SessionSeen, expected: OfSession) -> Iterator[str]:
    errors = [error for attempt in seen.attempts for error in attempt.story.errors]
    codes = Counter(str(error.get("code")) for error in errors)
    told = ", ".join(f"{code} ({number})" for code, number in codes.items())
    match expected.errors:
        case None:
            pass
        case "none" if errors:
            yield f"errors: {told}, expected none"
        case "some" if not errors:
            yield "errors: none, expected some"
        case dict() as wanted:
            for code, count in wanted.items():
                yield from _count(f"errors {code}", codes[code], count)
            if others := [code for code in codes if code not in wanted]:
                yield f"errors: {', '.join(others)}, expected only {', '.join(wanted) or 'none'}"
        case _:
            pass
    for error in errors:
        if expected.retryable is not None and error.get("retryable") is not expected.retryable:
            said = json.dumps(error.get("retryable"))
            yield f"error {error.get('code')}: retryable {said}, expected {json.dumps(expected.retryable)}"


def _segments(seen: SessionSeen, expected: OfSession, undisturbed: Sequence[str] | None) -> Iterator[str]:
    segments = seen.segments
    if expected.segments == "all":
        if len(segments) < len(seen.prompts):
            yield f"{counted(len(segments), 'segment')} of {len(seen.prompts)} complete"
    else:
        yield from _count("complete segments", len(segments), expected.segments)
    if expected.gaps is not None:
        for attempt in seen.attempts:
            yield from (f"not as the protocol has it: {problem}" for problem in attempt.story.problems[:3])
    if expected.media is not None:
        hashes = [hashlib.sha256(segment.media).hexdigest() for segment in segments]
        wrong = [
            number
            for number, pair in enumerate(zip(hashes, undisturbed or (), strict=False))
            if len(set(pair)) > 1
        ]
        if wrong:
            numbers = ", ".join(map(str, wrong))
            yield f"the media of segment {numbers} differs from that of an undisturbed session"


def _places(expected: OfSession, served: Sequence[str]) -> Iterator[str]:
    if expected.served_by is not None:
        fits = len(served) == len(expected.served_by) and all(
            fnmatchcase(name, pattern) for name, pattern in zip(served, expected.served_by, strict=True)
        )
        if not fits:
            yield f"served by {_then(served)}, expected {_then(expected.served_by)}"
    moves = sum(before != after for before, after in itertools.pairwise(served))
    yield from _count("moves to another replica", moves, expected.moves)


def _ending(seen: SessionSeen, expected: OfSession) -> Iterator[str]:
    ending = seen.attempts[-1].ending
    match expected.close:
        case None:
            pass
        case "none":
            if ending is not None and ending.by == "gateway":
                yield f"{ending}, expected none"
        case Close() as close:
            if ending is None:
                yield f"was not open in the end, expected {_close(close)}"
                return
            fits = (
                (close.code is None or ending.code in close.code)
                and (close.reason is None or ending.reason in close.reason)
                and (close.by is None or ending.by == close.by)
            )
            if not fits:
                yield f"{ending} by the {ending.by}, expected {_close(close)}"


def _close(close: Close) -> str:
    code = f"close {_or(close.code)}" if close.code else "a close"
    reason = f" {_or([repr(one) for one in close.reason])}" if close.reason else ""
    return code + reason + (f" by the {close.by}" if close.by else "")


def _times(seen: SessionSeen, expected: OfSession) -> Iterator[str]:
    began = seen.attempts[0].began_at
    yield from _bound(
        "the first message", _first(seen, "first_message_at"), began, expected.first_message_within
    )
    yield from _bound(
        "the first complete segment", _first(seen, "first_segment_at"), began, expected.first_segment_within
    )
    yield from _bound("the end", seen.attempts[-1].ended_at, began, expected.ended_within)
    if expected.segments_within is not None:
        for attempt in seen.attempts:
            pairs = zip(attempt.asked, attempt.completed_at, strict=False)
            for number, ((_, asked_at), at) in enumerate(pairs):
                what = f"segment {attempt.base + number}"
                yield from _bound(what, at, asked_at, expected.segments_within)
    if expected.silence_within is not None:
        longest = max(attempt.silence_seconds for attempt in seen.attempts)
        if longest > expected.silence_within:
            yield f"{longest:.1f} s without a message, expected at most {expected.silence_within:g} s"


def _first(seen: SessionSeen, name: str) -> float | None:
    times = [at for attempt in seen.attempts if (at := getattr(attempt, name)) is not None]
    return min(times, default=None)


def _bound(what: str, at: float | None, since: float, within: float | None) -> Iterator[str]:
    if within is None:
        return
    if at is None:
        yield f"{what} never came, expected it within {within:g} s"
    elif at - since > within:
        yield f"{what} came after {at - since:.1f} s, expected it within {within:g} s"


def _count(what: str, number: int, expected: Count | None) -> Iterator[str]:
    if expected is not None and not expected.allows(number):
        yield f"{what}: {number}, expected {expected}"


def _or(values: Sequence[object]) -> str:
    return " or ".join(map(str, values))


def _then(names: Sequence[str]) -> str:
    return ", then ".join(names) or "nobody"


def _short(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 20 else [*names[:10], "...", *names[-10:]])
