"""PURE. From what is known to one picture: which replicas and sessions fit into the terminal, in which
columns, and what is said of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from emulator.live.watch import SessionSeen, Watch

Tone = Literal["", "good", "busy", "bad", "dim"]

MOST_TAIL = 10
"""Lines of what happened lately, where there is room."""
TWO_LINES_FROM = 8
"""Lines of a terminal whose head has two."""
SECTION_LINES = 1
"""Of a section beside its rows: its headings."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, and what kind of news it is."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under headings; `rest` speaks of those that had no room."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the terminal shows; it has no more lines than the terminal."""

    head: tuple[str, ...]
    replicas: Section | None
    sessions: Section | None
    tail: tuple[str, ...]

    @property
    def lines(self) -> int:
        sections = [section for section in (self.replicas, self.sessions) if section is not None]
        return (
            len(self.head)
            + len(self.tail)
            + sum(SECTION_LINES + len(section.rows) + bool(section.rest) for section in sections)
        )


@dataclass(frozen=True, slots=True)
class Size:
    """Of a terminal, in characters."""

    columns: int
    lines: int


@dataclass(frozen=True, slots=True)
class Room:
    """How many lines each part may have, headings included."""

    head: int
    replicas: int
    sessions: int
    tail: int


def room_in(lines: int, replicas: int, sessions: int, tail: int) -> Room:
    """How `lines` are shared between so many replicas, sessions and lines of news.

    The head comes first, then the replicas; sessions and news get what is left, and what one does not need
    the other has.
    """
    head = min(2 if lines >= TWO_LINES_FROM else 1, lines)
    left = lines - head
    news = min(tail, MOST_TAIL, left // 4)
    left -= news
    wanted_replicas = replicas + SECTION_LINES
    wanted_sessions = sessions + SECTION_LINES if sessions else 0
    for_replicas = min(wanted_replicas, max(left - wanted_sessions, (left + 1) // 2))
    for_sessions = min(wanted_sessions, left - for_replicas)
    spare = left - for_replicas - for_sessions
    return Room(
        head=head,
        replicas=for_replicas if for_replicas > SECTION_LINES else 0,
        sessions=for_sessions if for_sessions > SECTION_LINES else 0,
        tail=min(tail, MOST_TAIL, news + spare),
    )


def fits(lines: int, count: int) -> int:
    """How many of `count` rows fit into a section of so many lines; a line is kept for the rest, if any."""
    rows = max(0, lines - SECTION_LINES)
    return count if count <= rows else max(0, rows - 1)


def busiest_replicas(watch: Watch, names: Sequence[str], count: int, now: float) -> list[str]:
    """The `count` replicas with the most traffic, then the most sessions; told in their own order."""
    if count >= len(names):
        return list(names)

    def business(name: str) -> tuple[float, int, int]:
        seen = watch.replicas.get(name)
        return (seen.sent.rate(now), seen.sessions, seen.sent.total) if seen else (0.0, 0, 0)

    chosen = set(sorted(names, key=business, reverse=True)[:count])
    return [name for name in names if name in chosen]


def busiest_sessions(watch: Watch, count: int, now: float) -> list[SessionSeen]:
    """The `count` sessions with the most traffic, then the newest news; told oldest first."""
    sessions = list(watch.sessions.values())
    if count >= len(sessions):
        return sessions
    ranked = sorted(sessions, key=lambda seen: (seen.sent.rate(now), seen.last_at), reverse=True)[:count]
    return sorted(ranked, key=lambda seen: (seen.opened_at, seen.replica, seen.number))


# The columns: what each shows, and the width of the terminal from which it has a place.

Status = Mapping[str, Any]
"""A replica, as its `status()` tells it."""


def _replica_columns(
    watch: Watch, now: float, *, scales: bool
) -> tuple[tuple[int, str, Callable[[Status], Cell]], ...]:
    """`scales`: there is a replica that sleeps while nobody uses it."""
    return (
        (0, "replica", lambda status: Cell(status["name"])),
        (0, "state", _state),
        (96, "port", lambda status: Cell(str(status["url"]).rpartition(":")[2], "dim")),
        (52, "health", lambda status: _health(watch, status)),
        (24, "sessions", lambda status: _places(status)),
        (80, "segments", lambda status: _count(watch.of(status["name"]).segments)),
        (64, "sent/s", lambda status: _rate(watch.of(status["name"]).sent.rate(now))),
        (104, "connects", lambda status: _count(status["connections_total"])),
        *([(70, "wakes", _wakes), (88, "billed", _billed)] if scales else []),
        (36, "faults", _faults),
    )


def _session_columns(now: float) -> tuple[tuple[int, str, Callable[[SessionSeen], Cell]], ...]:
    return (
        (0, "session", lambda seen: Cell(f"{seen.replica} {seen.number}")),
        (40, "client", lambda seen: Cell(seen.client_id or "-", "" if seen.client_id else "dim")),
        (48, "segment", lambda seen: Cell("-" if seen.segment is None else str(seen.segment))),
        (32, "age", lambda seen: Cell(age(now - seen.opened_at))),
        (64, "received", lambda seen: Cell(size(seen.received_bytes))),
        (56, "sent", lambda seen: Cell(size(seen.sent.total))),
        (72, "sent/s", lambda seen: _rate(seen.sent.rate(now))),
        (0, "does", _does),
    )


def frame_of(
    watch: Watch,
    states: Mapping[str, str],
    status_of: Callable[[str], Status],
    now: float,
    screen: Size,
    note: str = "",
) -> Frame:
    """The picture of this moment. `states`: every replica's state by name; `status_of` is asked only for
    replicas that are shown; `note` is the second line of a head that has two."""
    room = room_in(screen.lines, len(states), len(watch.sessions), len(watch.tail))
    shown = busiest_replicas(watch, list(states), fits(room.replicas, len(states)), now)
    sessions = busiest_sessions(watch, fits(room.sessions, len(watch.sessions)), now)
    statuses = [status_of(name) for name in shown]
    scales = any(status["scale_to_zero"] is not None for status in statuses)
    return Frame(
        head=(_head(watch, states, now), note)[: room.head],
        replicas=_section(
            _replica_columns(watch, now, scales=scales),
            statuses,
            screen.columns,
            _rest_of_replicas(watch, [name for name in states if name not in set(shown)], states, now),
        )
        if room.replicas
        else None,
        sessions=_section(_session_columns(now), sessions, screen.columns, _rest_of_sessions(watch, sessions))
        if room.sessions
        else None,
        tail=tuple(f"{clock_time(at)} {line}" for at, line in list(watch.tail)[-room.tail :])
        if room.tail
        else (),
    )


def _section(
    columns: Sequence[tuple[int, str, Callable[[Any], Cell]]],
    subjects: Iterable[Any],
    width: int,
    rest: str,
) -> Section:
    kept = [(heading, cell) for least, heading, cell in columns if width >= least]
    return Section(
        headings=tuple(heading for heading, _ in kept),
        rows=tuple(tuple(cell(subject) for _, cell in kept) for subject in subjects),
        rest=rest,
    )


def _head(watch: Watch, states: Mapping[str, str], now: float) -> str:
    parts = [
        f"{len(states)} replicas ({tally(states.values())})",
        f"{len(watch.sessions)} sessions, {watch.opened_total} so far",
        f"{watch.segments_total} segments",
        f"{size(watch.sent.rate(now))}/s",
        f"{watch.strikes_total} faults struck",
    ]
    return "  ".join(parts)


def tally(words: Iterable[str]) -> str:
    """How often each word came, the most frequent first."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda item: -item[1]))


def _rest_of_replicas(watch: Watch, rest: Sequence[str], states: Mapping[str, str], now: float) -> str:
    if not rest:
        return ""
    seen = [watch.of(name) for name in rest]
    return (
        f"and {len(rest)} more: {tally(states[name] for name in rest)}; "
        f"{sum(one.sessions for one in seen)} sessions, {sum(one.segments for one in seen)} segments, "
        f"{size(sum(one.sent.rate(now) for one in seen))}/s"
    )


def _rest_of_sessions(watch: Watch, shown: Sequence[SessionSeen]) -> str:
    count = len(watch.sessions) - len(shown)
    if count == 0:
        return ""
    keys = {(seen.replica, seen.number) for seen in shown}
    return f"and {count} more: {tally(s.doing for key, s in watch.sessions.items() if key not in keys)}"


# Cells

_POWER_TONES: Mapping[str, Tone] = {"asleep": "dim", "waking": "busy", "awake": "good"}


def _state(status: Status) -> Cell:
    state = str(status["state"])
    if state == "running" and status["refusing"]:
        return Cell("refusing", "bad")
    if state == "running" and (scaling := status["scale_to_zero"]) is not None:
        return Cell(scaling["power"], _POWER_TONES[scaling["power"]])
    return Cell(state, "good" if state == "running" else "bad")


def _health(watch: Watch, status: Status) -> Cell:
    """What a probe meets: by the state, else by the last one's answer."""
    state = str(status["state"])
    if state != "running" or status["refusing"]:
        return Cell("hangs" if state == "paused" else "gone", "bad")
    if status["warming"]:
        return Cell("warming", "busy")
    seen = watch.of(status["name"])
    if seen.is_silent:
        return Cell("no answer", "bad")
    if seen.probe is None:
        return Cell("-", "dim")
    return Cell(str(seen.probe), "good" if seen.probe < 300 else "bad")


def _places(status: Status) -> Cell:
    taken, places = int(status["sessions"]), int(status["capacity"])
    return Cell(f"{taken}/{places}", "busy" if taken >= places else "" if taken else "dim")


def _wakes(status: Status) -> Cell:
    scaling = status["scale_to_zero"]
    return Cell("-", "dim") if scaling is None else _count(scaling["wakes"])


def _billed(status: Status) -> Cell:
    """How long it has been awake in all; what is always awake has no such count."""
    scaling = status["scale_to_zero"]
    return Cell("-", "dim") if scaling is None else Cell(age(scaling["billed_seconds"]))


def _faults(status: Status) -> Cell:
    """Every fault that stands, with how often it struck; one whose time is not now is in brackets."""
    faults = status["faults"]
    texts = []
    for name, fault in faults.items():
        text = f"{name} {fault['struck']}x" if fault["struck"] else name
        texts.append(text if fault["live"] else f"({text})")
    return Cell(", ".join(texts), "busy" if any(fault["live"] for fault in faults.values()) else "dim")


def _does(seen: SessionSeen) -> Cell:
    if seen.doing.startswith(("fault", "was told")):
        return Cell(seen.doing, "bad")
    return Cell(seen.doing, "dim" if seen.doing == "idle" else "")


def _count(number: int) -> Cell:
    return Cell(str(number), "" if number else "dim")


def _rate(rate: float) -> Cell:
    return Cell(f"{size(rate)}", "" if rate else "dim")


# Words


def size(bytes_: float) -> str:
    """Bytes as people read them, in at most nine characters below a pebibyte."""
    if bytes_ < 1024:
        return f"{bytes_:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        bytes_ /= 1024
        if bytes_ < 1000:
            return f"{bytes_:.1f} {unit}"
    return f"{bytes_ / 1024:.1f} TiB"


def age(seconds: float) -> str:
    """A span of time as people read it."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def clock_time(at: float) -> str:
    """The time of day here."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
