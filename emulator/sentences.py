"""PURE. What happens on a replica, in a line for people.

Headers never get here, so neither do tokens and cookies.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.events import Event

_SENTENCES: Mapping[str, str] = {
    "state_changed": "{before} -> {after}",
    "port_opened": "takes connections",
    "port_closed": "refuses connections",
    "port_filled": "lets connections hang",
    "fault_armed": "fault {fault} set",
    "fault_lifted": "fault {fault} lifted",
    "fault_struck": "fault {fault} strikes",
    "session_opened": "opened",
    "session_rejected": "rejected, all {capacity} places are taken",
    "session_closed": "closed, code {code}",
    "woken": "woken by connection {connection}",
    "warmed": "awake",
    "fell_asleep": "fell asleep after {awake_seconds:.1f} s",
    "listed": "in Cloud Map as {id}, {health}",
    "unlisted": "in Cloud Map no longer as {id}",
}


def line_for(event: Event) -> str | None:
    """One line for an event worth a look, None for the rest."""
    sentence = _SENTENCES.get(event.kind)
    way = event.detail.get("way")
    if sentence is None or way == "healthy":
        return None
    if event.kind == "session_closed" and event.detail.get("code") is None:
        sentence = "ended without a close frame"
    told = {"connection": event.connection, **event.detail}
    session = f" session {event.session}" if event.session is not None else ""
    return f"{event.replica}{session}: {sentence.format_map(told)}" + (f" ({way})" if way else "")
