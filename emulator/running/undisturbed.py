"""PURE. What a session's media has to be: that of a replica without faults that is asked for the same.

The script that replicas answer by is walked here without a wire and without waiting. Real video is made by
whoever is given as `encode`, which takes its time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence

from emulator.media import Order, Segment
from emulator.protocol.actions import BeginMedia, Send, SendMedia
from emulator.protocol.messages import Ltx2SegmentComplete, MediaInit
from emulator.protocol.script import Generation, Session
from emulator.running.seen import SessionSeen
from emulator.scenario import Prompt, Say


def segment_hashes(
    generation: Generation,
    init: dict[str, object],
    prompts: Sequence[Prompt],
    encode: Callable[[Order], Segment] | None = None,
) -> list[str]:
    """The hash of each segment's media, one a prompt."""
    pace = dataclasses.replace(generation, segment_cap=None)
    session = Session(pace)
    messages = [
        init,
        *({"type": "segment_prompt_source", **prompt.model_dump(exclude_none=True)} for prompt in prompts),
    ]
    found: list[str] = []
    for message in messages:
        session.receive(json.dumps(message))
        found += _hashes(session, encode, wanted=len(prompts) - len(found))
    return found


def _hashes(session: Session, encode: Callable[[Order], Segment] | None, *, wanted: int) -> Iterator[str]:
    digest = hashlib.sha256()
    for action in session.answers():
        match action:
            case BeginMedia(order=order):
                assert encode is not None, "real video needs somebody who makes it"
                session.deliver(encode(order))
            case Send(message=MediaInit()):
                digest = hashlib.sha256()
            case SendMedia(data=data):
                digest.update(data)
            case Send(message=Ltx2SegmentComplete()):
                yield digest.hexdigest()
                wanted -= 1
            case _:
                pass
        if wanted <= 0:
            return


def asked_of(seen: SessionSeen) -> list[Prompt]:
    """What the complete segments of a session have to be of, one a segment.

    Where the session may go on by itself, a segment that nobody asked for is of the prompt that it was told
    with.
    """
    own = list(seen.prompts)
    if not _goes_on_by_itself(seen):
        return own[: len(seen.segments)]
    found = []
    for segment in seen.segments:
        if own and own[0].prompt == segment.prompt:
            found.append(own.pop(0))
        else:
            found.append(Prompt(prompt=segment.prompt))
    return found


def _goes_on_by_itself(seen: SessionSeen) -> bool:
    init = seen.plan.init or {}
    said = [line.send for line in seen.plan.prompts if isinstance(line, Say)]
    toggles = [message for message in said if isinstance(message, dict)]
    return bool(init.get("auto_extension_enabled")) or any(
        message.get("type") == "auto_extension_updated" for message in toggles
    )
