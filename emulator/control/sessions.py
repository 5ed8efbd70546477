"""PURE. The sessions that are open now, as a fold over the event log."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.control.answers import OpenSession
from emulator.events import Event

DEAD = ("killed", "stopped")


@dataclass(slots=True)
class _Seen:
    """What is known of one."""

    session: int
    path: str
    opened_at: float | None = None
    """None before it has its place."""
    received: int = 0
    sent: int = 0
    sent_bytes: int = 0
    segments: int = 0


@dataclass(slots=True)
class Sessions:
    """Takes each event once, in order."""

    _seen: dict[tuple[str, int], _Seen] = field(default_factory=dict)
    """By replica and connection."""

    def take(self, event: Event) -> None:
        """What is known is up to this event."""
        if event.kind == "state_changed" and event.detail.get("after") in DEAD:
            # A killed process tells nothing of its sessions' end.
            for key in [key for key in self._seen if key[0] == event.replica]:
                del self._seen[key]
        if event.connection is None:
            return
        key = (event.replica, event.connection)
        if event.kind == "upgrade_received" and event.session is not None:
            self._seen[key] = _Seen(event.session, _target_of(event))
        elif event.kind in ("session_closed", "session_rejected", "connection_closed"):
            self._seen.pop(key, None)
        elif (seen := self._seen.get(key)) is not None:
            _count(seen, event)

    def open(self, replica: str | None = None) -> list[OpenSession]:
        """Those that have their place now, the oldest first; of one replica or of all."""
        return [
            OpenSession(
                replica=name,
                session=seen.session,
                opened_at=seen.opened_at,
                path=seen.path,
                received=seen.received,
                sent=seen.sent,
                sent_bytes=seen.sent_bytes,
                segments=seen.segments,
            )
            for (name, _), seen in self._seen.items()
            if seen.opened_at is not None and replica in (None, name)
        ]


def _target_of(event: Event) -> str:
    path, query = event.detail.get("path", ""), event.detail.get("query", "")
    return f"{path}?{query}" if query else str(path)


def _count(seen: _Seen, event: Event) -> None:
    match event.kind:
        case "session_opened":
            seen.opened_at = event.at
        case "message_received" | "binary_received":
            seen.received += 1
        case "message_sent" | "binary_sent":
            seen.sent += 1
            seen.sent_bytes += event.detail.get("size_bytes", 0)
            seen.segments += event.detail.get("type") == "ltx2_segment_start"
        case _:
            pass
