"""PURE. What a scenario expects: of its sessions, of the replicas, and of the gateway's /status and exit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag

from emulator.scenario.values import Duration, HowMany, ItemT, OneOrMore, Part, Pattern, Word, count_from
from emulator.scenario.when import ReplicaStatus

CloseCode = Annotated[StrictInt, Field(ge=1000, le=4999)]
HttpStatus = Annotated[StrictInt, Field(ge=100, le=599)]


NoneOr = Annotated[
    Annotated[Literal["none"], Tag("(text)")] | Annotated[ItemT, Tag("(more)")],
    Discriminator(lambda written: "(text)" if isinstance(written, str) else "(more)"),
]
"""The word `none`, or more than that."""
_AllOrCount = Annotated[
    Annotated[Literal["all"], Tag("(all)")]
    | Annotated[
        HowMany, BeforeValidator(lambda written: count_from(written, or_else="all, ")), Tag("(more)")
    ],
    Discriminator(lambda written: "(all)" if written == "all" else "(more)"),
]


class Close(Part):
    """How a session ended, in a browser's words: 1005 is a close frame without a code, 1006 a connection that
    ended without a close frame."""

    code: OneOrMore[CloseCode] | None = None
    """The code, or a list of codes of which each is right."""
    reason: OneOrMore[StrictStr] | None = None
    """The reason, or a list of reasons of which each is right."""
    by: Literal["client", "gateway"] | None = None
    """Who closed first."""


def _close_from(written: object) -> object:
    return {"code": written} if isinstance(written, int | list) and not isinstance(written, bool) else written


AnyClose = Annotated[
    Close, BeforeValidator(_close_from, json_schema_input_type=CloseCode | list[CloseCode] | Close)
]

Errors = dict[Word, HowMany]


def _errors_from(written: object) -> object:
    if isinstance(written, list) and all(isinstance(code, str) for code in written):
        return dict.fromkeys(written, "some")
    return written


AnyErrors = Annotated[
    Annotated[Literal["none", "some"], Tag("(text)")]
    | Annotated[
        Errors, BeforeValidator(_errors_from, json_schema_input_type=list[Word] | Errors), Tag("(more)")
    ],
    Discriminator(lambda written: "(text)" if isinstance(written, str) else "(more)"),
]


class OfSession(Part):
    """What is expected of each session that a pattern fits. What is left out is not looked at."""

    how_many: HowMany | None = None
    """So many of the sessions that fit have to meet all of the rest; left out is every one."""
    opened: StrictBool | None = None
    """Its upgrade was accepted (in the end, where it reconnects)."""
    refused: NoneOr[OneOrMore[HttpStatus]] | None = None
    """An upgrade was refused with this HTTP status (or one of these); `none`: no upgrade was refused."""
    connects: HowMany | None = None
    """Upgrades that it tried, the first included."""
    subprotocol: StrictStr | None = None
    """The answered one; an empty text is none."""
    messages: dict[Word, HowMany] = Field(default_factory=dict)
    """Text messages by their `type`; `binary` are the binary ones, `other` those without a type."""
    order: tuple[Word, ...] = ()
    """Types that came in this order, whatever came between them."""
    segments: _AllOrCount | None = None
    """Complete segments; `all`: as many as it asked for."""
    gaps: Literal["none"] | None = None
    """`none`: complete segments are numbered 0, 1, 2 and so on, each number once, in every connection."""
    media: Literal["undisturbed"] | None = None
    """`undisturbed`: each complete segment has the very bytes that a session without faults gets."""
    resumed: HowMany | None = None
    """Messages `session_resumed`."""
    errors: AnyErrors | None = None
    """Messages `error`: `none`, `some`, a list of the codes that came (and no others did), or how many of
    each code (and none of others)."""
    retryable: StrictBool | None = None
    """What every `error` said of another attempt."""
    close: NoneOr[AnyClose] | None = None
    """How it ended (the last connection); `none`: not before the play was over, or not by the other side."""
    served_by: tuple[Pattern, ...] | None = None
    """The replicas that opened it, one after the other, by name or pattern."""
    moves: HowMany | None = None
    """How often another replica took it over, as the replicas saw it."""
    first_message_within: Duration | None = None
    """From connecting to the first message. Bounds are orders of magnitude, not measurements."""
    first_segment_within: Duration | None = None
    """From connecting to the first complete segment."""
    segments_within: Duration | None = None
    """Each segment, from its prompt to its completion."""
    silence_within: Duration | None = None
    """The longest time without any message, from the first prompt to the last complete segment."""
    ended_within: Duration | None = None
    """From connecting to the end."""


class OfReplica(Part):
    """What is expected of each replica that a pattern fits. What is left out is not looked at."""

    together: StrictBool = False
    """All that fit are counted as one: it does not matter which of them it was."""
    sessions: HowMany | None = None
    """Sessions that it opened in all, those that moved here included."""
    at_once: HowMany | None = None
    """The most that it had at the same time."""
    upgrades: HowMany | None = None
    """Upgrade requests that it got."""
    rejected: HowMany | None = None
    """Sessions that it refused in band because it was full."""
    probes: HowMany | None = None
    """Requests on its health routes."""
    wakes: HowMany | None = None
    """How often it was woken, by whatever came; for one that scales to zero."""
    messages: dict[Word, HowMany] = Field(default_factory=dict)
    """Text messages that it got, by their `type`; `binary` are the binary ones."""
    order: tuple[Word, ...] = ()
    """Message types that it got in this order in one of its sessions, whatever came between them."""
    struck: dict[Word, HowMany] = Field(default_factory=dict)
    """How often each fault took its turn, by the fault's name: that the failure happened at all."""
    saw: dict[Word, HowMany] = Field(default_factory=dict)
    """Events of its log, by kind."""
    closes: dict[Annotated[int, Field(ge=1000, le=4999)], HowMany] = Field(default_factory=dict)
    """Close frames that it got, by code."""
    headers: dict[Word, StrictStr | None] = Field(default_factory=dict)
    """Of every upgrade that it got: the value, a pattern (`*` is any), or null for none such."""
    path: StrictStr | None = None
    """Of every upgrade that it got."""
    query: StrictStr | None = None
    """Of every upgrade that it got."""


class StatusCheck(Part):
    """What the gateway's /status says of the replicas, all of it at once."""

    replicas: Annotated[dict[Pattern, ReplicaStatus], Field(min_length=1)]
    """By name or pattern."""
    at: Duration | None = None
    """Looked at from so long after the beginning on; left out is when sessions and steps are through."""
    within: Duration = 5.0
    """It has to be so at some time within so long."""


class OfGateway(Part):
    """What is expected of the gateway's process, which the runner has to have started itself."""

    exit: NoneOr[Annotated[StrictInt, Field(ge=-64, le=255)]] = "none"
    """Its exit status (a signal's is negative); `none`: it runs until the end of the play. Without this
    section it is held to `none`."""
    within: Duration = 10.0
    """From its first signal to its exit."""


class Expectations(Part):
    """What is held against what happened."""

    sessions: dict[Pattern, OneOrMore[OfSession]] = Field(default_factory=dict)
    """By the session's name or a pattern; what stands there may be a list of several sets: `s: [{}, {}]`."""
    replicas: dict[Pattern, OneOrMore[OfReplica]] = Field(default_factory=dict)
    """By the replica's name or a pattern; what stands there may be a list of several sets, as above."""
    status: OneOrMore[StatusCheck] = ()
    """Of the gateway's /status."""
    gateway: OfGateway = OfGateway()
    """Of the gateway's process."""

    @property
    def holds_anything(self) -> bool:
        """Whether anything is looked at that happens whatever the scenario says."""
        parts = [one for several in (*self.sessions.values(), *self.replicas.values()) for one in several]
        says = any(part.model_fields_set - {"how_many", "together"} for part in parts)
        return says or bool(self.status) or "gateway" in self.model_fields_set
