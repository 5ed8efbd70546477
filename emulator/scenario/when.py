"""PURE. What a step or a session can wait for: an event at a replica or at a client, or a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StrictInt, Tag

from emulator.scenario.values import MOST, Duration, Name, Part, Pattern, Word

ReplicaEvent = Literal[
    "upgrade",
    "open",
    "init",
    "segment_start",
    "segment",
    "segment_end",
    "snapshot",
    "session_opened",
    "session_rejected",
    "session_closed",
    "message_received",
    "close_received",
    "health",
    "woken",
    "fell_asleep",
]
"""Where a session of a replica can come to, in order. Those that are points of faults (`upgrade` to
`snapshot`) fire before the replica does or sends anything more; the others are events of its log, and
`health` is an answered probe. `woken` and `fell_asleep` are of one that scales to zero."""
OF_NO_SESSION: frozenset[ReplicaEvent] = frozenset({"health", "woken", "fell_asleep"})
"""What happens at a replica whether there are sessions or not."""
ClientEvent = Literal[
    "opened",
    "refused",
    "queued",
    "assigned",
    "segment_start",
    "media",
    "segment_end",
    "resumed",
    "error",
    "message",
    "closed",
]
"""What a client can meet: the accepted upgrade, a refused one, its first `queue_status`, `gpu_assigned`,
`ltx2_segment_start`, the first binary message of a segment, `ltx2_segment_complete`, `session_resumed`, an
`error`, a message with the `type` that is named, the end."""
ReplicaStatus = Literal["healthy", "unhealthy", "unknown"]
"""As `GET /status` of the gateway says it."""

_Nth = Annotated[StrictInt, Field(ge=1, le=MOST)]


class ReplicaWhen(Part):
    """Something happens at a replica."""

    replica: Pattern
    """Whose event, by name (a pattern is any of those that fit)."""
    event: ReplicaEvent
    """Which."""
    session: _Nth | None = None
    """The replica's own count of upgrade requests, from 1; left out is any session."""
    n: _Nth = 1
    """The n-th time: in that session, or on the replica where no session is named."""
    after: Duration = 0.0
    """So long after it. 0 is at once: nothing more is sent before the step has been done."""


class ClientWhen(Part):
    """Something happens to a driven session."""

    session: Name
    """Its name."""
    event: ClientEvent
    """Which."""
    type: Word | None = None
    """Of the message, where the event is `message`; the code of the error, where it is `error`."""
    n: _Nth = 1
    """The n-th time."""
    after: Duration = 0.0
    """So long after it."""


class StatusWhen(Part):
    """The gateway's `/status` says this of the replicas, all of it at once."""

    status: Annotated[dict[Pattern, ReplicaStatus], Field(min_length=1)]
    """By the replica's name, or a pattern."""
    after: Duration = 0.0
    """So long after it."""


When = ReplicaWhen | ClientWhen | StatusWhen


_KEYS: Mapping[str, str] = {"status": "StatusWhen", "replica": "ReplicaWhen", "session": "ClientWhen"}
"""By the key that tells; a replica's event may name a session too."""


def _kind_of(written: object) -> str | None:
    if isinstance(written, Mapping):
        return next((f"({kind})" for key, kind in _KEYS.items() if key in written), None)
    return f"({type(written).__name__})" if isinstance(written, Part) else None


AnyWhen = Annotated[
    Annotated[ReplicaWhen, Tag("(ReplicaWhen)")]
    | Annotated[ClientWhen, Tag("(ClientWhen)")]
    | Annotated[StatusWhen, Tag("(StatusWhen)")],
    Discriminator(
        _kind_of,
        custom_error_type="when",
        custom_error_message="should be a mapping with replica and event, session and event, or status",
    ),
]
"""A When, told apart by its keys."""
