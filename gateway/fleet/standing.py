"""PURE. What a member learns from each answer to its own beats.

1. Its `since` is newer than before: its entry was gone in between (it was stopped for longer than the ttl, or
   the store was emptied). It is a new member to all others.
2. Its entry was written by another incarnation since its own last beat: a second live process has the same
   id. At the first beat that proves nothing: a process that died within the ttl leaves such an entry.
3. Members joined, or are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway.fleet.sighting import Sighting
from gateway.fleet.store import Answer


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Others came or went; each a sorted tuple of ids."""

    joined: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryWasExpired:
    """This member's entry was gone, and it joined anew."""

    absent_seconds: float
    """From the view before to this one, by the store's clock: the entry was gone for some of that."""


@dataclass(frozen=True, slots=True)
class IdTakenOver:
    """At the first beat the id had an entry: of a process that ended lately, or of one that still lives."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class IdShared:
    """A second live process beats under this id: the fleet sees one member where there are two."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class IdOwnAgain:
    """For a whole ttl no other process has beaten under this id."""


StandingEvent = MembersChanged | EntryWasExpired | IdTakenOver | IdShared | IdOwnAgain


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a member stands after its last answered beat."""

    sighting: Sighting
    """The fleet, as this member last saw it."""
    since: datetime | None
    """Its own `since`; None where it is not in its own view (a beat that a later one had overtaken)."""
    shared_at: datetime | None = None
    """When another process was last noticed under this id, by the store's clock; None where none was."""


def first_standing(
    answer: Answer, me: str, incarnation: str, seen_at_seconds: float
) -> tuple[Standing, tuple[StandingEvent, ...]]:
    """What the first answered beat tells."""
    standing = Standing(Sighting(answer.view, seen_at_seconds), _since(answer, me))
    if answer.found in (None, incarnation):
        return standing, ()
    return standing, (IdTakenOver(str(answer.found)),)


def next_standing(
    before: Standing, answer: Answer, me: str, incarnation: str, ttl: timedelta, seen_at_seconds: float
) -> tuple[Standing, tuple[StandingEvent, ...]]:
    """What any later answered beat tells, with an event only for each thing that changed."""
    view, last = answer.view, before.sighting.view
    events: list[StandingEvent] = []
    since = _since(answer, me)
    if before.since is not None and since is not None and since > before.since:
        events.append(EntryWasExpired((view.at - last.at).total_seconds()))
    shared_at = before.shared_at
    if answer.found not in (None, incarnation):
        if shared_at is None:
            events.append(IdShared(str(answer.found)))
        shared_at = view.at
    elif shared_at is not None and not timedelta(0) <= view.at - shared_at <= ttl:
        events.append(IdOwnAgain())
        shared_at = None
    had = {member.id for member in last.members} - {me}
    has = {member.id for member in view.members} - {me}
    if had != has:
        events.append(MembersChanged(tuple(sorted(has - had)), tuple(sorted(had - has))))
    sighting = before.sighting.next(view, seen_at_seconds)
    return Standing(sighting, since if since is not None else before.since, shared_at), tuple(events)


def _since(answer: Answer, me: str) -> datetime | None:
    member = answer.view.member(me)
    return member.since if member is not None else None
