"""Plays as tests describe them: a session's messages, a replica's events, a scenario in a few lines."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from emulator.events import Event
from emulator.running.seen import SESSION_HEADER, Attempt, Ending, Played, SessionSeen
from emulator.scenario import Prompt, Scenario
from emulator.scenario.reading import scenario_from

_streams = itertools.count(1)
MEDIA = (b"init", b"first", b"second")


def scenario(text: str) -> Scenario:
    """As a file has it."""
    return scenario_from(text, file="test.yaml")


def segment(number: int, prompt: str = "p", *, complete: bool = True) -> Iterator[str | bytes]:
    """The messages of a segment; of one that is not complete the last chunk and the end are missing."""
    head = {"segment_idx": number}
    stream = str(next(_streams))
    yield json.dumps({"type": "ltx2_segment_start", **head, "prompt": prompt, "total_steps": 1})
    yield json.dumps({"type": "step_complete", **head, "step": 1, "total_steps": 1, "stage": "denoise"})
    yield json.dumps({"type": "media_init", **head, "mime": "m", "stream_id": stream, "mode": "av_fmp4"})
    yield from MEDIA[: 3 if complete else 2]
    if complete:
        yield json.dumps({"type": "media_segment_complete", **head, "stream_id": stream, "chunks": 2})
        yield json.dumps({"type": "ltx2_segment_complete", **head, "generation_time_ms": 1})


def opening() -> Iterator[str]:
    yield json.dumps({"type": "queue_status", "position": 0, "queue_depth": 0})
    yield json.dumps({"type": "gpu_assigned", "gpu_id": 0, "session_timeout": 120})
    yield json.dumps({"type": "ltx2_stream_start", "width": 1, "height": 1, "fps": 1, "num_frames": 1})


def message(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def attempt(
    messages: Sequence[str | bytes], *, ending: Ending | None = None, base: int = 0, **fields: Any
) -> Attempt:
    """A connection that heard these messages, one every tenth of a second."""
    made = Attempt(began_at=0.0, base=base, opened_at=0.0, ending=ending, **fields)
    for data in messages:
        kind = made.story.take(data)
        name = "binary" if isinstance(data, bytes) else kind or "other"
        made.binary_messages += name == "binary"
        made.other_messages += name == "other"
        if name != "binary" or made.sequence[-1:] != ["binary"]:
            made.sequence.append(name)
    return made


def seen(played_in: Scenario, name: str, *attempts: Attempt, through: bool = True) -> SessionSeen:
    plan = next(entry for entry in played_in.sessions if name in entry.names)
    return SessionSeen(name, plan, list(attempts), through=through, over=True)


def played(of: Scenario, *sessions: SessionSeen, events: Sequence[Event] = ()) -> Played:
    names = of.replicas.names
    urls = {name: f"http://127.0.0.1:{9000 + index}" for index, name in enumerate(names)}
    return Played(of, of.seed, urls, {each.name: each for each in sessions}, list(events))


def event(replica: str, kind: str, session: int | None = None, **detail: Any) -> Event:
    return Event(1, 0.0, replica, kind, 1, session, detail)


def upgrade(replica: str, session: int, owner: str, **detail: Any) -> Event:
    headers = [["Host", "x"], [SESSION_HEADER, owner]]
    whole = {"method": "GET", "path": "/v1/stream", "query": "", "headers": headers, **detail}
    return event(replica, "upgrade_received", session, **whole)


def media_hash() -> str:
    """Of every segment that is made here."""
    return hashlib.sha256(b"".join(MEDIA)).hexdigest()


def asked(*prompts: str) -> list[tuple[Prompt, float]]:
    return [(Prompt(prompt=text), 0.0) for text in prompts]
