"""What a membership logs: one line for each change, none for each beat."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never

from gateway.fleet.standing import (
    EntryWasExpired,
    IdOwnAgain,
    IdShared,
    IdTakenOver,
    MembersChanged,
    StandingEvent,
)
from gateway.fleet.view import FleetView
from gateway.logs import log_line

logger = logging.getLogger("streamhold.fleet")

_MOST_NAMED = 5
"""Members that one line names; of more it tells the number."""


class Telling:
    """The log lines of one member of one fleet."""

    def __init__(self, fleet: str, member: str) -> None:
        self._who = {"fleet": fleet, "member": member}

    def joined(self, view: FleetView) -> None:
        """The first beat was answered."""
        logger.info(log_line("fleet_joined", **self._who, members=len(view.members)))

    def beat_failed(self, reason: str, view_age_seconds: float, count: int, defect: Exception | None) -> None:
        """A beat got no answer: a warning for the first in a row, the others only at DEBUG."""
        level = logging.WARNING if count == 1 else logging.DEBUG
        line = log_line("fleet_beat_failed", **self._who, view_age_seconds=view_age_seconds, reason=reason)
        logger.log(level, line, exc_info=defect)

    def beats_again(self, failed_beats: int, seconds: float) -> None:
        """A beat was answered after some were not."""
        logger.info(log_line("fleet_beats_again", **self._who, failed_beats=failed_beats, seconds=seconds))

    def gone(self, how: str) -> None:
        """The last call was answered."""
        logger.info(log_line("fleet_left", **self._who, how=how))

    def could_not_go(self, reason: str) -> None:
        """The last call was not answered: the entry is left to expire."""
        logger.warning(log_line("fleet_left", **self._who, how="expires", reason=reason))

    def event(self, event: StandingEvent, view: FleetView) -> None:
        """One line for what an answer told."""
        match event:
            case MembersChanged(joined, gone):
                members = len(view.members)
                line = log_line(
                    "fleet_changed", **self._who, members=members, joined=_named(joined), gone=_named(gone)
                )
                logger.info(line)
            case EntryWasExpired(seconds):
                logger.warning(log_line("fleet_entry_was_expired", **self._who, absent_seconds=seconds))
            case IdTakenOver(incarnation):
                logger.info(log_line("fleet_id_taken_over", **self._who, incarnation=incarnation))
            case IdShared(incarnation):
                logger.warning(log_line("fleet_id_shared", **self._who, incarnation=incarnation))
            case IdOwnAgain():
                logger.info(log_line("fleet_id_own_again", **self._who))
            case _:
                assert_never(event)


def _named(ids: Sequence[str]) -> str | None:
    if not ids:
        return None
    return ",".join(ids) if len(ids) <= _MOST_NAMED else str(len(ids))
