"""PURE. The account of a play: what happened when, in the words of its verdict."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.events import Event
from emulator.running.seen import Attempt, Moment, Played, owners

LONGEST_ACCOUNT = 200
"""Lines; of a longer one the middle is left out."""


def account_of(played: Played) -> list[str]:
    """Steps, sessions and replicas in the order in which things happened."""
    moments = sorted([*played.moments, *_of_replicas(played)], key=lambda moment: moment.at)
    width = max((len(moment.who) for moment in moments), default=0)
    lines = [f"{moment.at:7.2f}  {moment.who:<{width}}  {moment.what}" for moment in moments]
    if len(lines) > LONGEST_ACCOUNT:
        half = LONGEST_ACCOUNT // 2
        lines = [*lines[:half], f"     ..  ({len(lines) - 2 * half} lines left out)", *lines[-half:]]
    return lines


def _of_replicas(played: Played) -> Iterator[Moment]:
    whose = owners(played.events)
    for event in played.events:
        name = whose.get((event.replica, event.session or 0), "a session")
        if (said := _said(event, name)) is not None:
            yield Moment(event.at, event.replica, said)


def _said(event: Event, session: str) -> str | None:
    detail = event.detail
    match event.kind:
        case "state_changed":
            return f"{detail['before']} -> {detail['after']}"
        case "session_opened":
            return f"has {session}"
        case "session_rejected":
            return f"refuses {session}: all {detail['capacity']} places are taken"
        case "fault_struck":
            return f"fault {detail['fault']} strikes" + (f" {session}" if event.session is not None else "")
        case "close_sent":
            return f"closes {session}: {detail['code']} {detail['reason']!r}"
        case _:
            return None


def event_in_words(attempt: Attempt, event: str, kind: str | None) -> str | None:
    """A line for what happened to a session; None for what is not worth one."""
    match event:
        case "opened":
            return "opened" if attempt.base == 0 else f"opened again, from segment {attempt.base} on"
        case "refused":
            return f"refused: HTTP {attempt.status}" if attempt.status else f"no session: {attempt.fault}"
        case "queued":
            # A replica greets by one of its own that says that nobody waits.
            place = attempt.story.queue[-1] if attempt.story.queue else (0, 0)
            return f"waits in the queue, at position {place[0]} of {place[1]}" if any(place) else None
        case "segment_end":
            return f"segment {attempt.base + attempt.story.completed - 1} complete"
        case "resumed":
            told = attempt.story.resumed[-1] if attempt.story.resumed else {}
            return f"moved: goes on at replica {told.get('replica')} from segment {told.get('segment_idx')}"
        case "error":
            return f"error {kind}"
        case "closed":
            by = attempt.ending.by if attempt.ending is not None else "nobody"
            return f"ended: {attempt.ending} by the {by}"
        case _:
            return None
