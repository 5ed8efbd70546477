"""PURE. What was seen while a scenario was played: by its clients, at its replicas, of its gateway.

Filled while it is played and judged after. All times are seconds since the play began.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from emulator.events import Event
from emulator.protocol.script import Generation
from emulator.running.story import Segment, Story
from emulator.scenario import Plan, Prompt, Scenario, Sessions

SESSION_HEADER = "X-Emulator-Session"
"""Of every upgrade: the session's name, so that a replica's log tells whose it is."""
NO_CLOSE_FRAME = 1006
"""The code of a connection that ended without a close frame, as browsers tell it."""
Side = Literal["client", "gateway"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something worth a line in the account."""

    at: float
    who: str
    """A session, a replica, `gateway`, or `step`."""
    what: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a connection ended, in a browser's words."""

    code: int
    """1005 for a close frame without a code, 1006 without a close frame."""
    reason: str
    by: Side

    def __str__(self) -> str:
        if self.code == NO_CLOSE_FRAME:
            return "no close frame (1006)"
        return f"close {self.code}" + (f" {self.reason!r}" if self.reason else "")


@dataclass(slots=True)
class Attempt:
    """One connection of a session, or one that was tried."""

    began_at: float
    base: int = 0
    """How many segments of the session lie before its first one."""
    status: int | None = None
    """The HTTP status where the upgrade was refused."""
    fault: str | None = None
    """Why there was no HTTP answer."""
    opened_at: float | None = None
    subprotocol: str | None = None
    story: Story = field(default_factory=Story)
    first_message_at: float | None = None
    first_segment_at: float | None = None
    asked: list[tuple[Prompt, float]] = field(default_factory=list)
    """Prompts that were sent, with their times."""
    completed_at: list[float] = field(default_factory=list)
    """Of each complete segment."""
    heard_at: float | None = None
    """Of the last message."""
    silence_seconds: float = 0.0
    """The longest without a message, while segments were owed."""
    sequence: list[str] = field(default_factory=list)
    """Types of the messages in order, with `binary` for any number of binary ones in a row, and `other`."""
    binary_messages: int = 0
    other_messages: int = 0
    """Text without a type."""
    ended_at: float | None = None
    ending: Ending | None = None

    @property
    def completed(self) -> list[Segment]:
        """Its complete segments."""
        return [segment for segment in self.story.segments if segment.complete]


@dataclass(slots=True)
class SessionSeen:
    """A driven session."""

    name: str
    plan: Sessions
    attempts: list[Attempt] = field(default_factory=list)
    through: bool = False
    """Its script was done to the end."""
    over: bool = False
    """There is nothing more to come of it."""

    @property
    def prompts(self) -> list[Prompt]:
        """All that it was to ask for."""
        return [line for line in self.plan.prompts if isinstance(line, Prompt)]

    @property
    def last(self) -> Attempt | None:
        """The newest connection."""
        return self.attempts[-1] if self.attempts else None

    @property
    def was_cut(self) -> bool:
        """Its last connection went, or was not to be had, without a word of the gateway's."""
        if (last := self.last) is None:
            return False
        ending = last.ending
        cut = ending is not None and ending.code == NO_CLOSE_FRAME and ending.by == "gateway"
        return last.fault is not None or cut

    @property
    def segments(self) -> list[Segment]:
        """The complete ones that the client has in the end: those of a later connection take the place of
        those that it made again."""
        kept: dict[int, Segment] = {}
        for attempt in self.attempts:
            kept |= {attempt.base + segment.number: segment for segment in attempt.completed}
        return [kept[number] for number in sorted(kept)]

    @property
    def types(self) -> Iterator[str]:
        """Of all text messages, in order."""
        for attempt in self.attempts:
            yield from attempt.story.types

    @property
    def sequence(self) -> Iterator[str]:
        """Of all messages, in order, as an attempt has them."""
        for attempt in self.attempts:
            yield from attempt.sequence


@dataclass(slots=True)
class StatusSeen:
    """What the gateway said of its replicas, for one check."""

    held: bool = False
    last: Mapping[str, str] | None = None
    """Its newest answer, by replica; None without one."""


@dataclass(slots=True)
class GatewaySeen:
    """The gateway's process, where it is one of ours."""

    started: bool = False
    signalled_at: float | None = None
    """Of the first signal that the scenario sent."""
    ended_at: float | None = None
    returncode: int | None = None
    """None while it ran until the play was over."""
    tail: str = ""
    """The end of its output."""


@dataclass(slots=True)
class Played:
    """One play, as it was seen."""

    scenario: Scenario
    seed: int
    urls: dict[str, str] = field(default_factory=dict)
    """Of the replicas, by name."""
    sessions: dict[str, SessionSeen] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """Of all replicas, in order; `at` is since the beginning here too."""
    moments: list[Moment] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """What never came: steps, and openings of sessions, in words."""
    waiting_steps: list[int] = field(default_factory=list)
    """Numbers of the steps among them, from 1."""
    not_done: list[str] = field(default_factory=list)
    """Actions that could not be done, and why."""
    statuses: list[StatusSeen] = field(default_factory=list)
    """One a check of the scenario, in its order."""
    gateway: GatewaySeen = field(default_factory=GatewaySeen)
    open_settings: tuple[str, ...] = ()
    """Settings of the scenario's that the gateway may not have, in words: it was not started here."""
    ended_at: float | None = None
    overran: bool = False
    """The deadline ended it."""

    def generation_of(self, plan: Plan) -> Generation:
        """How a replica of this play generates."""
        return dataclasses.replace(plan.generation, media=self.scenario.replicas.media)

    def tell(self, at: float, who: str, what: str) -> None:
        """It is in the account."""
        self.moments.append(Moment(at, who, what))


def owners(events: Sequence[Event]) -> dict[tuple[str, int], str]:
    """Whose session each one of the replicas is, by replica and its own count: by the header that clients
    send, or by the client's id where a gateway has dropped that."""
    found: dict[tuple[str, int], str] = {}
    for event in events:
        if event.session is None:
            continue
        key = event.replica, event.session
        match event.kind:
            case "upgrade_received":
                wanted = SESSION_HEADER.lower()
                names = [value for name, value in event.detail["headers"] if name.lower() == wanted]
                if names:
                    found[key] = names[0]
            case "message_received" if "client_id" in event.detail:
                found.setdefault(key, event.detail["client_id"])
            case _:
                pass
    return found
