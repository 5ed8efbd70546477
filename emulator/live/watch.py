"""PURE. What has been going on, kept up event by event: the live view's memory.

It hears every event of the log once, and costs nothing while nothing happens. Times are those of the events.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from emulator.events import Event
from emulator.sentences import line_for

WINDOW_SECONDS = 2.0
"""Over which a rate is told."""
TAIL = 100
"""Lines kept of what happened lately."""
CLIENT_ID_LENGTH = 40

_DOING = {
    "queue_status": "waits for a GPU",
    "gpu_assigned": "opens",
    "ltx2_stream_start": "idle",
    "ltx2_segment_start": "makes a segment",
    "step_complete": "makes a segment",
    "media_init": "sends media",
    "media_segment_complete": "sends media",
    "ltx2_segment_complete": "idle",
    "ltx2_stream_complete": "is complete",
    "session_timeout": "timed out",
    "continuation_state_snapshot": "idle",
}
"""What a session does once it has said a message of this type."""


def printable(text: str, length: int) -> str:
    """`text` without what would move the cursor or hide itself, and no longer than `length`."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1] + "…"


@dataclass(slots=True)
class Flow:
    """An amount that grows, and how fast it grew lately."""

    total: int = 0
    _slot: int = 0
    _now: int = 0
    _before: int = 0

    def add(self, amount: int, at: float) -> None:
        """`amount` more, at this time."""
        self._turn_to(at)
        self.total += amount
        self._now += amount

    def rate(self, at: float) -> float:
        """A second, over the last WINDOW_SECONDS before `at`."""
        self._turn_to(at)
        left = 1.0 - at % WINDOW_SECONDS / WINDOW_SECONDS
        return (self._before * left + self._now) / WINDOW_SECONDS

    def _turn_to(self, at: float) -> None:
        slot = int(at // WINDOW_SECONDS)
        if slot != self._slot:
            self._before = self._now if slot == self._slot + 1 else 0
            self._now = 0
            self._slot = slot


@dataclass(slots=True)
class SessionSeen:
    """A session that is open."""

    replica: str
    number: int
    opened_at: float
    client_id: str = ""
    segment: int | None = None
    """The newest that it was told of."""
    doing: str = "opens"
    sent: Flow = field(default_factory=Flow)
    """Bytes of messages to the client."""
    received_bytes: int = 0
    last_at: float = 0.0
    """When something last happened in it."""


@dataclass(slots=True)
class ReplicaSeen:
    """What a replica has done since the view began."""

    sessions: int = 0
    """Open now."""
    segments: int = 0
    """Complete ones."""
    sent: Flow = field(default_factory=Flow)
    probe: int | None = None
    """The status that its last plain request got; None before the first."""
    is_silent: bool = False
    """The last plain request got no answer."""


class Watch:
    """Hears events, and knows what stands now."""

    def __init__(self) -> None:
        self.replicas: dict[str, ReplicaSeen] = {}
        """Those that something was heard of."""
        self.sessions: dict[tuple[str, int], SessionSeen] = {}
        """Those that are open, by replica and number, oldest first."""
        self.sent = Flow()
        self.opened_total = 0
        self.segments_total = 0
        self.strikes_total = 0
        self.tail: deque[tuple[float, str]] = deque(maxlen=TAIL)
        """When, and a line for it; the newest last."""

    def of(self, replica: str) -> ReplicaSeen:
        """What is known of it, and be it nothing."""
        return self.replicas.get(replica) or ReplicaSeen()

    def say(self, line: str, at: float) -> None:
        """The line is in the tail."""
        self.tail.append((at, printable(line, 300)))

    def hear(self, event: Event) -> None:
        """The event has been taken into account."""
        if (line := line_for(event)) is not None:
            self.say(line, event.at)
        seen = self.replicas.setdefault(event.replica, ReplicaSeen())
        if event.kind == "http_answered":
            status = event.detail.get("status")
            seen.is_silent = status is None
            seen.probe = status if isinstance(status, int) else seen.probe
        elif event.kind == "fault_struck" and event.detail.get("way") != "healthy":
            self.strikes_total += 1
        elif event.kind == "state_changed" and event.detail.get("after") in ("killed", "stopped"):
            # A process that was killed had no time to tell of its sessions' ends.
            for key in [key for key in self.sessions if key[0] == event.replica]:
                del self.sessions[key]
            seen.sessions = 0
        if event.session is not None:
            self._hear_of_session(event, event.session, seen)

    def _hear_of_session(self, event: Event, number: int, seen: ReplicaSeen) -> None:
        key = (event.replica, number)
        if event.kind == "session_opened":
            self.sessions[key] = SessionSeen(event.replica, number, event.at, last_at=event.at)
            seen.sessions += 1
            self.opened_total += 1
            return
        if (session := self.sessions.get(key)) is None:
            return
        session.last_at = event.at
        match event.kind:
            case "session_closed":
                del self.sessions[key]
                seen.sessions -= 1
            case "message_received" | "binary_received":
                self._received(session, event)
            case "message_sent" | "binary_sent":
                self._sent(session, event, seen)
            case "fault_struck" if event.detail.get("way") != "healthy":
                session.doing = f"fault: {event.detail.get('way') or event.detail.get('fault')}"
            case "close_sent" | "close_received":
                session.doing = f"closes, {event.detail.get('code')}"
            case _:
                pass

    def _received(self, session: SessionSeen, event: Event) -> None:
        session.received_bytes += event.detail.get("size_bytes", 0)
        if (client_id := event.detail.get("client_id")) is not None:
            session.client_id = printable(str(client_id), CLIENT_ID_LENGTH)

    def _sent(self, session: SessionSeen, event: Event, seen: ReplicaSeen) -> None:
        size = event.detail.get("size_bytes", 0)
        for flow in (session.sent, seen.sent, self.sent):
            flow.add(size, event.at)
        if (segment := event.detail.get("segment_idx")) is not None:
            session.segment = segment
        kind = event.detail.get("type")
        if event.kind == "binary_sent":
            session.doing = "sends media"
        elif kind == "error":
            session.doing = "was told an error"
        else:
            session.doing = _DOING.get(str(kind), session.doing)
        if kind == "ltx2_segment_complete":
            seen.segments += 1
            self.segments_total += 1
