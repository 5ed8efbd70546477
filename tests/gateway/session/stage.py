"""A whole session without I/O: a client, the core in the middle, and the emulator's replicas, one small step
at a time.

Whoever plays it decides what happens next: the client says its next line, a line arrives at the replica, the
replica does one thing, the replica is lost. The client believes what a real one would, and complains about
what it must not see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from emulator import media
from emulator.protocol import script
from emulator.protocol.actions import Action, Close, Drop, Send, SendMedia
from emulator.protocol.messages import encode
from gateway.session.core import Blame, Commands, End, Move, SessionCore, ToClient, ToReplica
from gateway.session.events import Closed, Message

GENERATION = script.Generation(segment_seconds=0.0, steps=1, chunks=2, chunk_bytes=8)


def text(kind: str, **fields: Any) -> Message:
    """A message of the protocol, as a client or a replica writes it."""
    return Message(msgspec.json.encode({"type": kind, **fields}).decode())


@dataclass(frozen=True, slots=True)
class Line:
    """What the client says, once it has so many whole segments."""

    message: Message
    after_segments: int = 0


@dataclass(slots=True)
class Client:
    """What it was told, read as a client of the protocol reads it."""

    segments: list[bytes] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    """Of each whole segment."""
    resumed: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    """Digest of each state that it asked for."""
    kinds: list[str] = field(default_factory=list)
    closed: Closed | None = None
    _begun: bytes | None = None
    _prompt: str = ""

    def hear(self, event: Message | Closed) -> None:
        assert self.closed is None, "nothing comes after a close"
        if isinstance(event, Closed):
            self.closed = event
        elif isinstance(event.data, bytes):
            assert self._begun is not None, "media belongs to a segment"
            self._begun += event.data
        else:
            self._read(msgspec.json.decode(event.data))

    def _read(self, said: dict[str, Any]) -> None:
        self.kinds.append(said["type"])
        if "segment_idx" in said:
            assert said["segment_idx"] == len(self.segments), "numbers go on where they were"
        match said["type"]:
            case "ltx2_segment_start":
                self._begun = b""
                self._prompt = said["prompt"]
            case "ltx2_segment_complete":
                assert self._begun is not None
                self.segments.append(self._begun)
                self.prompts.append(self._prompt)
                self._begun = None
            case "session_resumed":
                self._begun = None
                self.resumed.append(said["replica"])
            case "continuation_state_snapshot":
                self.states.append(said["state"]["payload"]["digest"])
            case "error":
                self.errors.append(said)
            case _:
                pass


@dataclass(slots=True)
class Replica:
    url: str
    talk: script.Session
    refuses: bool
    heard: deque[Message] = field(default_factory=deque)
    """On the way to it."""
    acting: Iterator[Action] = field(default_factory=lambda: iter(()))

    def next_event(self) -> Message | Closed | None:
        """What it says next; None when it waits for the client."""
        if self.refuses:
            return text("error", code="session_rejected", message="max sessions reached (1)", retryable=False)
        while True:
            action = next(self.acting, None)
            if action is None:
                self.acting = self.talk.answers()
                action = next(self.acting, None)
            match action:
                case None:
                    return None
                case Send(message=message):
                    return Message(encode(message).decode())
                case SendMedia(data=data):
                    return Message(data)
                case Close(code=code, reason=reason):
                    return Closed(code, reason)
                case Drop():
                    return Closed(None)
                case _:
                    continue


class Stage:
    def __init__(self, core: SessionCore, lines: Sequence[Line]) -> None:
        self.core = core
        self.client = Client()
        self.replica: Replica | None = None
        self.blamed: list[str] = []
        self.moves: list[str] = []
        self.attached = 0
        self.end: End | None = None
        self._lines = deque(lines)

    def attach(self, *, refuses: bool = False) -> None:
        """A new replica takes the session."""
        assert self.replica is None
        self.attached += 1
        url = f"http://{self.attached}"
        self.replica = Replica(url, script.Session(GENERATION), refuses)
        self.obey(self.core.attached(url, url))

    def speak(self) -> bool:
        """The client says its next line, if it may already."""
        if not self._lines or self._lines[0].after_segments > len(self.client.segments):
            return False
        self.obey(self.core.from_client(self._lines.popleft().message))
        return True

    def carry(self) -> bool:
        """One line arrives at the replica."""
        if self.replica is None or not self.replica.heard:
            return False
        self.replica.talk.receive(self.replica.heard.popleft().data)
        return True

    def act(self) -> bool:
        """The replica does one thing."""
        if self.replica is None or (event := self.replica.next_event()) is None:
            return False
        self.obey(self.core.from_replica(event))
        return True

    def obey(self, commands: Commands) -> None:
        for command in commands:
            assert self.end is None, "nothing comes after an End"
            match command:
                case ToClient(event=event):
                    self.client.hear(event)
                case ToReplica(event=Message() as message):
                    assert self.replica is not None, "there is no replica during a move"
                    self.replica.heard.append(message)
                case ToReplica():
                    assert self.replica is not None
                case Blame(replica=url):
                    self.blamed.append(url)
                case Move(cause=cause):
                    assert self.replica is not None, "one move at a time"
                    assert command is commands[-1]
                    self.moves.append(cause)
                    self.replica = None
                case End():
                    assert command is commands[-1]
                    self.end = command

    @property
    def has_lines(self) -> bool:
        """Whether the client has more to say."""
        return bool(self._lines)

    def play_on(self, *, segments: int | None = None) -> None:
        """Without further ado, to where nothing happens any more, or the client has so many segments."""
        while self.end is None and (segments is None or len(self.client.segments) < segments):
            if self.replica is None:
                self.attach()
            elif not (self.speak() or self.carry() or self.act()):
                return


def undisturbed(prompts: Sequence[tuple[str, int]]) -> tuple[list[bytes], list[str]]:
    """The media of each segment, and the digest of the state before the first and after each."""
    digests, segments = [media.digest_of(None)], []
    for prompt, seed in prompts:
        made = media.generate(
            digests[-1],
            prompt=prompt,
            seed=seed,
            chunks=GENERATION.chunks,
            chunk_bytes=GENERATION.chunk_bytes,
        )
        segments.append(made.init + b"".join(made.chunks))
        digests.append(made.digest)
    return segments, digests
