"""PURE. What a session keeps so that another replica can go on with it.

A replica works through prompts and questions in the order of their arrival, one segment a prompt; a toggle
takes effect when it arrives. So the ledger keeps, since the last continuation state, the prompts in order,
each toggle with the number of segments that had started when it came, each open question of the client with
its place between the prompts. `replay()` lays them out again so that every segment starts under the toggles
that it had before.

A segment that a replica makes on its own account (auto extension, loop) gets a prompt of ours in its place,
so that it is made again where it stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.session import protocol
from gateway.session.events import Message

MAX_PROMPTS = 256
"""Prompts kept since the last state. A replica lets 64 wait; as many again may come before its state does."""

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Their text, and that of the toggles, beside the init."""

AT_ONCE = -1
"""The gate of what may be sent before the replica has said anything."""

Kind = Literal["kept", "prompt", "question", "other"]


@dataclass(slots=True, eq=False)
class Asked:
    """A prompt, from when it was said to when a state covers its segment."""

    text: str
    prompt: str
    sent: bool = False
    """To the present replica."""
    seen: bool = False
    """The client has its whole segment."""


@dataclass(frozen=True, slots=True)
class Said:
    """Something to be sent to a replica."""

    message: Message
    kind: Kind
    gate: int
    """Segments that must have started on this replica before; 0: it must serve, no more; `AT_ONCE`."""
    asked: Asked | None = None


@dataclass(slots=True)
class _Change:
    at: int
    """Prompts whose segment had started when it came."""
    kind: type[protocol.Toggle]
    text: str


class Ledger:
    """Positions count prompts from the first that the state does not cover."""

    def __init__(self, max_state_bytes: int) -> None:
        self._max_state_bytes = max_state_bytes
        self._is_open = False
        self._init: str | None = None
        self._state: bytes | None = None
        self._in_force: dict[type[protocol.Toggle], str] = {}
        self._changes: list[_Change] = []
        self._prompts: list[Asked] = []
        self._questions: list[int] = []
        self._kept_bytes = 0
        self._started = 0
        self._done = 0
        self._furthest = 0
        self._paused = self._extends = self._loops = self._enhances = False
        self.begun = 0
        """Prompts whose segment has started on the present replica, and those that it refused."""
        self.why_not: str | None = None
        """Why the session cannot be continued elsewhere; None while it can."""

    # What the client says

    def note(self, message: Message) -> Said:
        """The client said this; the answer is how to tell a replica."""
        text = message.data
        if isinstance(text, bytes):
            return Said(message, "other", 0)
        match protocol.read_client(text):
            case protocol.Init() as init if not self._is_open:
                self._open(text, init)
                return Said(message, "kept", AT_ONCE)
            case protocol.Prompt(prompt=prompt):
                asked = Asked(text, prompt)
                if self.why_not is None:
                    self._prompts.append(asked)
                    self._kept_bytes += len(text)
                return Said(message, "prompt", 0, asked)
            case protocol.SnapshotState():
                if self.why_not is None and len(self._questions) < MAX_PROMPTS:
                    self._questions.append(len(self._prompts))
                return Said(message, "question", 0)
            case None | protocol.Init():
                return Said(message, "other", 0)
            case toggle:
                self._note_effect(toggle)
                if self.why_not is None:
                    self._keep_toggle(text, type(toggle))
                # It came after so many segments had started, on whichever replica.
                return Said(message, "kept", self.begun + max(0, self._furthest - self._started))

    # What the replica says

    def segment_started(self, prompt: str | None) -> Asked | None:
        """The prompt that this segment answers; None when it is not known."""
        if self._done < self._started:
            # The replica gave up the segment before this one.
            self._drop(self._done)
        place = self._place_of(prompt)
        if place is None:
            if self.why_not is not None or prompt is None:
                return None
            self._insert(self._started, Asked(protocol.extension_prompt(prompt), prompt, sent=True))
        else:
            for _ in range(place - self._started):
                # They were passed over: the replica refused them.
                self._drop(self._started)
            self.begun += 1
        self._started += 1
        self._furthest = max(self._furthest, self._started)
        if self._paused:
            self._pause_came_late()
        return self._prompts[self._started - 1]

    def segment_completed(self) -> None:
        if self._done == self._started:
            return
        self._done += 1
        if self.why_not is not None:
            self._cover(self._done)

    def prompt_refused(self) -> None:
        """The replica answered the first prompt that has no segment yet with an error."""
        if self._started < len(self._prompts) and self._prompts[self._started].sent:
            self._drop(self._started)

    def question_answered(self) -> None:
        """The client's oldest question has its answer."""
        if self._questions:
            del self._questions[0]

    def keep_state(self, state: bytes) -> None:
        """`state` (JSON) covers the segments that are complete on this replica."""
        if self.why_not is not None:
            return
        if len(state) > self._max_state_bytes:
            self.give_up("state_too_big")
            return
        self._state = state
        self._cover(self._done)

    # The move

    def detach(self) -> None:
        """The replica is gone; nothing of what it had begun counts."""
        self._started = self._done = self.begun = 0
        for asked in self._prompts:
            asked.sent = False

    def replay(self) -> Iterator[Said]:
        """All that brings a replica to where the last one was, in the order in which to send it."""
        if self._init is None:
            return
        init = self._init if self._state is None else protocol.with_state(self._init, self._state)
        yield Said(Message(init), "kept", AT_ONCE)
        for text in self._in_force.values():
            yield Said(Message(text), "kept", AT_ONCE)
        for place in range(len(self._prompts) + 1):
            for change in self._changes:
                if change.at == place:
                    yield Said(Message(change.text), "kept", place)
            for at in self._questions:
                if at == place:
                    yield Said(Message(protocol.SNAPSHOT_STATE), "question", 0)
            if place < len(self._prompts):
                asked = self._prompts[place]
                yield Said(Message(asked.text), "prompt", 0, asked)

    def give_up(self, why: str) -> None:
        """The session cannot be continued elsewhere from now on; what was kept for that is dropped."""
        if self.why_not is not None:
            return
        self.why_not = why
        self._init = self._state = None
        self._in_force.clear()
        self._changes.clear()
        self._questions.clear()
        self._cover(self._done)

    # Questions about it

    @property
    def uncovered(self) -> int:
        """Segments complete on this replica that no state covers."""
        return self._done

    @property
    def has_past(self) -> bool:
        """Whether the present replica has something to make a state of."""
        return self._state is not None or self._done > 0

    @property
    def has_unshown_past(self) -> bool:
        """Whether the client has a segment that the last state does not cover."""
        return any(asked.seen for asked in self._prompts)

    @property
    def overflows(self) -> bool:
        """Whether more is kept than a session may keep."""
        return len(self._prompts) > MAX_PROMPTS or self._kept_bytes > MAX_KEPT_BYTES

    @property
    def waits_for_segment(self) -> bool:
        """Whether a prompt has no complete segment yet on this replica."""
        return self._done < len(self._prompts)

    def at_work(self) -> Asked | None:
        """The prompt that the replica is at, or would be at next."""
        if not self.waits_for_segment:
            return None
        asked = self._prompts[self._done]
        idle = self._done == self._started and self._paused
        return asked if asked.sent and not idle else None

    # Inside

    def _open(self, text: str, init: protocol.Init) -> None:
        self._is_open = True
        if self.why_not is None:
            self._init = text
        self._extends = bool(init.auto_extension_enabled)
        self._loops = bool(init.loop_generation_enabled)
        self._enhances = bool(init.enhancement_enabled)

    def _keep_toggle(self, text: str, kind: type[protocol.Toggle]) -> None:
        for change in self._changes:
            if change.at == self._furthest and change.kind is kind:
                self._kept_bytes -= len(change.text)
                self._changes.remove(change)
                break
        self._changes.append(_Change(self._furthest, kind, text))
        self._kept_bytes += len(text)

    def _place_of(self, prompt: str | None) -> int | None:
        """Which prompt a new segment answers; None when it is the replica's own idea.

        The text tells, unless the replica rewrites prompts.
        """
        sent = [place for place in range(self._started, len(self._prompts)) if self._prompts[place].sent]
        own_ideas = self._extends or self._loops
        if prompt is not None:
            for place in sent[:1] if own_ideas else sent:
                if self._prompts[place].prompt.strip() == prompt.strip():
                    return place
        return sent[0] if sent and (self._enhances or not own_ideas) else None

    def _note_effect(self, toggle: protocol.Toggle) -> None:
        match toggle:
            case protocol.GenerationPausedUpdated(paused=paused):
                self._paused = paused
            case protocol.AutoExtensionUpdated(enabled=enabled):
                self._extends = enabled
            case protocol.LoopGenerationUpdated(enabled=enabled):
                self._loops = enabled
            case protocol.EnhancementUpdated(enabled=enabled):
                self._enhances = enabled
            case protocol.SeedPromptsUpdated():
                pass

    def _pause_came_late(self) -> None:
        """A segment started under a pause: the pause was on its way still, and must come after it again."""
        kind = protocol.GenerationPausedUpdated
        pauses = [change for change in self._changes if change.kind is kind]
        if pauses and pauses[-1].at < self._started:
            self._changes.remove(pauses[-1])
            self._changes.append(_Change(self._started, kind, pauses[-1].text))
        elif not pauses and kind in self._in_force:
            self._changes.append(_Change(self._started, kind, self._in_force.pop(kind)))

    def _insert(self, place: int, asked: Asked) -> None:
        self._prompts.insert(place, asked)
        self._kept_bytes += len(asked.text)
        self._shift(place, 1)
        if place < self._furthest:
            self._furthest += 1

    def _drop(self, place: int) -> None:
        asked = self._prompts.pop(place)
        self._kept_bytes -= len(asked.text)
        self._shift(place, -1)
        if place < self._started:
            self._started -= 1
        else:
            self.begun += 1
        if place < self._furthest:
            self._furthest -= 1

    def _shift(self, place: int, by: int) -> None:
        """A prompt came to or went from `place`: what stands behind it moves."""
        for change in self._changes:
            if change.at > place:
                change.at += by
        self._questions = [at + by if at > place else at for at in self._questions]

    def _cover(self, count: int) -> None:
        """The first `count` prompts need no replay any more."""
        for asked in self._prompts[:count]:
            self._kept_bytes -= len(asked.text)
        del self._prompts[:count]
        self._started -= count
        self._done -= count
        self._furthest = max(self._furthest - count, 0)
        self._questions = [max(0, at - count) for at in self._questions]
        for change in self._changes:
            change.at -= count
            if change.at <= 0:
                old = self._in_force.pop(change.kind, "")
                self._kept_bytes -= len(old)
                self._in_force[change.kind] = change.text
        self._changes = [change for change in self._changes if change.at > 0]
