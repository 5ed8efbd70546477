"""PURE. The trace of a play: what came of it, without anything that chance or the clock has a part in.

Where the scenario leaves nothing open, the same seed gives the same trace twice, so that two can be compared
as files. So it is ordered by session and by replica, not by time, and it leaves out

- times, ports, process and stream ids, sizes, and the text of closes that nobody gave a code;
- what came of a segment that was not finished: how far it had come is a matter of microseconds, and a client
  drops it anyway. On a replica, the same goes for the prompts of such segments;
- places in a queue: `queue_status` stands once for all that came in a row;
- health probes, and `snapshot_state` with its answers on replicas: how often a gateway asks is its affair.

What it does not undo is a choice that the scenario leaves open: which of two sessions that look for a replica
at the same moment comes to which one, where in its work a step by the clock (`at:`) finds a session, or when
a probe meets a health route that fails now and then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from emulator.events import Event
from emulator.running.seen import Attempt, Played, SessionSeen, owners
from emulator.running.words import step_in_words

SNAPSHOTS = ("snapshot_state", "continuation_state_snapshot")
NOBODY = "-"
"""For a replica's session that is none of the scenario's."""

Line = dict[str, Any]


def trace_of(played: Played, *, passed: bool) -> list[str]:
    """Lines of JSON, one a fact."""
    name = played.scenario.name
    facts: list[Line] = [{"seed": played.seed, "passed": passed}]
    for number, step in enumerate(played.scenario.timeline, 1):
        facts.append(
            {"step": number, "does": step_in_words(step), "done": number not in played.waiting_steps}
        )
    for session in played.scenario.session_names:
        seen = played.sessions.get(session)
        facts += _of_session(seen) if seen is not None else [{"session": session, "saw": "nothing"}]
    whose = owners(played.events)
    for replica in played.urls:
        events = [event for event in played.events if event.replica == replica]
        facts += _of_replica(replica, events)
        facts += _of_its_sessions(replica, events, whose, played.scenario.session_names)
    return [json.dumps({"scenario": name, **fact}, ensure_ascii=False) for fact in facts]


# What clients saw


def _of_session(seen: SessionSeen) -> Iterator[Line]:
    for number, attempt in enumerate(seen.attempts, 1):
        head: Line = {"session": seen.name, "connection": number}
        if attempt.opened_at is None:
            yield {**head, "saw": "no session", "status": attempt.status}
            continue
        yield {**head, "saw": "opened", "subprotocol": attempt.subprotocol}
        for fact in _messages(attempt):
            yield {**head, **fact}
        if attempt.ending is not None:
            ending = attempt.ending
            yield {**head, "saw": "the end", "code": ending.code, "reason": ending.reason, "by": ending.by}
    yield {"session": seen.name, "through": seen.through}


def _messages(attempt: Attempt) -> Iterator[Line]:
    """Messages outside of segments, and finished segments each as a whole."""
    segments = iter(attempt.completed)
    resumed = iter(attempt.story.resumed)
    errors = iter(attempt.story.errors)
    before = ""
    for kind in finished(attempt.sequence):
        match kind:
            case "ltx2_segment_complete":
                segment = next(segments)
                yield {
                    "saw": "segment",
                    "number": segment.number,
                    "prompt": segment.prompt,
                    "steps": segment.steps,
                    "chunks": len(segment.parts) - 1,
                    "sha256": hashlib.sha256(segment.media).hexdigest(),
                }
            case "session_resumed":
                told = next(resumed)
                yield {"saw": kind, "segment": told["segment_idx"], "replica": told["replica"]}
            case "error":
                told = next(errors)
                yield {"saw": kind, "code": told.get("code"), "retryable": told.get("retryable")}
            case "queue_status" if before == kind:
                pass
            case _:
                yield {"saw": kind}
        before = kind


PARTS = ("ltx2_segment_start", "step_complete", "media_init", "binary", "media_segment_complete")
"""What comes of a segment before it is complete."""


def finished(sequence: Sequence[str]) -> Iterator[str]:
    """The types without the parts of segments: of a finished one only its end is left, of others nothing."""
    return (kind for kind in sequence if kind not in PARTS)


# What replicas saw


def _of_replica(replica: str, events: Sequence[Event]) -> Iterator[Line]:
    for event in events:
        match event.kind:
            case "state_changed":
                yield {"replica": replica, "saw": f"it is {event.detail['after']}"}
            case "fault_armed" | "fault_lifted":
                yield {"replica": replica, "saw": event.kind, "fault": event.detail["fault"]}
            case _:
                pass


def _of_its_sessions(
    replica: str, events: Sequence[Event], whose: dict[tuple[str, int], str], order: Sequence[str]
) -> Iterator[Line]:
    """By whose they are, in the order of the scenario, and one after the other for each."""
    numbers: dict[int, None] = dict.fromkeys(e.session for e in events if e.session is not None)
    places = {name: place for place, name in enumerate(order)}
    found = [(whose.get((replica, number), NOBODY), number) for number in numbers]
    for owner, number in sorted(found, key=lambda pair: (places.get(pair[0], len(places)), pair)):
        own = [event for event in events if event.session == number]
        for fact in _of_one(own):
            yield {"replica": replica, "session": owner, **fact}


def _of_one(events: Sequence[Event]) -> Iterator[Line]:
    sent = [str(event.detail["type"]) for event in events if event.kind == "message_sent"]
    complete = sent.count("ltx2_segment_complete")
    for event in events:
        match event.kind:
            case "upgrade_received":
                yield {"saw": "upgrade", "path": event.detail["path"], "query": event.detail["query"]}
            case "session_opened" | "session_rejected":
                yield {"saw": event.kind}
            case "fault_struck":
                yield {"saw": event.kind, "fault": event.detail["fault"]}
            case "close_received" | "close_sent":
                yield {"saw": event.kind, "code": event.detail["code"], "reason": event.detail["reason"]}
            case _:
                pass
    received = [
        "binary" if event.kind == "binary_received" else str(event.detail["type"])
        for event in events
        if event.kind in ("message_received", "binary_received")
    ]
    yield {"received": _answered(received, complete), "sent": _without_snapshots(finished(sent))}


def _answered(received: Sequence[str], complete: int) -> list[str]:
    """What came up to the prompt of the last finished segment; all of it where no prompt was left over."""
    prompts = 0
    found: list[str] = []
    for kind in received:
        prompts += kind == "segment_prompt_source"
        if prompts > complete:
            break
        found.append(kind)
    return _without_snapshots(found)


def _without_snapshots(kinds: Sequence[str] | Iterator[str]) -> list[str]:
    return [kind for kind in kinds if kind not in SNAPSHOTS]
